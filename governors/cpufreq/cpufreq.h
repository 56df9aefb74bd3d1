/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * DOC: cpufreq.h - what the scheduler shows a frequency policy, and asks it
 *
 * CPUs that share a clock are a domain. Where their utilization changes, the scheduler shows the
 * domain to the frequency policy, which answers with one of its OPPs. The policy keeps what it
 * knows in a block that lies in each domain. A kernel has no such interface: its governors find
 * what is here in struct rq, struct cpufreq_policy and the drivers' tables.
 *
 * Utilization, performance and capacity are 0 to SCHED_CAPACITY_SCALE, the capacity of the biggest
 * CPU at its highest frequency.
 */
#ifndef _CPUFREQ_H
#define _CPUFREQ_H

#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/types.h>

/* Of update(): a task that waited for IO was just enqueued (SCHED_CPUFREQ_IOWAIT). */
#define CPUFREQ_IOWAIT		BIT(0)
/* Of an OPP: a faster one does the same work for no more energy. Never the last. */
#define CPUFREQ_INEFFICIENT	BIT(0)
/* The answer of update() that leaves the frequency as it is. */
#define CPUFREQ_KEEP		(-1)

#define CPUFREQ_NAME_LEN	16
#define CPUFREQ_DOMAIN_WORDS	16

/*
 * @util: of the CPU's tasks: cpu_util_cfs(), util_est included; at most @capacity.
 * @runnable: the same of tasks that wait for the CPU, too: runnable_avg; may be above @capacity.
 * @boost: what the IO boost raises @util to.
 * @perf_min: the least performance, whatever the clamps.
 * @capacity: at the highest frequency.
 * @idle_calls: how often it went idle with the tick stopped: tick_nohz_get_idle_calls_cpu().
 * @uclamp_min, @uclamp_max: of the tasks on its runqueue; 0 and SCHED_CAPACITY_SCALE without.
 */
struct cpufreq_cpu {
	unsigned long	util;
	unsigned long	runnable;
	unsigned long	boost;
	unsigned long	perf_min;
	unsigned long	capacity;
	u64		idle_calls;
	unsigned int	cpu;
	unsigned int	uclamp_min;
	unsigned int	uclamp_max;
	unsigned int	reserved;
};

struct cpufreq_opp {
	unsigned int	freq_khz;
	unsigned int	flags;
};

/*
 * @cpus: valid during a call.
 * @opps: rising in frequency; at least one.
 * @transition_latency_ns: from a decision to the new frequency; 0 if it is not known.
 * @transition_delay_ns: what the driver asks for between two changes; negative if it does not.
 * @release: KERNEL_VERSION() of the kernel that is simulated: 6.1.0 or 6.12.0.
 * @due_ns: the policy's: before this time it is asked nothing by update(). 0 at first.
 * @state: the policy's, 0 at first.
 */
struct cpufreq_domain {
	const struct cpufreq_cpu	*cpus;
	const struct cpufreq_opp	*opps;
	unsigned int			nr_cpus;
	unsigned int			nr_opps;
	s64				transition_latency_ns;
	s64				transition_delay_ns;
	u64				due_ns;
	unsigned int			release;
	unsigned int			reserved;
	u64				state[CPUFREQ_DOMAIN_WORDS];
};

/* A policy's view of @state: a pointer to @type, which must fit. */
#define cpufreq_domain_state(domain, type) ({				\
	BUILD_BUG_ON(sizeof(type) > sizeof((domain)->state));		\
	(type *)(domain)->state; })

/* The lowest efficient OPP that is not below @freq_khz, else the highest (CPUFREQ_RELATION_E). */
static inline int cpufreq_opp_at(const struct cpufreq_domain *domain, u64 freq_khz)
{
	const struct cpufreq_opp *opps = domain->opps;
	unsigned int opp = 0;

	while (opp + 1 < domain->nr_opps &&
	       (opps[opp].freq_khz < freq_khz || opps[opp].flags & CPUFREQ_INEFFICIENT))
		opp++;
	return opp;
}

/*
 * @start: once for each domain, before all else, with its CPUs idle and its clock at the lowest
 *	OPP; 0, or a negative error. May be NULL.
 * @update: each time the utilization of @cpu has changed, but not before @due_ns: the index of the
 *	OPP to go to, or CPUFREQ_KEEP. Calls of one domain are serialized.
 * @performance: the performance that update() would provide for, headroom included, if the CPUs
 *	were as @cpus shows them: with a task on one of them that has just woken up. The scheduler
 *	estimates by it where a task takes the least energy. Without it (NULL) tasks are placed
 *	without regard to energy, as where a frequency is held.
 */
struct cpufreq_ops {
	char name[CPUFREQ_NAME_LEN];

	int (*start)(struct cpufreq_domain *domain);
	int (*update)(struct cpufreq_domain *domain, const struct cpufreq_cpu *cpu, u64 now,
		      unsigned int flags);
	unsigned long (*performance)(const struct cpufreq_domain *domain);
};

/* Once, from an initcall; @ops stays where it is, and has update(). */
int cpufreq_register(const struct cpufreq_ops *ops);

#endif /* _CPUFREQ_H */
