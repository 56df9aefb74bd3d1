// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Answers what it was given, so that a wrong layout or order shows; or fails as asked. */
#include <linux/bug.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/timekeeping.h>

#include "ioboost.h"

static int how;
module_param(how, int, 0644);

struct seen {
	u64 now;
	unsigned int cpu;
	unsigned int flags;
};

static DEFINE_PER_CPU(struct seen, seen_cpus);
static volatile int zero;

static void fail(struct ioboost_task *task)
{
	switch (how) {
	case 1:
		*(volatile int *)(unsigned long)zero = 1;
		break;
	case 2:
		BUG();
		break;
	case 3:
		/* Past the last task. */
		task[4].state[0] = 1;
		break;
	case 4:
		for (;;)
			barrier();
	}
}

static void seen_enqueue(unsigned int cpu, struct ioboost_task *task, u64 now, unsigned int flags)
{
	struct seen *seen = ioboost_task_state(task, struct seen);

	fail(task);
	BUG_ON(cpu != smp_processor_id());
	seen->now += now;
	seen->cpu = cpu;
	seen->flags = flags;
}

static void seen_dequeue(unsigned int cpu, struct ioboost_task *task, u64 now, unsigned int flags)
{
	BUG_ON(cpu != smp_processor_id());
	ioboost_task_state(task, struct seen)->flags |= flags << 4;
}

static void seen_update(unsigned int cpu, u64 now, unsigned int flags)
{
	struct seen *seen = per_cpu_ptr(&seen_cpus, cpu);

	seen->now = now;
	seen->flags = flags;
}

static unsigned long seen_cpu_boost(unsigned int cpu, u64 now, unsigned long max_cap)
{
	struct seen *seen = per_cpu_ptr(&seen_cpus, cpu);

	if (how == 5)
		return max_cap + 1024;
	if (how == 6)
		return ~0UL;
	return max_cap + now - seen->now + seen->flags;
}

static unsigned long seen_task_boost(const struct ioboost_task *task)
{
	const struct seen *seen = ioboost_task_state(task, const struct seen);

	return how == 7 ? 1025 : seen->now + seen->cpu;
}

static unsigned long seen_task_uclamp_min(const struct ioboost_task *task)
{
	return ioboost_task_state(task, const struct seen)->flags + task->uclamp_max;
}

static unsigned long seen_rq_boost(unsigned int cpu)
{
	return how == 8 ? per_cpu_ptr(&seen_cpus, 1000)->cpu : 700 + cpu;
}

static const struct ioboost_ops seen_ops = {
	.name = "seen",
	.enqueue = seen_enqueue,
	.dequeue = seen_dequeue,
	.update = seen_update,
	.cpu_boost = seen_cpu_boost,
	.task_boost = seen_task_boost,
	.task_uclamp_min = seen_task_uclamp_min,
	.rq_boost = seen_rq_boost,
};

static int __init seen_init(void)
{
	return how == 9 ? -ENODEV : ioboost_register(&seen_ops);
}
core_initcall(seen_init);
