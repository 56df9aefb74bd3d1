// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * DOC: per-task - a boost of the task, kept only if it increases throughput
 *
 * Idea: Boost a task that waits for IO very often, level by level, and keep a level only if the
 * task then waits even more often. If IO does not get faster, a faster CPU is a waste. The boost
 * moves with the task, and is considered when a CPU is selected for it.
 *
 * State kept, per task: its level, 0 to 8, each worth a utilization of 102; the start of the
 * current interval, which lasts 25 ms times (level + 1); the number of waits for IO in it; the
 * number needed to keep the level; and the deadline of a wait. Per CPU: the number of runnable
 * tasks of each level.
 *
 * Decision:
 *
 *  1. If a task goes to sleep for another reason than IO, reset its level and interval.
 *  2. Count its waits for IO. At the end of an interval with fewer than 25 waits, go to level 0.
 *     At level 0, 25 waits are enough for level 1.
 *  3. If the count exceeds the threshold by more than 5, the level rises; if it is below the
 *     threshold, the level falls. The new threshold is the count, scaled to the length of the new
 *     interval, plus 5 after a rise, minus 5 after a fall. On the highest level the threshold
 *     follows the count upwards.
 *  4. If the task wakes up more than 10 ms later, reset its level and interval.
 *  5. While it is runnable, the utilization of its CPU is at least that of the highest level of
 *     all runnable tasks. For placement, the utilization of the task is at least that of its
 *     level.
 *
 * Known weaknesses: Each level takes one interval, so the highest is reached after 25 + 50 + ... +
 * 200 ms = 0.9 s at the earliest. A rate that does not depend on the CPU alternates between levels
 * 0 and 1, since
 * the threshold after a rise is higher than the rate. A task on a higher level alternates there,
 * since a fall reduces the threshold by more than the interval (from level 8 by 7/8 instead of
 * 8/9), so that the same rate looks like a gain. It needs 1000 waits a second to start, so it never
 * boosts a journal that waits for few writes. The boost ends while the task
 * sleeps, so completion interrupts run without it.
 *
 * Departures from the patch as posted: There, a level without benefit rose instead of falling,
 * which its author corrected; posted_fall restores it. There, the highest level could then exceed
 * the table of levels; here it does not. The patch resets a task that leaves a runqueue for any
 * reason but a wait for IO; here only a sleep resets it, so a task that moves while runnable keeps
 * its boost. The patch checks the timeout on each enqueue, here only on wake-ups.
 * FIDELITY(ioboost-per-task): written from the text of a patch that no kernel has.
 *
 * References: "Introduce per-task io utilization boost" and "sched/fair: Introduce per-task io
 * util boost", C. Loehle, 4 March 2024, 20240304201625.100619-1-christian.loehle@arm.com and -2;
 * the correction: 1ff973fc-66a4-446e-8590-ec655c686c90@arm.com.
 */

#include <linux/init.h>
#include <linux/module.h>
#include <linux/percpu.h>

#include "per-task.h"

static bool posted_fall;
module_param(posted_fall, bool, 0644);
MODULE_PARM_DESC(posted_fall, "a level that does not pay rises, as first posted (default N)");

struct per_task_rq {
	u32 runnable[PER_TASK_LEVELS_MAX];
};

static DEFINE_PER_CPU(struct per_task_rq, per_task_rqs);

static void per_task_enqueue(unsigned int cpu, struct ioboost_task *io, u64 now,
			     unsigned int flags)
{
	struct per_task *task = ioboost_task_state(io, struct per_task);
	struct per_task_rq *rq = per_cpu_ptr(&per_task_rqs, cpu);

	if (flags & IOBOOST_WAKEUP && now > task->timeout)
		per_task_forget(task);

	task->counted = task->level;
	if (task->counted)
		WRITE_ONCE(rq->runnable[task->counted - 1], rq->runnable[task->counted - 1] + 1);
}

static void per_task_dequeue(unsigned int cpu, struct ioboost_task *io, u64 now,
			     unsigned int flags)
{
	struct per_task *task = ioboost_task_state(io, struct per_task);
	struct per_task_rq *rq = per_cpu_ptr(&per_task_rqs, cpu);

	if (task->counted)
		WRITE_ONCE(rq->runnable[task->counted - 1], rq->runnable[task->counted - 1] - 1);
	task->counted = 0;

	if (flags & IOBOOST_SLEEP)
		per_task_sleep(task, now, flags, PER_TASK_NO_SHIFT, posted_fall);
}

static unsigned long per_task_task_boost(const struct ioboost_task *io)
{
	return per_task_util(READ_ONCE(ioboost_task_state(io, const struct per_task)->level));
}

static unsigned long per_task_rq_boost(unsigned int cpu)
{
	struct per_task_rq *rq = per_cpu_ptr(&per_task_rqs, cpu);
	u32 level;

	for (level = PER_TASK_LEVELS_MAX; level > 0; level--) {
		if (READ_ONCE(rq->runnable[level - 1]))
			break;
	}
	return per_task_util(level);
}

static unsigned long per_task_cpu_boost(unsigned int cpu, u64 now, unsigned long max_cap)
{
	return min(per_task_rq_boost(cpu), max_cap);
}

static const struct ioboost_ops per_task_ops = {
	.name = "per-task",
	.enqueue = per_task_enqueue,
	.dequeue = per_task_dequeue,
	.cpu_boost = per_task_cpu_boost,
	.task_boost = per_task_task_boost,
	.rq_boost = per_task_rq_boost,
};

static int __init per_task_init(void)
{
	return ioboost_register(&per_task_ops);
}

core_initcall(per_task_init);

MODULE_DESCRIPTION("IO boost that belongs to the task and has to pay");
MODULE_LICENSE("Dual MIT/GPL");
