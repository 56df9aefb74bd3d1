/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Prologue of a governor's file that is built as a module; governor_end.h is the epilogue. The file
 * is the same as in the kernel: these macros redirect its calls to the functions that torpor_core
 * has found, and turn its initcall into the module's init.
 *
 * The wrapper around a file, written by scripts/wrap.sh, defines TORPOR_NAME, the governor's name
 * in sysfs, TORPOR_NEEDS, the symbols that it calls, and TORPOR_HAS_TIMERS, whether it uses timers.
 */
#ifndef _TORPOR_GOVERNOR_H
#define _TORPOR_GOVERNOR_H

#include <linux/cpuidle.h>
#include <linux/cpumask.h>
#include <linux/kvm_para.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/stat.h>
#include <linux/sched/topology.h>
#include <linux/smp.h>
#include <linux/tick.h>
#include <linux/version.h>
#include <trace/events/power.h>

#include "core.h"
#include "hrtimer.h"
#include "log.h"

static_assert(sizeof(TORPOR_NAME) <= CPUIDLE_NAME_LEN,
	      "a governor's name has 15 characters at most");

/* The governor and its file's functions; the kernel calls the wrappers below. */
static struct cpuidle_governor *torpor_governor;
static struct cpuidle_governor torpor_own;

static DEFINE_PER_CPU(struct torpor_timers, torpor_timers);
static struct dentry *torpor_timers_file;

/*
 * While the governor is current, each device holds a reference to the module. The core calls both
 * under cpuidle_lock, which unloading takes, too, so the module still exists when disable returns.
 */
static int torpor_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	int ret;

	if (!try_module_get(THIS_MODULE))
		return -ENODEV;
	if (torpor_log_is_on())
		torpor_log_table(TORPOR_NAME, drv, dev);
	ret = torpor_own.enable ? torpor_own.enable(drv, dev) : 0;
	if (ret)
		module_put(THIS_MODULE);
	return ret;
}

static void torpor_disable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	if (torpor_own.disable)
		torpor_own.disable(drv, dev);
	module_put(THIS_MODULE);
}

static int torpor_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	struct torpor_logged logged;

	torpor_log_begin(&logged, TORPOR_SELECT, drv, dev);
	logged.record.state = torpor_own.select(drv, dev, stop_tick);
	if (*stop_tick)
		logged.record.flags |= TORPOR_STOP_TICK;
	torpor_log_end(&logged);
	return logged.record.state;
}

static void torpor_reflect(struct cpuidle_device *dev, int index)
{
	struct torpor_logged logged;

	torpor_log_begin(&logged, TORPOR_REFLECT, NULL, dev);
	logged.record.state = index;
	torpor_own.reflect(dev, index);
	torpor_log_end(&logged);
}

static int __init torpor_register(struct cpuidle_governor *gov)
{
	int ret;

	if (torpor_governor)
		return -EBUSY;
	torpor_own = *gov;
	gov->enable = torpor_enable;
	gov->disable = torpor_disable;
	if (torpor_log_is_on()) {
		gov->select = torpor_select;
		gov->reflect = gov->reflect ? torpor_reflect : NULL;
	}
	ret = torpor_register_governor(gov, TORPOR_NAME);
	if (!ret)
		torpor_governor = gov;
	return ret;
}

#define cpuidle_register_governor(gov)		torpor_register(gov)

static inline ktime_t torpor_sleep_length(ktime_t *delta_next)
{
	ktime_t length = static_call(torpor_tick_nohz_get_sleep_length)(delta_next);

	torpor_note(TORPOR_DELTA_NEXT, *delta_next);
	return torpor_note(TORPOR_SLEEP_LENGTH, length);
}

static inline unsigned long torpor_capacity(int cpu)
{
	return torpor_note(TORPOR_CAPACITY, arch_scale_cpu_capacity(cpu));
}

/* The scheduler tracks it only with SMP; until Linux 6.0 the capacity was an argument. */
static inline unsigned long torpor_util(int cpu)
{
#ifndef CONFIG_SMP
	return 0;
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 0, 0)
	return torpor_note(TORPOR_UTIL, static_call(torpor_sched_cpu_util)(cpu));
#else
	return torpor_note(TORPOR_UTIL,
			   static_call(torpor_sched_cpu_util)(cpu, torpor_capacity(cpu)));
#endif
}

static inline u64 torpor_local_clock(void)
{
	return torpor_note(TORPOR_LOCAL_CLOCK, local_clock());
}

#undef arch_scale_cpu_capacity
#define arch_scale_cpu_capacity(cpu)		torpor_capacity(cpu)
#define cpuidle_governor_latency_req(cpu) \
	torpor_note(TORPOR_LATENCY_REQ, static_call(torpor_cpuidle_governor_latency_req)(cpu))
#define kvm_para_available()			torpor_kvm_para_available()
#define local_clock()				torpor_local_clock()
#define nr_iowait_cpu(cpu) \
	torpor_note(TORPOR_NR_IOWAIT, static_call(torpor_nr_iowait_cpu)(cpu))
#define sched_cpu_util(cpu)			torpor_util(cpu)
#define tick_nohz_enabled			(*torpor_tick_nohz_enabled)
#define tick_nohz_get_sleep_length(delta)	torpor_sleep_length(delta)
#define tick_nohz_idle_got_tick() \
	torpor_note(TORPOR_GOT_TICK, static_call(torpor_tick_nohz_idle_got_tick)())
#define tick_nohz_tick_stopped() \
	torpor_note(TORPOR_TICK_STOPPED, static_call(torpor_tick_nohz_tick_stopped)())

/* Whether a timer is in this module's memory of a CPU. */
static __maybe_unused bool torpor_has_timer(unsigned int cpu, const struct hrtimer *timer)
{
#ifdef CONFIG_SMP
	unsigned long start = (unsigned long)per_cpu_ptr(THIS_MODULE->percpu, cpu);

	return (unsigned long)timer - start < THIS_MODULE->percpu_size;
#else
	return true;
#endif
}

/* Returns the CPU that owns a timer. When a CPU goes offline, its timers move to another one. */
static __maybe_unused unsigned int torpor_timer_cpu(const struct hrtimer *timer)
{
	unsigned int here = smp_processor_id(), cpu;

	if (torpor_has_timer(here, timer))
		return here;
	for_each_possible_cpu(cpu) {
		if (torpor_has_timer(cpu, timer))
			return cpu;
	}
	return here;
}

/* A governor's own timer: its expiry is counted, and logged as an input. */
static enum hrtimer_restart (*torpor_timer_own)(struct hrtimer *timer);

static __maybe_unused enum hrtimer_restart torpor_timer(struct hrtimer *timer)
{
	unsigned int cpu = torpor_timer_cpu(timer);
	struct torpor_timers *timers = per_cpu_ptr(&torpor_timers, cpu);
	struct torpor_logged logged;
	enum hrtimer_restart ret;

	if (is_idle_task(current))
		timers->idle++;
	else
		timers->busy++;
	if (!torpor_log_is_on())
		return torpor_timer_own(timer);
	torpor_log_begin(&logged, TORPOR_TIMER, NULL, NULL);
	logged.record.cpu = cpu;
	ret = torpor_timer_own(timer);
	torpor_log_end(&logged);
	return ret;
}

/* Whether torpor_timer() wraps this callback: it wraps only the first; most governors have one. */
static __maybe_unused bool torpor_wraps(enum hrtimer_restart (*own)(struct hrtimer *timer))
{
	if (!torpor_timer_own)
		cmpxchg(&torpor_timer_own, NULL, own);
	if (torpor_timer_own == own)
		return true;
	pr_warn_once("%s: timers of its second callback are not counted\n", KBUILD_MODNAME);
	return false;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
static __maybe_unused void torpor_hrtimer_setup(struct hrtimer *timer,
						enum hrtimer_restart (*own)(struct hrtimer *timer),
						clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_setup(timer, torpor_wraps(own) ? torpor_timer : own, clock, mode);
}

#define hrtimer_setup(timer, own, clock, mode)	torpor_hrtimer_setup(timer, own, clock, mode)
#else
static __maybe_unused void torpor_hrtimer_start(struct hrtimer *timer, ktime_t time,
						enum hrtimer_mode mode)
{
	if (timer->function != torpor_timer && torpor_wraps(timer->function))
		timer->function = torpor_timer;
	hrtimer_start(timer, time, mode);
}

#define hrtimer_start(timer, time, mode)	torpor_hrtimer_start(timer, time, mode)
#endif

/* Tracepoints that the kernel does not export do nothing. */
#undef trace_guest_halt_poll_ns_grow
#undef trace_guest_halt_poll_ns_shrink
#define trace_guest_halt_poll_ns_grow(new, old)		do { (void)(new); (void)(old); } while (0)
#define trace_guest_halt_poll_ns_shrink(new, old)	do { (void)(new); (void)(old); } while (0)

/* The module's init and exit are in governor_end.h; the file's own are not used. */
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
