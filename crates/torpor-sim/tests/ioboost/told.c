// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Fails if what it is passed breaks a promise of ioboost.h; and, if its parameter says so, at the
 * first event of a kind, so that the error tells what that was.
 */
#include <linux/bug.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched.h>

#include "ioboost.h"

enum { NOTHING, SLEEP_FOR_IO, WAKEUP_FROM_IO, UPDATE_FROM_IO, EVALUATION, MOVE };

static int stop;
module_param(stop, int, 0644);
static unsigned int uclamp_max = 1024;
module_param(uclamp_max, uint, 0644);

/* @on: the CPU it is on and 1, or 0; @slept: the flags of its last sleep; @has_begun: not new. */
struct told {
	u32 on;
	u32 slept;
	u32 has_begun;
};

struct told_cpu {
	u64 from_io_at;
};

static DEFINE_PER_CPU(struct told_cpu, told_cpus);

static void stop_at(int event)
{
	BUG_ON(stop == event);
}

static void told_enqueue(unsigned int cpu, struct ioboost_task *task, u64 now, unsigned int flags)
{
	struct told *told = ioboost_task_state(task, struct told);

	BUG_ON(told->on);
	BUG_ON(task->uclamp_max != uclamp_max);
	BUG_ON(!(flags & IOBOOST_WAKEUP) != !told->slept);
	if (flags & IOBOOST_WAKEUP) {
		BUG_ON((flags ^ told->slept) & IOBOOST_IOWAIT);
		if (flags & IOBOOST_IOWAIT)
			stop_at(WAKEUP_FROM_IO);
	} else if (told->has_begun) {
		stop_at(MOVE);
	}
	if (flags & IOBOOST_IOWAIT)
		per_cpu_ptr(&told_cpus, cpu)->from_io_at = now;
	*told = (struct told){ .on = cpu + 1, .has_begun = true };
}

static void told_dequeue(unsigned int cpu, struct ioboost_task *task, u64 now, unsigned int flags)
{
	struct told *told = ioboost_task_state(task, struct told);

	BUG_ON(told->on != cpu + 1);
	told->on = 0;
	told->slept = flags & IOBOOST_SLEEP ? flags : 0;
	if (told->slept & IOBOOST_IOWAIT)
		stop_at(SLEEP_FOR_IO);
}

static void told_update(unsigned int cpu, u64 now, unsigned int flags)
{
	struct told_cpu *told = per_cpu_ptr(&told_cpus, cpu);

	if (flags & IOBOOST_IOWAIT) {
		BUG_ON(told->from_io_at != now);
		stop_at(UPDATE_FROM_IO);
	}
}

static unsigned long told_cpu_boost(unsigned int cpu, u64 now, unsigned long max_cap)
{
	BUG_ON(!max_cap || max_cap > SCHED_CAPACITY_SCALE);
	stop_at(EVALUATION);
	return 0;
}

static const struct ioboost_ops told_ops = {
	.name = "told",
	.enqueue = told_enqueue,
	.dequeue = told_dequeue,
	.update = told_update,
	.cpu_boost = told_cpu_boost,
};

static int __init told_init(void)
{
	return ioboost_register(&told_ops);
}
core_initcall(told_init);
