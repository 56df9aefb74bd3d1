/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_SCHED_CLOCK_H
#define _KAPI_LINUX_SCHED_CLOCK_H

#include <linux/compiler.h>
#include <torpor/context.h>

static inline u64 local_clock(void)
{
	return kapi_host.cpu->now_ns;
}

static inline u64 local_clock_noinstr(void)
{
	return local_clock();
}

static inline u64 sched_clock(void)
{
	return local_clock();
}

static inline u64 sched_clock_cpu(int cpu)
{
	return local_clock();
}

static inline u64 cpu_clock(int cpu)
{
	return local_clock();
}

#endif /* _KAPI_LINUX_SCHED_CLOCK_H */
