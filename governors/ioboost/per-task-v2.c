// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * DOC: per-task-v2 - a boost of the task, as its uclamp minimum
 *
 * Idea: Apply the boost of per-task as the task's uclamp minimum. Placement needs no change, and
 * the user's uclamp maximum limits the boost. A CPU keeps the boost of the task that last woke up
 * there for a moment, so that it is still fast when the next request completes.
 *
 * State kept, per task: as in per-task. Per CPU: the boost of the last boosted task that woke up
 * from IO, and the time.
 *
 * Decision:
 *
 *  1. Levels rise and fall as in per-task, but the step is the larger of 5 and a 256th of the
 *     threshold, so that it grows with the rate.
 *  2. A task's uclamp minimum is at least 102 times its level, but not above its uclamp maximum.
 *  3. When a boosted task wakes up from IO, the CPU takes its boost, whether higher or lower.
 *  4. For 1 ms the CPU's utilization is at least that boost. So is its performance, regardless of
 *     clamps. Energy estimates use it even later, until the next evaluation of the frequency.
 *
 * Known weaknesses: Those of per-task, except that the boost continues while the task sleeps. If
 * there are several boosted tasks, the last one decides, not the highest. When the task moves, its
 * old CPU keeps the boost for 1 ms.
 *
 * Departures from the patch as posted: There, each frequency update of the CPU restarted the 1 ms,
 * so a CPU that does not share its clock never lost its boost; posted_hold restores that. If the
 * woken task has no boost, the patch uses that of the task running on the waker's CPU, and its
 * check for IO wake-ups also accepts any other flag; here only the woken task and wake-ups from IO
 * count. Moves and timeouts: as in per-task. FIDELITY(ioboost-per-task): written from the
 * text of a patch that no kernel has.
 *
 * References: "sched/fair: sugov: Introduce per-task io util boost", v2, C. Loehle, 18 May 2024,
 * 20240518113947.2127802-2-christian.loehle@arm.com.
 */

#include <linux/init.h>
#include <linux/module.h>
#include <linux/percpu.h>

#include "per-task.h"

/* A 256th: high rates vary by more than 5 waits an interval. */
static unsigned int step_shift = 8;
module_param(step_shift, uint, 0644);
MODULE_PARM_DESC(step_shift, "a step is at least the threshold >> this (default 8)");

/* A fast device completes a request in less time. */
static unsigned int hold_us = 1000;
module_param(hold_us, uint, 0644);
MODULE_PARM_DESC(hold_us, "how long a CPU keeps a task's boost, in us (default 1000)");

static bool posted_hold;
module_param(posted_hold, bool, 0644);
MODULE_PARM_DESC(posted_hold, "each frequency update prolongs the hold, as posted (default N)");

struct per_task_cpu {
	u64		since;
	unsigned long	boost;
};

static DEFINE_PER_CPU(struct per_task_cpu, per_task_cpus);

static unsigned long per_task_uclamp_min(const struct ioboost_task *io)
{
	u32 level = READ_ONCE(ioboost_task_state(io, const struct per_task)->level);

	return min_t(unsigned long, per_task_util(level), READ_ONCE(io->uclamp_max));
}

static void per_task_enqueue(unsigned int cpu, struct ioboost_task *io, u64 now,
			     unsigned int flags)
{
	struct per_task *task = ioboost_task_state(io, struct per_task);
	struct per_task_cpu *held = per_cpu_ptr(&per_task_cpus, cpu);
	unsigned long boost;

	if (!(flags & IOBOOST_IOWAIT))
		return;

	if (flags & IOBOOST_WAKEUP && now >= task->timeout)
		per_task_forget(task);

	boost = per_task_uclamp_min(io);
	if (!boost)
		return;
	held->since = now;
	held->boost = boost;
}

static void per_task_dequeue(unsigned int cpu, struct ioboost_task *io, u64 now,
			     unsigned int flags)
{
	if (flags & IOBOOST_SLEEP)
		per_task_sleep(ioboost_task_state(io, struct per_task), now, flags, step_shift,
			       false);
}

static void per_task_update(unsigned int cpu, u64 now, unsigned int flags)
{
	if (posted_hold)
		per_cpu_ptr(&per_task_cpus, cpu)->since = now;
}

static unsigned long per_task_cpu_boost(unsigned int cpu, u64 now, unsigned long max_cap)
{
	struct per_task_cpu *held = per_cpu_ptr(&per_task_cpus, cpu);

	if ((s64)(now - held->since) > (s64)hold_us * NSEC_PER_USEC)
		held->boost = 0;
	return min(held->boost, max_cap);
}

/* Does not check the time: as in the patch, the minimum holds until cpu_boost() ends it. */
static unsigned long per_task_perf_min(unsigned int cpu)
{
	return READ_ONCE(per_cpu_ptr(&per_task_cpus, cpu)->boost);
}

static const struct ioboost_ops per_task_ops = {
	.name = "per-task-v2",
	.enqueue = per_task_enqueue,
	.dequeue = per_task_dequeue,
	.update = per_task_update,
	.cpu_boost = per_task_cpu_boost,
	.task_uclamp_min = per_task_uclamp_min,
	.perf_min = per_task_perf_min,
};

static int __init per_task_init(void)
{
	return ioboost_register(&per_task_ops);
}

core_initcall(per_task_init);

MODULE_DESCRIPTION("IO boost that belongs to the task, as its uclamp minimum");
MODULE_LICENSE("Dual MIT/GPL");
