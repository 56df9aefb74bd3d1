/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_SCHED_STAT_H
#define _KAPI_LINUX_SCHED_STAT_H

#include <linux/compiler.h>
#include <linux/version.h>
#include <torpor/context.h>

/* Tasks of that CPU that wait for IO; for another CPU, what it was at that CPU's last select. */
static inline unsigned int nr_iowait_cpu(int cpu)
{
	return kapi_cpu(cpu)->nr_iowait;
}

#if KAPI_BEFORE(4, 20)
/*
 * @load was that of the last tick at first, as this_cpu_load() gives it; since 4.2 it is the weight
 * of what is on the runqueue, which an idle CPU's has nothing of.
 */
static inline void get_iowait_load(unsigned long *nr_waiters, unsigned long *load)
{
	*nr_waiters = kapi_host.cpu->nr_iowait;
	*load = KAPI_BEFORE(4, 2) ? kapi_host.cpu->load_avg : 0;
}
#endif

#endif /* _KAPI_LINUX_SCHED_STAT_H */
