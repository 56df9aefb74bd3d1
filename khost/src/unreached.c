// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Functions of the kernel that hosted files name and no simulation reaches. One that is reached all
 * the same ends the run and is named: nothing is made up. Without the kernel's headers, so that a
 * release may declare them as it likes. A hosted file that has the function itself wins.
 */
void khost_unreached(const char *name) __attribute__((noreturn));

#define UNREACHED(name) __attribute__((weak)) void name(void) { khost_unreached(#name); }

/* User memory and the files of sysfs, procfs and debugfs: nobody reads or writes any. */
UNREACHED(_copy_from_user)
UNREACHED(_copy_to_user)
UNREACHED(raw_copy_from_user)
UNREACHED(raw_copy_to_user)
UNREACHED(simple_read_from_buffer)
UNREACHED(noop_llseek)
UNREACHED(capable)
UNREACHED(has_capability_noaudit)
UNREACHED(get_option)

/* Going down: no CPU, driver or thread is taken away. */
UNREACHED(subsys_interface_unregister)
UNREACHED(cancel_work_sync)
UNREACHED(work_on_cpu_key)
UNREACHED(finish_rcuwait)
UNREACHED(rcuwait_wake_up)

/* Chance comes from the simulator's seeds alone. */
UNREACHED(get_random_bytes)
UNREACHED(siphash_1u64)

/* Kinds of values that no message here has. */
UNREACHED(fwnode_count_parents)
UNREACHED(fwnode_get_name)
UNREACHED(fwnode_get_name_prefix)
UNREACHED(fwnode_get_nth_parent)
UNREACHED(fwnode_handle_put)
UNREACHED(gfpflag_names)
UNREACHED(vmaflag_names)
UNREACHED(pageflag_names)
UNREACHED(guid_index)
UNREACHED(uuid_index)
UNREACHED(skip_spaces)
UNREACHED(string_escape_mem)
UNREACHED(time64_to_tm)

/* What a stall of a CPU would print. */
UNREACHED(dump_stack)
UNREACHED(print_worker_info)
UNREACHED(show_stack)
UNREACHED(show_regs)
UNREACHED(__printk_deferred_enter)
UNREACHED(__printk_deferred_exit)
