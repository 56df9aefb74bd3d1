/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The kernel's tracepoints of high-resolution timers and of the tick, handed to a simulator that records. */
#include_next <trace/events/timer.h>

#ifndef KHOST_TRACE_EVENTS_TIMER_H
#define KHOST_TRACE_EVENTS_TIMER_H

#include <khost.h>

void khost_traced(enum khost_traced kind, const void *timer, const void *function,
		  unsigned long long expires_ns, unsigned long long softexpires_ns);

#define trace_hrtimer_start(timer, ...)								\
	khost_traced(KHOST_HRTIMER_START, timer, ACCESS_PRIVATE(timer, function),		\
		     hrtimer_get_expires(timer), hrtimer_get_softexpires(timer))
#define trace_hrtimer_cancel(timer) khost_traced(KHOST_HRTIMER_CANCEL, timer, NULL, 0, 0)
#define trace_hrtimer_expire_entry(timer, now)							\
	khost_traced(KHOST_HRTIMER_EXPIRE_ENTRY, timer, ACCESS_PRIVATE(timer, function), *(now), 0)
#define trace_hrtimer_expire_exit(timer) khost_traced(KHOST_HRTIMER_EXPIRE_EXIT, timer, NULL, 0, 0)
#define trace_tick_stop(success, dependency)							\
	khost_traced((success) ? KHOST_TICK_STOP : KHOST_TICK_KEPT, NULL, NULL, 0, 0)

#endif
