// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Functions of the kernel with nothing to do here: they return 0. They do not use the kernel's
 * headers, so that prototypes of any release fit. A hosted file that defines the same function
 * replaces it.
 *
 * Functions that must not be called are in unreached.c.
 */
#define NOTHING(name) __attribute__((weak)) long name(void) { return 0; }

/* Locks: one host thread acts for all CPUs, and no section is left in the middle; see locks.c. */
NOTHING(ida_free)
NOTHING(__mutex_init)
NOTHING(mutex_init_generic)
NOTHING(mutex_lock)
NOTHING(mutex_unlock)
NOTHING(__init_rwsem)
NOTHING(down_read)
NOTHING(up_read)
NOTHING(down_write)
NOTHING(up_write)
NOTHING(in_lock_functions)
NOTHING(percpu_down_write)
NOTHING(percpu_up_write)

/* Memory of tasks: nothing is mapped. */
NOTHING(switch_mm)
NOTHING(__mmdrop)
NOTHING(quiet_vmstat)

/* Signals and POSIX timers: there are none. */
NOTHING(ignore_signals)
NOTHING(calculate_sigpending)
NOTHING(run_posix_cpu_timers)
NOTHING(cpuset_cpus_allowed_fallback)

/* kfree_rcu() needs no later start: see slab.c. */
NOTHING(kfree_rcu_scheduler_running)

/* A dead task has left its control group: see task.c. */
NOTHING(cgroup_task_dead)

/* Files are written, but not read: see files.c. */
NOTHING(seq_open)

/* Devices, and folders without files to write. */
NOTHING(subsys_system_register)
NOTHING(device_register)
NOTHING(bus_unregister)
NOTHING(debugfs_create_str)
NOTHING(tk_debug_account_sleep_time)
NOTHING(register_syscore)
NOTHING(register_syscore_ops)
NOTHING(kobject_uevent)
NOTHING(add_uevent_var)
NOTHING(put_device)
NOTHING(kmem_dump_obj)
NOTHING(nbcon_cpu_emergency_enter)
NOTHING(nbcon_cpu_emergency_exit)
NOTHING(__udelay)
NOTHING(add_taint)
NOTHING(shrinker_register)
NOTHING(register_shrinker)
NOTHING(check_panic_on_warn)
NOTHING(__do_once_start)
NOTHING(__do_once_done)
NOTHING(add_device_randomness)
NOTHING(rng_is_initialized)
NOTHING(execute_with_initialized_rng)
NOTHING(irq_set_affinity)
NOTHING(irq_can_set_affinity)

/* One CPU at a time goes off or on: see hotplug.c. */
NOTHING(cpus_read_lock)
NOTHING(cpus_read_unlock)
NOTHING(cpus_write_lock)
NOTHING(cpus_write_unlock)
NOTHING(lockdep_assert_cpus_held)
NOTHING(clear_tasks_mm_cpumask)
NOTHING(workqueue_softirq_dead)
/* All CPUs of a machine stay present. */
NOTHING(cpuhp_online_idle)
NOTHING(cpuhp_threads_init)
NOTHING(smp_cpus_done)
NOTHING(detect_cache_attributes)

/* Workqueues have one thread: see work.c. */
NOTHING(wq_worker_running)
NOTHING(wq_worker_sleeping)
NOTHING(wq_worker_tick)
NOTHING(workqueue_softirq_action)

/* Every task has the permission. */
NOTHING(cap_task_setscheduler)
__attribute__((weak)) _Bool capable(int capability) { return 1; }
