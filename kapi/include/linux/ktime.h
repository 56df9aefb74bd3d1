/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_KTIME_H
#define _KAPI_LINUX_KTIME_H

#include <linux/limits.h>
#include <linux/time.h>
#include <linux/jiffies.h>

typedef s64 ktime_t;

#define KTIME_MAX	S64_MAX
#define KTIME_MIN	(-KTIME_MAX - 1)

#define ktime_add(a, b)		((a) + (b))
#define ktime_sub(a, b)		((a) - (b))
#define ktime_add_ns(kt, ns)	((kt) + (ns))
#define ktime_sub_ns(kt, ns)	((kt) - (ns))
#define ktime_to_ns(kt)		((s64)(kt))
#define ns_to_ktime(ns)		((ktime_t)(ns))

static inline ktime_t ktime_set(const s64 secs, const unsigned long nsecs)
{
	return secs * NSEC_PER_SEC + (s64)nsecs;
}

static inline s64 ktime_divns(const ktime_t kt, s64 div)
{
	return kt / div;
}

static inline s64 ktime_to_us(const ktime_t kt)
{
	return ktime_divns(kt, NSEC_PER_USEC);
}

static inline s64 ktime_to_ms(const ktime_t kt)
{
	return ktime_divns(kt, NSEC_PER_MSEC);
}

static inline s64 ktime_us_delta(const ktime_t later, const ktime_t earlier)
{
	return ktime_to_us(ktime_sub(later, earlier));
}

#if KAPI_BEFORE(5, 6)
/* @tv_nsec is never negative. */
static inline struct timespec ktime_to_timespec(const ktime_t kt)
{
	struct timespec ts = { .tv_sec = kt / NSEC_PER_SEC, .tv_nsec = kt % NSEC_PER_SEC };

	if (ts.tv_nsec < 0) {
		ts.tv_sec--;
		ts.tv_nsec += NSEC_PER_SEC;
	}
	return ts;
}
#endif

static inline ktime_t us_to_ktime(u64 us)
{
	return us * NSEC_PER_USEC;
}

static inline ktime_t ms_to_ktime(u64 ms)
{
	return ms * NSEC_PER_MSEC;
}

static inline int ktime_compare(const ktime_t a, const ktime_t b)
{
	return a < b ? -1 : a > b;
}

static inline bool ktime_after(const ktime_t a, const ktime_t b)
{
	return a > b;
}

static inline bool ktime_before(const ktime_t a, const ktime_t b)
{
	return a < b;
}

static inline ktime_t ktime_get(void)
{
	return kapi_host.cpu->now_ns;
}

static inline u64 ktime_get_ns(void)
{
	return kapi_host.cpu->now_ns;
}

#endif /* _KAPI_LINUX_KTIME_H */
