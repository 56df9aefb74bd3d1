/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * DOC: ioboost.h - what the scheduler tells a boost, and asks it
 *
 * A task that waits for IO most of the time never looks busy, so a frequency that follows
 * utilization stays low and each request takes longer. An IO boost raises the utilization that
 * is acted upon. It keeps what it knows in a block that lies in each task, and in per-CPU data
 * of its own; the scheduler calls it through struct ioboost_ops. A policy fills in the calls it
 * has use for: one that is NULL costs nothing and answers 0.
 *
 * All boosts are utilizations: 0 to SCHED_CAPACITY_SCALE, the capacity of the biggest CPU at its
 * highest frequency. @now is nanoseconds of one clock for all calls; seen from different CPUs it
 * may be slightly out of order.
 */
#ifndef _IOBOOST_H
#define _IOBOOST_H

#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/types.h>

/* The task waits for IO or wakes from that: task_struct::in_iowait, SCHED_CPUFREQ_IOWAIT. */
#define IOBOOST_IOWAIT		BIT(0)
/* Of dequeue(): the task goes to sleep; without it, it is moved or changed and comes back. */
#define IOBOOST_SLEEP		BIT(1)
/* Of enqueue(): the task wakes up; without it, it comes back from a move or change. */
#define IOBOOST_WAKEUP		BIT(2)

#define IOBOOST_NAME_LEN	16
#define IOBOOST_TASK_WORDS	7

/*
 * Lies by value in each task. A new task's is zero but for @uclamp_max, which the scheduler
 * keeps at the task's effective UCLAMP_MAX, SCHED_CAPACITY_SCALE if nobody limits it; up to date
 * before enqueue() at the latest.
 */
struct ioboost_task {
	u64	state[IOBOOST_TASK_WORDS];
	u32	uclamp_max;
	u32	reserved;
};

/* A policy's view of @state: a pointer to @type, which must fit. */
#define ioboost_task_state(task, type) ({				\
	BUILD_BUG_ON(sizeof(type) > sizeof((task)->state));		\
	(type *)(task)->state; })

/*
 * @enqueue, @dequeue: a task enters or leaves the runqueue of @cpu; under its lock. enqueue()
 *	comes before the frequency update that the same wake-up causes.
 * @update: each time the scheduler would have the frequency of @cpu updated, before the rate
 *	limit; with IOBOOST_IOWAIT if a task that waited for IO was just enqueued.
 * @cpu_boost: when the rate limit has passed and the utilization of @cpu, or of another CPU that
 *	shares its clock, is evaluated: what it is to be raised to, before headroom is added.
 *	Serialized with @update of all CPUs that share the clock. @max_cap is the capacity of @cpu.
 * @task_boost: what to take a task's utilization for at least when a CPU is looked for; unlocked.
 * @task_uclamp_min: what to take a task's UCLAMP_MIN for at least; unlocked.
 * @rq_boost: what to take the utilization of @cpu for at least when tasks are placed and energy
 *	is estimated; unlocked.
 * @perf_min: the least performance of @cpu where a frequency is evaluated or energy estimated, as
 *	sugov_effective_cpu_perf() has it: after the headroom, and above UCLAMP_MAX; unlocked.
 */
struct ioboost_ops {
	char name[IOBOOST_NAME_LEN];

	void (*enqueue)(unsigned int cpu, struct ioboost_task *task, u64 now, unsigned int flags);
	void (*dequeue)(unsigned int cpu, struct ioboost_task *task, u64 now, unsigned int flags);
	void (*update)(unsigned int cpu, u64 now, unsigned int flags);
	unsigned long (*cpu_boost)(unsigned int cpu, u64 now, unsigned long max_cap);
	unsigned long (*task_boost)(const struct ioboost_task *task);
	unsigned long (*task_uclamp_min)(const struct ioboost_task *task);
	unsigned long (*rq_boost)(unsigned int cpu);
	unsigned long (*perf_min)(unsigned int cpu);
};

/* Once, from an initcall; @ops stays where it is. */
int ioboost_register(const struct ioboost_ops *ops);

#endif /* _IOBOOST_H */
