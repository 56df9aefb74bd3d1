/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Calls from the scheduler's files to an IO boost; kernel/sched/sched.h includes this. Without a
 * selected boost they do nothing, and the kernel uses its own.
 */
#ifndef _IOBOOST_HOOKS_H
#define _IOBOOST_HOOKS_H

#include <linux/cpuset.h>
#include <linux/sched.h>

#include "ioboost.h"

/* NULL for the kernel's own boost. */
extern const struct ioboost_ops *ioboost;

unsigned long ioboost_instead(unsigned int cpu, u64 now, unsigned long max_cap, unsigned long own);

static inline void ioboost_fork(struct task_struct *p)
{
	p->ioboost = (struct ioboost_task){ .uclamp_max = SCHED_CAPACITY_SCALE };
}

static inline unsigned int ioboost_flags(const struct task_struct *p, unsigned int flags)
{
	return flags | (p->in_iowait ? IOBOOST_IOWAIT : 0);
}

/*
 * A task with delayed dequeue is about to sleep: a boost regards it as gone. If it moves in the
 * meantime, the boost sees neither an enqueue nor a dequeue.
 */
static inline void ioboost_enqueue(struct rq *rq, struct task_struct *p, int flags)
{
	bool wakes = flags & (ENQUEUE_WAKEUP | ENQUEUE_DELAYED);

	if (!ioboost || !ioboost->enqueue)
		return;
	if (p->se.sched_delayed && !(flags & ENQUEUE_DELAYED))
		return;
	p->ioboost.uclamp_max = uclamp_eff_value(p, UCLAMP_MAX);
	ioboost->enqueue(cpu_of(rq), &p->ioboost, rq_clock(rq),
			 ioboost_flags(p, wakes ? IOBOOST_WAKEUP : 0));
}

static inline void ioboost_dequeue(struct rq *rq, struct task_struct *p, int flags)
{
	if (!ioboost || !ioboost->dequeue || p->se.sched_delayed)
		return;
	ioboost->dequeue(cpu_of(rq), &p->ioboost, rq_clock(rq),
			 ioboost_flags(p, flags & DEQUEUE_SLEEP ? IOBOOST_SLEEP : 0));
}

static inline void ioboost_update(unsigned int cpu, u64 now, unsigned int flags)
{
	if (ioboost && ioboost->update)
		ioboost->update(cpu, now, flags & SCHED_CPUFREQ_IOWAIT ? IOBOOST_IOWAIT : 0);
}

/* @own is the result of the kernel's boost. */
static inline unsigned long ioboost_cpu(unsigned int cpu, u64 now, unsigned long max_cap,
					unsigned long own)
{
	return ioboost ? ioboost_instead(cpu, now, max_cap, own) : own;
}

/* The minimum performance of @cpu, regardless of its tasks' limits. */
static inline unsigned long ioboost_perf(unsigned int cpu)
{
	return ioboost && ioboost->perf_min ? ioboost->perf_min(cpu) : 0;
}

/* The minimum utilization of @p for placement; @p can be NULL. */
static inline unsigned long ioboost_task(const struct task_struct *p)
{
	return p && ioboost && ioboost->task_boost ? ioboost->task_boost(&p->ioboost) : 0;
}

/* The same for @cpu, with @p on it. */
static inline unsigned long ioboost_rq(unsigned int cpu, const struct task_struct *p)
{
	unsigned long boost = ioboost && ioboost->rq_boost ? ioboost->rq_boost(cpu) : 0;

	return max(boost, ioboost_task(p));
}

static inline unsigned long ioboost_uclamp(const struct task_struct *p, enum uclamp_id clamp_id)
{
	if (clamp_id != UCLAMP_MIN || !ioboost || !ioboost->task_uclamp_min)
		return 0;
	return ioboost->task_uclamp_min(&p->ioboost);
}

#endif /* _IOBOOST_HOOKS_H */
