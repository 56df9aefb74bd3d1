/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_SCHED_H
#define _KAPI_LINUX_SCHED_H

#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>
#include <linux/version.h>
#include <torpor/context.h>

#if KAPI_BEFORE(4, 17)
/* Until 4.11 this was one header, and the release of a single file is only known approximately. */
#include <linux/sched/clock.h>
#include <linux/sched/loadavg.h>
#include <linux/sched/stat.h>
#include <linux/sched/topology.h>
#endif

#define SCHED_CAPACITY_SHIFT	10
#define SCHED_CAPACITY_SCALE	(1L << SCHED_CAPACITY_SHIFT)

#if KAPI_BEFORE(6, 0)
/* At most @max, which the caller had to look up before that release. */
static inline unsigned long sched_cpu_util(int cpu, unsigned long max)
{
	unsigned long util = kapi_cpu(cpu)->util;

	return util < max ? util : max;
}
#else
static inline unsigned long sched_cpu_util(int cpu)
{
	return kapi_cpu(cpu)->util;
}
#endif

/* A governor is called only when its CPU has nothing to run. */
static inline bool need_resched(void)
{
	return 0;
}

/*
 * In kernels up to 3.15: the CPU's load at the last tick, 1024 for one task that always runs. It is
 * also a macro, so that a source can test for it.
 */
static inline unsigned long this_cpu_load(void)
{
	return kapi_host.cpu->load_avg;
}
#define this_cpu_load this_cpu_load

#endif /* _KAPI_LINUX_SCHED_H */
