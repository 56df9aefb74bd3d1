/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_CPUMASK_H
#define _KAPI_LINUX_CPUMASK_H

#include <linux/bitops.h>
#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/smp.h>
#include <linux/string.h>

/* The maximum for x86-64. */
#define NR_CPUS		8192

typedef struct cpumask {
	unsigned long bits[NR_CPUS / BITS_PER_LONG];
} cpumask_t;

/* On the stack, as without CPUMASK_OFFSTACK: the kapi has no allocator. */
typedef struct cpumask cpumask_var_t[1];

/* The CPUs of the run are the possible and the online ones. */
#define for_each_possible_cpu(cpu)					\
	for ((cpu) = 0; (unsigned int)(cpu) < nr_cpu_ids; (cpu)++)	\
		if (!kapi_host.cpu_by_id[cpu]) ; else
#define for_each_online_cpu(cpu)	for_each_possible_cpu(cpu)

static inline bool cpu_possible(unsigned int cpu)
{
	return cpu < nr_cpu_ids && kapi_host.cpu_by_id[cpu];
}

/* Represents the CPUs of the run wherever a mask is read. */
#define cpu_online_mask		((const struct cpumask *)0)
#define cpu_possible_mask	cpu_online_mask
#define cpumask_bits(mask)	((mask)->bits)

static inline bool cpumask_test_cpu(int cpu, const struct cpumask *mask)
{
	return mask ? test_bit(cpu, cpumask_bits(mask)) : cpu_possible(cpu);
}

static inline unsigned int cpumask_next(int cpu, const struct cpumask *mask)
{
	unsigned int next = cpu + 1;

	while (next < nr_cpu_ids && !cpumask_test_cpu(next, mask))
		next++;
	return next;
}

static inline unsigned int cpumask_first(const struct cpumask *mask)
{
	return cpumask_next(-1, mask);
}

static inline unsigned int cpumask_weight(const struct cpumask *mask)
{
	unsigned int weight = 0;

	for (unsigned int cpu = 0; cpu < nr_cpu_ids; cpu++)
		weight += cpumask_test_cpu(cpu, mask);
	return weight;
}

static inline bool cpumask_empty(const struct cpumask *mask)
{
	return cpumask_first(mask) >= nr_cpu_ids;
}

static inline void cpumask_clear(struct cpumask *mask)
{
	memset(mask, 0, sizeof(*mask));
}

static inline void cpumask_set_cpu(unsigned int cpu, struct cpumask *mask)
{
	__set_bit(cpu, cpumask_bits(mask));
}

static inline void cpumask_clear_cpu(int cpu, struct cpumask *mask)
{
	__clear_bit(cpu, cpumask_bits(mask));
}

static inline bool alloc_cpumask_var(cpumask_var_t *mask, gfp_t flags)
{
	return 1;
}

static inline bool zalloc_cpumask_var(cpumask_var_t *mask, gfp_t flags)
{
	cpumask_clear(*mask);
	return 1;
}

static inline void free_cpumask_var(cpumask_var_t mask)
{
}

/* Reads a CPU number at *@text and advances it; returns -1 if there is none. */
static inline int kapi_cpulist_number(const char **text)
{
	int value = -1;

	for (; **text >= '0' && **text <= '9'; (*text)++) {
		value = (value < 0 ? 0 : value) * 10 + (**text - '0');
		if (value >= NR_CPUS)
			return -1;
	}
	return value;
}

/* Reads numbers and ranges, "0,4-7". Parts of ranges, "0-31:2/8", are not supported. */
static inline int cpulist_parse(const char *text, struct cpumask *mask)
{
	cpumask_clear(mask);
	while (*text && *text != '\n') {
		int first = kapi_cpulist_number(&text), last = first;

		if (*text == '-') {
			text++;
			last = kapi_cpulist_number(&text);
		}
		if (first < 0 || last < first)
			return -EINVAL;
		for (; first <= last; first++)
			cpumask_set_cpu(first, mask);
		if (*text == ',')
			text++;
		else if (*text && *text != '\n')
			return -EINVAL;
	}
	return 0;
}

/* For the formats "%*pb" and "%*pbl". */
#define cpumask_pr_args(mask)	nr_cpu_ids, cpumask_bits(mask)

#define for_each_cpu(cpu, mask)						\
	for ((cpu) = 0; (unsigned int)(cpu) < nr_cpu_ids; (cpu)++)	\
		if (!cpumask_test_cpu(cpu, mask)) ; else

#define for_each_cpu_and(cpu, one, two)					\
	for ((cpu) = 0; (unsigned int)(cpu) < nr_cpu_ids; (cpu)++)	\
		if (!cpumask_test_cpu(cpu, one) || !cpumask_test_cpu(cpu, two)) ; else

static inline bool cpu_online(unsigned int cpu)
{
	return cpu_possible(cpu);
}

#endif /* _KAPI_LINUX_CPUMASK_H */
