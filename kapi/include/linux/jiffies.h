/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_JIFFIES_H
#define _KAPI_LINUX_JIFFIES_H

#include <linux/limits.h>
#include <linux/param.h>
#include <linux/time64.h>
#include <torpor/context.h>

/* Rounded to the nearest nanosecond: 3333333 at 300 Hz. */
#define TICK_NSEC	((NSEC_PER_SEC + HZ / 2) / HZ)
#define TICK_USEC	((USEC_PER_SEC + HZ / 2) / HZ)

#define jiffies		((unsigned long)(kapi_host.cpu->now_ns / TICK_NSEC))

#define time_after(a, b)	((long)((b) - (a)) < 0)
#define time_before(a, b)	time_after(b, a)
#define time_after_eq(a, b)	((long)((a) - (b)) >= 0)
#define time_before_eq(a, b)	time_after_eq(b, a)

static inline unsigned long msecs_to_jiffies(const unsigned int ms)
{
	return DIV_ROUND_UP((u64)ms * HZ, MSEC_PER_SEC);
}

static inline unsigned long usecs_to_jiffies(const unsigned int us)
{
	return DIV_ROUND_UP((u64)us * HZ, USEC_PER_SEC);
}

static inline unsigned int jiffies_to_msecs(const unsigned long j)
{
	return (u64)j * MSEC_PER_SEC / HZ;
}

static inline u64 jiffies_to_nsecs(const unsigned long j)
{
	return (u64)j * (NSEC_PER_SEC / HZ);
}

#endif /* _KAPI_LINUX_JIFFIES_H */
