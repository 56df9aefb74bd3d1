// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: iowait - schedutil's own boost, which doubles with wake-ups from IO
 *
 * Idea: Boost a CPU on which tasks wake up from IO; the boost grows as long as they do. Each
 * frequency evaluation after such a wake-up doubles the boost, each other one halves it.
 * Continuous IO reaches the highest frequency after four evaluations, and a single wake-up gives
 * an eighth.
 *
 * State kept, per CPU: the boost, whether a wake-up has requested it since the last evaluation,
 * and the time of the last update.
 *
 * Decision:
 *
 *  1. At each update, before the rate limit: if there is a boost and the last update was more than
 *     a tick ago, reset it: to the minimum if a task has just woken up from IO, else to zero.
 *  2. Otherwise, if a task has just woken up from IO, the first one since the last evaluation,
 *     double the boost, up to the capacity of the biggest CPU. From zero it becomes the minimum.
 *  3. At each evaluation, after the rate limit: if the last update was more than a tick ago, no
 *     boost. If there was no request since the last evaluation, halve it; below the minimum it
 *     ends.
 *  4. The boost is the result of step 3, as a share of the CPU's capacity.
 *
 * Known weaknesses: It boosts whether or not IO gets faster. One wake-up a tick keeps the boost,
 * even if unrelated tasks cause it. It belongs to the CPU, not to the task: placement and energy
 * estimates do not use it, it remains when the task moves, and on the new CPU it starts from the
 * minimum.
 *
 * Departures: None known. With the default parameters it makes the same decisions as kernel/sched/
 * cpufreq_schedutil.c of Linux 6.1 and 6.12; a test compares them over random sequences of calls.
 * In 6.1 this code limits the result by the runqueue's uclamp values; here the caller does, as in
 * 6.12.
 *
 * References: Linux 6.12 kernel/sched/cpufreq_schedutil.c.
 */

#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched.h>

#include "ioboost.h"

/* An eighth of the biggest CPU, so that a single wake-up costs little. */
static unsigned int boost_min = SCHED_CAPACITY_SCALE / 8;
module_param(boost_min, uint, 0644);
MODULE_PARM_DESC(boost_min, "the least boost, of 1024 (default 128)");

/* The whole CPU: continuous IO gets the highest frequency. */
static unsigned int boost_max = SCHED_CAPACITY_SCALE;
module_param(boost_max, uint, 0644);
MODULE_PARM_DESC(boost_max, "the highest boost, of 1024 (default 1024)");

/* Fast both ways: three doublings from the minimum to the whole, three halvings back. */
static unsigned int rise_shift = 1;
module_param(rise_shift, uint, 0644);
MODULE_PARM_DESC(rise_shift, "a boost rises by this power of two (default 1: it doubles)");

static unsigned int fall_shift = 1;
module_param(fall_shift, uint, 0644);
MODULE_PARM_DESC(fall_shift, "a boost falls by this power of two (default 1: it halves)");

/* A busy CPU is updated at least once a tick, so a longer gap means that it was idle. */
static unsigned int silence_ticks = 1;
module_param(silence_ticks, uint, 0644);
MODULE_PARM_DESC(silence_ticks, "ticks without an update after which a boost ends (default 1)");

/* In C, a shift by the width of the type or more is undefined. */
#define SHIFT_MAX	31

struct iowait_cpu {
	u64		last_update;
	unsigned int	boost;
	bool		is_pending;
};

static DEFINE_PER_CPU(struct iowait_cpu, iowait_cpus);

static bool iowait_was_silent(struct iowait_cpu *iowait, u64 now)
{
	s64 silence_ns = now - iowait->last_update;

	return silence_ns > (s64)silence_ticks * TICK_NSEC;
}

static unsigned int iowait_risen(unsigned int boost)
{
	if (!boost)
		return boost_min;
	return min_t(u64, (u64)boost << min_t(u32, rise_shift, SHIFT_MAX), boost_max);
}

static unsigned int iowait_fallen(unsigned int boost)
{
	boost >>= min_t(u32, fall_shift, SHIFT_MAX);
	return boost < boost_min ? 0 : boost;
}

static void iowait_update(unsigned int cpu, u64 now, unsigned int flags)
{
	struct iowait_cpu *iowait = per_cpu_ptr(&iowait_cpus, cpu);
	bool from_io = flags & IOBOOST_IOWAIT;

	if (iowait->boost && iowait_was_silent(iowait, now)) {
		iowait->boost = from_io ? boost_min : 0;
		iowait->is_pending = from_io;
	} else if (from_io && !iowait->is_pending) {
		/* Once per evaluation: further wake-ups do not show how long the IO will continue. */
		iowait->is_pending = true;
		iowait->boost = iowait_risen(iowait->boost);
	}
	iowait->last_update = now;
}

static unsigned long iowait_cpu_boost(unsigned int cpu, u64 now, unsigned long max_cap)
{
	struct iowait_cpu *iowait = per_cpu_ptr(&iowait_cpus, cpu);

	if (!iowait->boost)
		return 0;

	/* Only another CPU that shares the clock can be stale: this one has just been updated. */
	if (iowait_was_silent(iowait, now)) {
		iowait->boost = 0;
		iowait->is_pending = false;
		return 0;
	}

	if (!iowait->is_pending) {
		iowait->boost = iowait_fallen(iowait->boost);
		if (!iowait->boost)
			return 0;
	}
	iowait->is_pending = false;
	return (min_t(unsigned long, iowait->boost, SCHED_CAPACITY_SCALE) * max_cap) >>
	       SCHED_CAPACITY_SHIFT;
}

static const struct ioboost_ops iowait_ops = {
	.name = "iowait",
	.update = iowait_update,
	.cpu_boost = iowait_cpu_boost,
};

static int __init iowait_init(void)
{
	return ioboost_register(&iowait_ops);
}

core_initcall(iowait_init);

MODULE_DESCRIPTION("IO boost that doubles with wake-ups from IO, as schedutil's");
MODULE_LICENSE("GPL");
