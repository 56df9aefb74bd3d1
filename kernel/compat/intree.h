/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Prologue of a governor's file in a kernel tree, which has all functions that it calls. Only its
 * name must differ from the tree's own, and it must not become current when it registers.
 */
#ifndef _TORPOR_INTREE_H
#define _TORPOR_INTREE_H

#include <linux/cpuidle.h>
#include <linux/init.h>
#include <linux/sched.h>
#include <linux/sched/topology.h>
#include <linux/string.h>
#include <linux/version.h>

#include "hrtimer.h"

static int __init torpor_register(struct cpuidle_governor *gov)
{
	strscpy(gov->name, TORPOR_NAME, sizeof(gov->name));
	gov->rating = 0;
	return cpuidle_register_governor(gov);
}

#define cpuidle_register_governor(gov)	torpor_register(gov)

/* The scheduler tracks it only with SMP; until Linux 6.0 the capacity was an argument. */
#ifndef CONFIG_SMP
#define sched_cpu_util(cpu)		((void)(cpu), 0UL)
#elif LINUX_VERSION_CODE < KERNEL_VERSION(6, 0, 0)
#define sched_cpu_util(cpu)		sched_cpu_util(cpu, arch_scale_cpu_capacity(cpu))
#endif

#endif /* _TORPOR_INTREE_H */
