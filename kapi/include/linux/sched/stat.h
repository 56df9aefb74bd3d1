/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_SCHED_STAT_H
#define _KAPI_LINUX_SCHED_STAT_H

#include <linux/compiler.h>
#include <linux/version.h>
#include <torpor/context.h>

/* Tasks of that CPU that wait for IO; for another CPU, the number at its last select(). */
static inline unsigned int nr_iowait_cpu(int cpu)
{
	return kapi_cpu(cpu)->nr_iowait;
}

#if KAPI_BEFORE(4, 20)
/*
 * @load was the load at the last tick, like this_cpu_load(), up to 4.1; since 4.2 it is the weight
 * of the runqueue, which is 0 on an idle CPU.
 */
static inline void get_iowait_load(unsigned long *nr_waiters, unsigned long *load)
{
	*nr_waiters = kapi_host.cpu->nr_iowait;
	*load = KAPI_BEFORE(4, 2) ? kapi_host.cpu->load_avg : 0;
}
#endif

#endif /* _KAPI_LINUX_SCHED_STAT_H */
