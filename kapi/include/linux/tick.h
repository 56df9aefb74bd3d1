/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_TICK_H
#define _KAPI_LINUX_TICK_H

#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/hrtimer.h>
#include <linux/jump_label.h>
#include <linux/ktime.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/topology.h>
#include <linux/version.h>

/* False only on a kernel booted with nohz=off. */
extern bool tick_nohz_enabled __attribute__((visibility("hidden")));

#if KAPI_BEFORE(4, 17)
/* In these kernels the tick is stopped, if possible, before the governor is called. */
static inline ktime_t tick_nohz_get_sleep_length(void)
{
	kapi_host.cpu->asked_sleep_length = 1;
	return kapi_host.cpu->sleep_length_ns;
}
#else
/*
 * Returns the time from idle entry to the next timer, without the tick if that can be stopped;
 * @delta_next is the time to the next event with the tick. Both can be negative.
 */
static inline ktime_t tick_nohz_get_sleep_length(ktime_t *delta_next)
{
	struct kapi_cpu *cpu = kapi_host.cpu;

	cpu->asked_sleep_length = 1;
	*delta_next = cpu->delta_next_ns;
	return cpu->sleep_length_ns;
}
#endif

static inline bool tick_nohz_tick_stopped(void)
{
	return kapi_host.cpu->tick_stopped;
}

static inline bool tick_nohz_tick_stopped_cpu(int cpu)
{
	return kapi_cpu(cpu)->tick_stopped;
}

/* Whether the tick ended the sleep. Reading clears it. */
static inline bool tick_nohz_idle_got_tick(void)
{
	struct kapi_cpu *cpu = kapi_host.cpu;
	bool got_tick = cpu->got_tick;

	if (got_tick)
		cpu->got_tick = 0;
	return got_tick;
}

static inline ktime_t tick_nohz_get_next_hrtimer(void)
{
	return kapi_host.cpu->now_ns + kapi_host.cpu->delta_next_ns;
}

#endif /* _KAPI_LINUX_TICK_H */
