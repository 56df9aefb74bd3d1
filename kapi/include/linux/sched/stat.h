/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_SCHED_STAT_H
#define _KAPI_LINUX_SCHED_STAT_H

#include <linux/compiler.h>
#include <torpor/context.h>

/* Tasks of that CPU that wait for IO; for another CPU, what it was at that CPU's last select. */
static inline unsigned int nr_iowait_cpu(int cpu)
{
	return kapi_cpu(cpu)->nr_iowait;
}

#endif /* _KAPI_LINUX_SCHED_STAT_H */
