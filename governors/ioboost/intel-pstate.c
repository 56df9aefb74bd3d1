// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: intel-pstate - the boost that intel_pstate gives to waits for IO
 *
 * Idea: As iowait does, boost a CPU the more the longer tasks wake up on it from IO; but count
 * every update of the CPU's utilization, not every evaluation of its frequency. A wake-up from IO
 * doubles the boost, any other update halves it.
 *
 * State kept, per CPU: the boost, in 256ths of the CPU, and when its last update was.
 *
 * Decision:
 *
 *  1. An update for a wake-up from IO that comes more than a tick after the last update begins with
 *     an eighth; else it doubles the boost, up to the whole CPU, and less than an eighth becomes
 *     an eighth.
 *  2. Any other update that comes more than a tick after the last ends the boost; else it halves
 *     it.
 *  3. What is left, as a share of the CPU's capacity, is the least that its utilization counts for.
 *
 * Known weaknesses: those of iowait. A task that wakes up from IO and does something else between
 * its waits keeps the boost low, however much it would gain: each of its ticks and other wake-ups
 * halves what a wait has doubled. Ten wake-ups between two evaluations are enough for all of it.
 *
 * Departures: intel_pstate compares the boost with the share of time that the CPU was not halted,
 * every 10 ms at most; here schedutil evaluates, with its own rate limit and utilization. It takes
 * no notice of updates that another CPU makes (smp_processor_id() is not the CPU); here each
 * counts. With HWP the driver knows another boost, of the least performance asked for
 * (hwp_dynamic_boost), which is not this one.
 *
 * References: Linux 6.12 drivers/cpufreq/intel_pstate.c, intel_pstate_update_util() and
 * get_target_pstate(), active mode without HWP.
 */

#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched.h>

#include "ioboost.h"

/* Of a CPU: the driver reckons in 256ths (FRAC_BITS). */
#define PSTATE_SHIFT	8
#define PSTATE_WHOLE	(1U << PSTATE_SHIFT)

/* An eighth, so that a wake-up that stays alone costs little. */
static unsigned int boost_min = PSTATE_WHOLE / 8;
module_param(boost_min, uint, 0644);
MODULE_PARM_DESC(boost_min, "the least boost, of 256 (default 32)");

struct pstate_cpu {
	u64		last_update;
	unsigned int	boost;
};

static DEFINE_PER_CPU(struct pstate_cpu, pstate_cpus);

static unsigned int pstate_risen(unsigned int boost)
{
	unsigned int least = min(boost_min, PSTATE_WHOLE);

	if (boost < least)
		return least;
	return min(boost << 1, PSTATE_WHOLE);
}

static void pstate_update(unsigned int cpu, u64 now, unsigned int flags)
{
	struct pstate_cpu *pstate = per_cpu_ptr(&pstate_cpus, cpu);
	/* Updates of other CPUs may be out of order: a time in the past is not long ago. */
	bool was_silent = (s64)(now - pstate->last_update) > (s64)TICK_NSEC;

	if (was_silent)
		pstate->boost = 0;

	if (flags & IOBOOST_IOWAIT)
		pstate->boost = pstate_risen(pstate->boost);
	else
		pstate->boost >>= 1;
	pstate->last_update = now;
}

static unsigned long pstate_cpu_boost(unsigned int cpu, u64 now, unsigned long max_cap)
{
	const struct pstate_cpu *pstate = per_cpu_ptr(&pstate_cpus, cpu);

	return (pstate->boost * max_cap) >> PSTATE_SHIFT;
}

static const struct ioboost_ops pstate_ops = {
	.name = "intel-pstate",
	.update = pstate_update,
	.cpu_boost = pstate_cpu_boost,
};

static int __init pstate_init(void)
{
	return ioboost_register(&pstate_ops);
}

core_initcall(pstate_init);

MODULE_DESCRIPTION("IO boost that doubles with wake-ups from IO, as intel_pstate's");
MODULE_LICENSE("GPL");
