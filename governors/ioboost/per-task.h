/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * DOC: per-task.h - levels of a boost, by the rate of waits for IO
 *
 * Common part of per-task.c and per-task-v2.c: the level of a task rises while each rise makes the
 * task wait for IO more often, which means higher throughput.
 */
#ifndef _PER_TASK_H
#define _PER_TASK_H

#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/time64.h>

#include "ioboost.h"

/* Long enough for 25 waits for a device that serves a request in a millisecond. */
static unsigned int interval_ms = 25;
module_param(interval_ms, uint, 0644);
MODULE_PARM_DESC(interval_ms, "what an interval grows by with each level, in ms (default 25)");

/* 1000 a second: fewer are not heavy IO. */
static unsigned int waits_min = 25;
module_param(waits_min, uint, 0644);
MODULE_PARM_DESC(waits_min, "waits for IO in an interval to be boosted at all (default 25)");

/* Eight steps from nothing to the whole of the biggest CPU. */
static unsigned int levels = 8;
module_param(levels, uint, 0644);
MODULE_PARM_DESC(levels, "the highest level, up to 16 (default 8)");

/* 1024 / 1.25 / 8: with schedutil's headroom, the highest level is the full capacity. */
static unsigned int level_util = 102;
module_param(level_util, uint, 0644);
MODULE_PARM_DESC(level_util, "utilization that each level is worth, of 1024 (default 102)");

/* Above the random variation of the count of an interval. */
static unsigned int waits_step = 5;
module_param(waits_step, uint, 0644);
MODULE_PARM_DESC(waits_step, "more waits an interval that make a level worth having (default 5)");

/* A faster CPU does not help if the device takes longer. */
static unsigned int timeout_ms = 10;
module_param(timeout_ms, uint, 0644);
MODULE_PARM_DESC(timeout_ms, "a longer wait for IO ends the boost, in ms (default 10)");

#define PER_TASK_LEVELS_MAX	16
/* Shift of a step that does not depend on the threshold. */
#define PER_TASK_NO_SHIFT	31

/*
 * @timeout: deadline of the wake-up; a later one ends the boost
 * @interval_start: 0 without an interval; @level is then 0
 * @threshold: @waits of an interval that are needed to keep the level
 * @counted: level in the runqueue's counts, 0 if the task is not counted
 */
struct per_task {
	u64	timeout;
	u64	interval_start;
	u32	threshold;
	u32	waits;
	u32	level;
	u32	counted;
};

static inline u32 per_task_less(u32 waits, u32 step)
{
	return waits > step ? waits - step : 0;
}

/* A significant difference of waits: a fraction of the threshold, by @shift, or the minimum. */
static inline u32 per_task_step(u32 threshold, unsigned int shift)
{
	return max_t(u32, threshold >> min_t(u32, shift, PER_TASK_NO_SHIFT), waits_step);
}

static inline u32 per_task_top(void)
{
	return min_t(u32, levels, PER_TASK_LEVELS_MAX);
}

static inline unsigned long per_task_util(u32 level)
{
	return min_t(u64, (u64)level * level_util, SCHED_CAPACITY_SCALE);
}

/* A higher level needs a longer interval to show its effect. */
static inline u64 per_task_interval_ns(u32 level)
{
	return (u64)(level + 1) * interval_ms * NSEC_PER_MSEC;
}

static inline void per_task_forget(struct per_task *task)
{
	task->interval_start = 0;
	WRITE_ONCE(task->level, 0);
}

/* The next interval is longer: require the same rate of waits, plus a step. */
static inline void per_task_rise(struct per_task *task, unsigned int shift)
{
	u32 level = task->level + 1;

	WRITE_ONCE(task->level, level);
	task->threshold = task->waits * (level + 1) / level;
	task->threshold += per_task_step(task->threshold, shift);
}

static inline void per_task_fall(struct per_task *task, unsigned int shift)
{
	u32 level = task->level - 1;

	WRITE_ONCE(task->level, level);
	task->threshold = task->waits * level / (level + 1);
	task->threshold = per_task_less(task->threshold, per_task_step(task->threshold, shift));
}

/* At the end of an interval: adjusts the level. @falls_up: rise instead of falling. */
static inline void per_task_judge(struct per_task *task, unsigned int shift, bool falls_up)
{
	u32 step = per_task_step(task->threshold, shift);
	u32 top = per_task_top();

	if (task->waits < waits_min) {
		WRITE_ONCE(task->level, 0);
	} else if (!task->level) {
		if (top)
			per_task_rise(task, shift);
	} else if (task->waits > task->threshold + step) {
		if (task->level < top)
			per_task_rise(task, shift);
		else
			task->threshold = per_task_less(task->waits, step);
	} else if (task->waits < task->threshold) {
		if (task->level == 1)
			WRITE_ONCE(task->level, 0);
		else if (!falls_up)
			per_task_fall(task, shift);
		else if (task->level < top)
			per_task_rise(task, shift);
	} else if (task->level >= top) {
		/* At the top, it must keep the highest rate so far. */
		task->threshold = max(task->threshold, per_task_less(task->waits, step));
	}
}

/*
 * A task goes to sleep. This counts the new wait as if it ended in time, so that the wake-up, which
 * delays the next request, only checks the timeout.
 */
static inline void per_task_sleep(struct per_task *task, u64 now, unsigned int flags,
				  unsigned int shift, bool falls_up)
{
	if (!(flags & IOBOOST_IOWAIT)) {
		per_task_forget(task);
		return;
	}

	task->timeout = now + (u64)timeout_ms * NSEC_PER_MSEC;
	if (task->interval_start) {
		task->waits++;
		if (now < task->interval_start + per_task_interval_ns(task->level))
			return;
		per_task_judge(task, shift, falls_up);
	}
	task->interval_start = now;
	task->waits = 1;
}

#endif /* _PER_TASK_H */
