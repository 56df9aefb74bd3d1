/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What stands before a governor's file when it becomes a module; governor_end.h stands behind it.
 * The file itself is as it would be in the kernel: here its calls are led to what torpor_core has
 * found, and its initcall to a module's start.
 *
 * The wrapper around a file, which scripts/wrap.sh writes, defines TORPOR_NAME, the name that the
 * governor is offered under, and TORPOR_NEEDS, the symbols that it calls.
 */
#ifndef _TORPOR_GOVERNOR_H
#define _TORPOR_GOVERNOR_H

#include <linux/cpuidle.h>
#include <linux/kvm_para.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/stat.h>
#include <linux/sched/topology.h>
#include <linux/tick.h>
#include <linux/version.h>
#include <trace/events/power.h>

#include "core.h"

static_assert(sizeof(TORPOR_NAME) <= CPUIDLE_NAME_LEN,
	      "a governor's name has 15 characters at most");

/* As the file has them; what the kernel sees are the functions below, which count its users. */
static struct cpuidle_governor *torpor_governor;
static int (*torpor_enable_own)(struct cpuidle_driver *drv, struct cpuidle_device *dev);
static void (*torpor_disable_own)(struct cpuidle_driver *drv, struct cpuidle_device *dev);

/*
 * While the governor is current, each device holds the module. The core calls both under
 * cpuidle_lock, which unloading takes, too: so the module is still there when disable returns.
 */
static int torpor_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	int ret;

	if (!try_module_get(THIS_MODULE))
		return -ENODEV;
	ret = torpor_enable_own ? torpor_enable_own(drv, dev) : 0;
	if (ret)
		module_put(THIS_MODULE);
	return ret;
}

static void torpor_disable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	if (torpor_disable_own)
		torpor_disable_own(drv, dev);
	module_put(THIS_MODULE);
}

static int __init torpor_register(struct cpuidle_governor *gov)
{
	int ret;

	if (torpor_governor)
		return -EBUSY;
	torpor_enable_own = gov->enable;
	torpor_disable_own = gov->disable;
	gov->enable = torpor_enable;
	gov->disable = torpor_disable;
	ret = torpor_register_governor(gov, TORPOR_NAME);
	if (!ret)
		torpor_governor = gov;
	return ret;
}

#define cpuidle_register_governor(gov)		torpor_register(gov)

#define cpuidle_governor_latency_req(cpu) \
	static_call(torpor_cpuidle_governor_latency_req)(cpu)
#define nr_iowait_cpu(cpu)			static_call(torpor_nr_iowait_cpu)(cpu)
#define tick_nohz_get_sleep_length(delta) \
	static_call(torpor_tick_nohz_get_sleep_length)(delta)
#define tick_nohz_idle_got_tick()		static_call(torpor_tick_nohz_idle_got_tick)()
#define tick_nohz_tick_stopped()		static_call(torpor_tick_nohz_tick_stopped)()
#define tick_nohz_enabled			(*torpor_tick_nohz_enabled)
#define kvm_para_available()			torpor_kvm_para_available()

/* The scheduler tracks it with SMP only; until Linux 6.0 it wanted to be told the capacity. */
#ifndef CONFIG_SMP
#define sched_cpu_util(cpu)			((void)(cpu), 0UL)
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 0, 0)
#define sched_cpu_util(cpu)			static_call(torpor_sched_cpu_util)(cpu)
#else
#define sched_cpu_util(cpu) \
	static_call(torpor_sched_cpu_util)(cpu, arch_scale_cpu_capacity(cpu))
#endif

/* Tracepoints of the kernel that it does not export stay silent. */
#undef trace_guest_halt_poll_ns_grow
#undef trace_guest_halt_poll_ns_shrink
#define trace_guest_halt_poll_ns_grow(new, old)		do { (void)(new); (void)(old); } while (0)
#define trace_guest_halt_poll_ns_shrink(new, old)	do { (void)(new); (void)(old); } while (0)

/* The module's, in governor_end.h; and the file's own, if it was a module before. */
static int __init torpor_start(void);
static void __exit torpor_end(void);
static int (*torpor_start_own)(void) __refdata;
static void (*torpor_end_own)(void) __refdata;

module_init(torpor_start);
module_exit(torpor_end);

#undef module_init
#undef module_exit
#undef postcore_initcall
#define module_init(fn)		static int (*torpor_start_own)(void) __refdata = fn
#define module_exit(fn)		static void (*torpor_end_own)(void) __refdata = fn
#define postcore_initcall(fn)	module_init(fn)

#endif /* _TORPOR_GOVERNOR_H */
