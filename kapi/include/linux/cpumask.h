/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_CPUMASK_H
#define _KAPI_LINUX_CPUMASK_H

#include <linux/bitops.h>
#include <linux/smp.h>

struct cpumask;

/* The CPUs of the run are both the possible and the online ones. */
#define for_each_possible_cpu(cpu)					\
	for ((cpu) = 0; (unsigned int)(cpu) < nr_cpu_ids; (cpu)++)	\
		if (!kapi_host.cpu_by_id[cpu]) ; else
#define for_each_online_cpu(cpu)	for_each_possible_cpu(cpu)

static inline bool cpu_possible(unsigned int cpu)
{
	return cpu < nr_cpu_ids && kapi_host.cpu_by_id[cpu];
}

/* Masks are not looked into: each stands for all of these CPUs. */
#define cpu_online_mask		((const struct cpumask *)0)
#define cpu_possible_mask	cpu_online_mask

static inline unsigned int cpumask_first(const struct cpumask *mask)
{
	unsigned int cpu = 0;

	while (cpu < nr_cpu_ids && !kapi_host.cpu_by_id[cpu])
		cpu++;
	return cpu;
}

static inline bool cpu_online(unsigned int cpu)
{
	return cpu_possible(cpu);
}

#endif /* _KAPI_LINUX_CPUMASK_H */
