/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_SCHED_H
#define _KAPI_LINUX_SCHED_H

#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/smp.h>
#include <torpor/context.h>

#define SCHED_CAPACITY_SHIFT	10
#define SCHED_CAPACITY_SCALE	(1L << SCHED_CAPACITY_SHIFT)

static inline unsigned long sched_cpu_util(int cpu)
{
	return kapi_cpu(cpu)->util;
}

#endif /* _KAPI_LINUX_SCHED_H */
