// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * DOC: per-task - a boost that belongs to the task and has to pay
 *
 * Idea: Boost a task that waits for IO very often, a level at a time, and keep a level only if the
 * task then waits more often still. If IO gets no faster, a faster CPU is a waste. The boost goes
 * where the task goes, and counts when a CPU is chosen for it.
 *
 * State kept, per task: its level, 0 to 8, worth 102 of utilization each; when the current
 * interval of 25 ms times level + 1 began; the waits for IO in it; how many are needed to keep the
 * level; when a wait would be too long. Per CPU: how many tasks of each level are runnable.
 *
 * Decision:
 *
 *  1. When a task goes to sleep for another reason than IO, it loses level and interval.
 *  2. When it waits for IO, count that. At the end of an interval: fewer than 25 waits, level 0.
 *     At level 0, 25 are enough for level 1.
 *  3. Five more than the threshold, and the level rises; fewer than the threshold, and it falls.
 *     The new threshold is the count, adjusted to the new interval's length, plus 5 after a rise
 *     and minus 5 after a fall. On the highest level the threshold follows the count up.
 *  4. When it wakes up more than 10 ms later, it loses level and interval.
 *  5. While it is runnable its CPU's utilization is at least the level's, the highest of all
 *     runnable tasks counting. Placement takes the task's utilization for at least that.
 *
 * Known weaknesses: a level costs an interval, so the highest takes at least 25 + 50 + ... +
 * 200 ms = 0.9 s. A rate that does not depend on the CPU hovers between levels 0 and 1, because
 * the threshold after a rise asks for more than there was; but on a higher level it hovers there,
 * because a fall lowers the threshold by more than the interval shrinks (by 7/8 from level 8, where
 * the intervals are 8/9), so that the same rate looks like a gain. It takes 1000 waits a second to
 * begin, so a journal that waits for each of few writes is never boosted. The boost ends while the
 * task sleeps, so completion interrupts run unboosted.
 *
 * Departures from the patch as posted: a level that does not pay rose instead of falling, an error
 * that its author corrected and posted_fall brings back; as posted the highest level then left
 * the table of levels, here it stays the highest. The patch resets a task that leaves a runqueue
 * for any reason but a wait for IO; here only sleep does, so a task that is moved while runnable
 * keeps its boost, as it would on a wake-up. It looks at the timeout on any enqueue, here on
 * wake-ups. FIDELITY(ioboost-per-task): a patch that no kernel has, from its text.
 *
 * References: "Introduce per-task io utilization boost" and "sched/fair: Introduce per-task io
 * util boost", C. Loehle, 4 March 2024, 20240304201625.100619-1-christian.loehle@arm.com and
 * -2; the correction: 1ff973fc-66a4-446e-8590-ec655c686c90@arm.com.
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
