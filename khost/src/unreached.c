// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Functions of the kernel that hosted files refer to, but that no simulation calls. A call ends the
 * run with the function's name, so that no result is made up. They do not use the kernel's headers,
 * so that prototypes of any release fit. A hosted file that defines the same function replaces it.
 */
void khost_unreached(const char *name) __attribute__((noreturn));

#define UNREACHED(name) __attribute__((weak)) void name(void) { khost_unreached(#name "()"); }

/* Files have no readers. */
UNREACHED(_copy_to_user)
UNREACHED(raw_copy_from_user)
UNREACHED(raw_copy_to_user)
UNREACHED(seq_lseek)
UNREACHED(seq_printf)
UNREACHED(seq_putc)
UNREACHED(seq_puts)
UNREACHED(__seq_puts)
UNREACHED(seq_read)
UNREACHED(seq_release)
UNREACHED(seq_write)
UNREACHED(default_llseek)
UNREACHED(sysfs_emit)
UNREACHED(sysfs_emit_at)
UNREACHED(bitmap_print_bitmask_to_buf)
UNREACHED(bitmap_print_list_to_buf)
UNREACHED(debugfs_read_file_bool)
UNREACHED(memory_read_from_buffer)
UNREACHED(simple_read_from_buffer)
UNREACHED(noop_llseek)
UNREACHED(has_capability_noaudit)
UNREACHED(get_option)

/* Removal: no driver or thread is ever removed. */
UNREACHED(subsys_interface_unregister)
UNREACHED(cancel_work_sync)
UNREACHED(work_on_cpu_key)

/* Quotas of control groups since 6.18: there is no return to user mode, in which they throttle. */
UNREACHED(task_work_add)
UNREACHED(task_work_cancel)

/* Random numbers come only from the simulator's seeds. */
UNREACHED(get_random_bytes)
UNREACHED(siphash_1u64)

/* Formats that no message here uses. */
UNREACHED(fwnode_count_parents)
UNREACHED(fwnode_get_name)
UNREACHED(fwnode_get_name_prefix)
UNREACHED(fwnode_get_nth_parent)
UNREACHED(fwnode_handle_put)
UNREACHED(gfpflag_names)
UNREACHED(vmaflag_names)
UNREACHED(pageflag_names)
UNREACHED(pagetype_names)
UNREACHED(guid_index)
UNREACHED(uuid_index)
UNREACHED(skip_spaces)
UNREACHED(string_escape_mem)
UNREACHED(time64_to_tm)

/* Report of a stalled CPU. */
UNREACHED(dump_stack)
UNREACHED(dump_stack_lvl)
UNREACHED(print_worker_info)
UNREACHED(show_stack)
UNREACHED(show_regs)
UNREACHED(__printk_deferred_enter)
UNREACHED(__printk_deferred_exit)

/* Loading of BPF programs: see scheduler.c. */
UNREACHED(bpf_get_btf_vmlinux)
UNREACHED(btf_ctx_access)
UNREACHED(btf_find_by_name_kind)

/* A task that waits for a lock: see locks.c. */
UNREACHED(__percpu_down_read)

/* No task moves to another group. */
UNREACHED(cgroup_taskset_first)
UNREACHED(cgroup_taskset_next)
