/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The kernel's tracepoints of high-resolution timers and of the tick, handed to a simulator that records. */
#include_next <trace/events/timer.h>

#ifndef KHOST_TRACE_EVENTS_TIMER_H
#define KHOST_TRACE_EVENTS_TIMER_H

#include <khost.h>

void khost_traced(enum khost_traced kind, const void *timer, const void *function,
		  unsigned long long expires_ns, unsigned long long softexpires_ns);

void khost_starts(const void *timer, const void *function, unsigned long long expires_ns,
		  unsigned long long softexpires_ns);
void khost_expires(const void *timer, const void *function, unsigned long long now_ns);

/* The time of an expiry: up to 7.2 a pointer to it, from 7.3 on itself. */
static inline unsigned long long khost_pointed_ns(const ktime_t *now)
{
	return *now;
}

static inline unsigned long long khost_given_ns(ktime_t now)
{
	return now;
}

#define khost_expiry_ns(now) _Generic((now), ktime_t: khost_given_ns, default: khost_pointed_ns)(now)

#define trace_hrtimer_start(timer, ...)								\
	khost_starts(timer, ACCESS_PRIVATE(timer, function), hrtimer_get_expires(timer),	\
		     hrtimer_get_softexpires(timer))
#define trace_hrtimer_cancel(timer) khost_traced(KHOST_HRTIMER_CANCEL, timer, NULL, 0, 0)
#define trace_hrtimer_expire_entry(timer, now)							\
	khost_expires(timer, ACCESS_PRIVATE(timer, function), khost_expiry_ns(now))
#define trace_hrtimer_expire_exit(timer) khost_traced(KHOST_HRTIMER_EXPIRE_EXIT, timer, NULL, 0, 0)
#define trace_tick_stop(success, dependency)							\
	khost_traced((success) ? KHOST_TICK_STOP : KHOST_TICK_KEPT, NULL, NULL, 0, 0)

#endif
