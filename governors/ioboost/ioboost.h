/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * DOC: ioboost.h - calls between the scheduler and an IO boost
 *
 * A task that waits for IO most of the time never looks busy, so a frequency that follows
 * utilization stays low and each request takes longer. An IO boost raises that utilization. It
 * stores its state in a block in each task and in its own per-CPU data; the scheduler calls it
 * through struct ioboost_ops. A call that is NULL costs nothing and returns 0.
 *
 * All boosts are utilizations: 0 to SCHED_CAPACITY_SCALE, the capacity of the biggest CPU at its
 * highest frequency. @now is in ns of one clock for all calls; calls from different CPUs can be
 * slightly out of order.
 */
#ifndef _IOBOOST_H
#define _IOBOOST_H

#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/types.h>

/* The task waits for IO or wakes up from it: task_struct::in_iowait, SCHED_CPUFREQ_IOWAIT. */
#define IOBOOST_IOWAIT		BIT(0)
/* dequeue(): the task goes to sleep. Without it, the task is moved or changed, and comes back. */
#define IOBOOST_SLEEP		BIT(1)
/* enqueue(): the task wakes up. Without it, the task comes back from a move or change. */
#define IOBOOST_WAKEUP		BIT(2)

#define IOBOOST_NAME_LEN	16
#define IOBOOST_TASK_WORDS	7

/*
 * A member of each task. In a new task it is zero except @uclamp_max, the task's effective
 * UCLAMP_MAX (SCHED_CAPACITY_SCALE without a limit), which the scheduler updates before enqueue().
 */
struct ioboost_task {
	u64	state[IOBOOST_TASK_WORDS];
	u32	uclamp_max;
	u32	reserved;
};

/* Returns @state as a pointer to @type, which must fit. */
#define ioboost_task_state(task, type) ({				\
	BUILD_BUG_ON(sizeof(type) > sizeof((task)->state));		\
	(type *)(task)->state; })

/*
 * @enqueue, @dequeue: a task enters or leaves the runqueue of @cpu; under its lock. enqueue()
 *	comes before the frequency update that the same wake-up causes.
 * @update: the scheduler requests an update of the frequency of @cpu; before the rate limit.
 *	With IOBOOST_IOWAIT if a task that waited for IO was just enqueued.
 * @cpu_boost: returns the minimum utilization of @cpu, before headroom. Called after the rate
 *	limit when the utilization of @cpu, or of another CPU that shares its clock, is evaluated;
 *	serialized with @update of these CPUs. @max_cap is the capacity of @cpu.
 * @task_boost: returns a task's minimum utilization for the selection of a CPU; unlocked.
 * @task_uclamp_min: returns the minimum of a task's UCLAMP_MIN; unlocked.
 * @rq_boost: returns the minimum utilization of @cpu for placement and energy estimates; unlocked.
 * @perf_min: returns the minimum performance of @cpu for frequencies and energy estimates, as in
 *	sugov_effective_cpu_perf(): after headroom, and regardless of UCLAMP_MAX; unlocked.
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

/* Called once, from an initcall. @ops must stay valid. */
int ioboost_register(const struct ioboost_ops *ops);

#endif /* _IOBOOST_H */
