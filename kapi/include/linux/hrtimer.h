/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_HRTIMER_H
#define _KAPI_LINUX_HRTIMER_H

#include <linux/ktime.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>

typedef int clockid_t;

/* All clocks are the run's only clock. */
#define CLOCK_REALTIME		0
#define CLOCK_MONOTONIC		1
#define CLOCK_BOOTTIME		7

enum hrtimer_mode {
	HRTIMER_MODE_ABS = 0,
	HRTIMER_MODE_REL = 1,
	HRTIMER_MODE_PINNED = 2,
	HRTIMER_MODE_SOFT = 4,
	HRTIMER_MODE_HARD = 8,
	HRTIMER_MODE_ABS_PINNED = HRTIMER_MODE_ABS | HRTIMER_MODE_PINNED,
	HRTIMER_MODE_REL_PINNED = HRTIMER_MODE_REL | HRTIMER_MODE_PINNED,
	HRTIMER_MODE_ABS_HARD = HRTIMER_MODE_ABS | HRTIMER_MODE_HARD,
	HRTIMER_MODE_REL_HARD = HRTIMER_MODE_REL | HRTIMER_MODE_HARD,
	HRTIMER_MODE_ABS_PINNED_HARD = HRTIMER_MODE_ABS_PINNED | HRTIMER_MODE_HARD,
	HRTIMER_MODE_REL_PINNED_HARD = HRTIMER_MODE_REL_PINNED | HRTIMER_MODE_HARD,
};

/* A callback restarts its timer by starting it again; there is no function to forward it. */
enum hrtimer_restart {
	HRTIMER_NORESTART,
};

/* @cpu is the CPU that last started it; it is armed while that CPU lists it. */
struct hrtimer {
	enum hrtimer_restart (*function)(struct hrtimer *timer);
	ktime_t _softexpires;
	struct kapi_cpu *cpu;
};

/* The form until 6.14, whose caller sets @function, and its replacement since 6.13. */
static inline void hrtimer_init(struct hrtimer *timer, clockid_t clock, enum hrtimer_mode mode)
{
	*timer = (struct hrtimer) { };
}

static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *timer),
				 clockid_t clock, enum hrtimer_mode mode)
{
	*timer = (struct hrtimer) { .function = function };
}

/*
 * Arms the timer on the calling CPU, whatever pinning @mode requests. It expires on time: @slack_ns
 * is ignored.
 */
void hrtimer_start_range_ns(struct hrtimer *timer, ktime_t time, u64 slack_ns,
			    const enum hrtimer_mode mode);

static inline void hrtimer_start(struct hrtimer *timer, ktime_t time, const enum hrtimer_mode mode)
{
	hrtimer_start_range_ns(timer, time, 0, mode);
}

/* Returns 1 if it was armed. Callbacks never run during other calls, so there is no wait. */
int hrtimer_try_to_cancel(struct hrtimer *timer);

static inline int hrtimer_cancel(struct hrtimer *timer)
{
	return hrtimer_try_to_cancel(timer);
}

bool hrtimer_active(const struct hrtimer *timer);

static inline bool hrtimer_is_queued(struct hrtimer *timer)
{
	return hrtimer_active(timer);
}

static inline ktime_t hrtimer_get_expires(const struct hrtimer *timer)
{
	return timer->_softexpires;
}

#endif /* _KAPI_LINUX_HRTIMER_H */
