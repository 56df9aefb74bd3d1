// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: intel-pstate - intel_pstate's boost for waits for IO
 *
 * Idea: Boost a CPU on which tasks wake up from IO; the boost grows with each such wake-up. Unlike
 * iowait, count each update of the CPU's utilization, not each evaluation of its frequency. A
 * wake-up from IO doubles the boost, any other update halves it.
 *
 * State kept, per CPU: the boost, in 256ths of the CPU, and the time of the last update.
 *
 * Decision:
 *
 *  1. On a wake-up from IO, start with an eighth if the last update was more than a tick ago.
 *     Otherwise double the boost, to at least an eighth and at most the whole CPU.
 *  2. On another update, end the boost if the last update was more than a tick ago, else halve it.
 *  3. The boost, as a share of the CPU's capacity, is the minimum of its utilization.
 *
 * Known weaknesses: Those of iowait. If a task wakes up from IO and also does something else, its
 * boost stays low, even if a higher one would help: each tick and each other wake-up halves what a
 * wait has doubled. Ten other wake-ups between two evaluations remove all of it.
 *
 * Departures: intel_pstate compares the boost with the share of time in which the CPU was not
 * halted, at most every 10 ms; here schedutil evaluates, with its own rate limit and utilization.
 * It ignores updates from other CPUs (smp_processor_id() is not the CPU); here all count. With HWP
 * the driver boosts the minimum performance request instead (hwp_dynamic_boost), which this file
 * does not.
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

/* Shares of a CPU in 256ths, as in the driver (FRAC_BITS). */
#define PSTATE_SHIFT	8
#define PSTATE_WHOLE	(1U << PSTATE_SHIFT)

/* An eighth, so that a single wake-up costs little. */
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
	/* Updates from other CPUs may be out of order: an earlier time does not mean a long pause. */
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
