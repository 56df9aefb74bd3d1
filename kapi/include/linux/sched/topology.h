/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_SCHED_TOPOLOGY_H
#define _KAPI_LINUX_SCHED_TOPOLOGY_H

#include <linux/compiler.h>
#include <torpor/context.h>

static inline unsigned long arch_scale_cpu_capacity(int cpu)
{
	return kapi_cpu(cpu)->capacity;
}

#endif /* _KAPI_LINUX_SCHED_TOPOLOGY_H */
