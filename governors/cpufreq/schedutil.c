// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: schedutil - a frequency in proportion to utilization
 *
 * Idea: Run the domain of a clock so fast that its busiest CPU is at work four fifths of the time.
 * Utilization is scaled to the highest frequency, so it does not change with the frequency that is
 * chosen.
 *
 * State kept, per domain: the OPP that was decided for last, the frequency that was computed for
 * it, when the next change may come, and the idle calls of a CPU that has a clock of its own.
 *
 * Decision:
 *
 *  1. Not before the rate limit has passed since the last change.
 *  2. Each CPU's performance. 6.12: its utilization, that of waiting tasks included, or its IO
 *     boost if that is more; a quarter of headroom; then the clamps. 6.1: its utilization and its
 *     boost, each within the clamps, then a quarter of headroom. The least performance is above
 *     the clamps.
 *  3. The highest frequency times the greatest performance, over the capacity.
 *  4. The lowest efficient OPP that is not below that; the last one again if the frequency computed
 *     is that of the last time.
 *  5. A CPU with a clock of its own that has not gone idle since the last decision does not slow
 *     down, unless its uclamp_max holds it.
 *
 * Known weaknesses: utilization says how much of the time a task ran, not whether it would have
 * gained by running faster; what waits for memory or IO gets a frequency that it does not need, or
 * does not get one that it does. Tasks that take turns have little utilization each. The headroom
 * is the same for a steady load, which needs none.
 *
 * Departures: of effective_cpu_util() there is the fair class alone. performance() is 6.12's with
 * either release. In the rest it decides as kernel/sched/cpufreq_schedutil.c of Linux 6.1 and 6.12
 * does, which a test checks with random updates.
 *
 * References: Linux 6.1 and 6.12 kernel/sched/cpufreq_schedutil.c; drivers/cpufreq/cpufreq.c,
 * cpufreq_policy_transition_delay_us().
 */

#include <linux/init.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/time64.h>
#include <linux/version.h>

#include "cpufreq.h"

static int rate_limit_us = -1;
module_param(rate_limit_us, int, 0644);
MODULE_PARM_DESC(rate_limit_us,
		 "least time between two changes, in us (default -1: the clock driver's)");

/* Without a transition latency. */
#define RATE_LIMIT_UNKNOWN_US	1000
/* What 6.1 multiplies the latency by, and the most that comes of it. */
#define LATENCY_FACTOR		1000
#define RATE_LIMIT_MAX_US	10000

struct sugov {
	u64	rate_limit_ns;
	u64	raw_khz;
	u64	idle_calls;
	/* CPUFREQ_KEEP before the first decision. */
	int	opp;
};

static bool sugov_is_old(const struct cpufreq_domain *domain)
{
	return domain->release < KERNEL_VERSION(6, 12, 0);
}

static u64 sugov_rate_limit_ns(const struct cpufreq_domain *domain)
{
	u64 latency_us = domain->transition_latency_ns / NSEC_PER_USEC;
	u64 limit_us = latency_us + latency_us / 2;

	if (rate_limit_us >= 0)
		return (u64)rate_limit_us * NSEC_PER_USEC;
	if (domain->transition_delay_ns >= 0)
		return domain->transition_delay_ns;
	if (!latency_us)
		limit_us = RATE_LIMIT_UNKNOWN_US;
	else if (sugov_is_old(domain))
		limit_us = min_t(u64, latency_us * LATENCY_FACTOR, RATE_LIMIT_MAX_US);
	return limit_us * NSEC_PER_USEC;
}

static unsigned long sugov_with_headroom(unsigned long util)
{
	return util + (util >> 2);
}

/* Of clamps that cross, uclamp_min counts. */
static unsigned long sugov_clamped(const struct cpufreq_cpu *cpu, unsigned long util)
{
	return max_t(unsigned long, min_t(unsigned long, util, cpu->uclamp_max), cpu->uclamp_min);
}

static unsigned long sugov_util(const struct cpufreq_cpu *cpu)
{
	return min(max(cpu->util, cpu->runnable), cpu->capacity);
}

/* Since 6.8 clamps say what a CPU is to perform, so they come after the headroom. */
static unsigned long sugov_perf(const struct cpufreq_cpu *cpu)
{
	unsigned long perf = sugov_with_headroom(max(sugov_util(cpu), cpu->boost));

	perf = min3(perf, cpu->capacity, (unsigned long)cpu->uclamp_max);
	return max3(perf, (unsigned long)cpu->uclamp_min, cpu->perf_min);
}

static unsigned long sugov_perf_old(const struct cpufreq_cpu *cpu)
{
	unsigned long util = min(sugov_clamped(cpu, cpu->util), cpu->capacity);

	util = max(util, sugov_clamped(cpu, cpu->boost));
	return sugov_with_headroom(max(util, cpu->perf_min));
}

static unsigned long sugov_performance(const struct cpufreq_domain *domain)
{
	unsigned long perf = 0;

	for (unsigned int i = 0; i < domain->nr_cpus; i++)
		perf = max(perf, sugov_perf(&domain->cpus[i]));
	return perf;
}

static unsigned long sugov_performance_old(const struct cpufreq_domain *domain)
{
	unsigned long perf = 0;

	for (unsigned int i = 0; i < domain->nr_cpus; i++)
		perf = max(perf, sugov_perf_old(&domain->cpus[i]));
	return perf;
}

static u64 sugov_raw_khz(const struct cpufreq_domain *domain, unsigned long capacity)
{
	bool is_old = sugov_is_old(domain);
	u64 perf = is_old ? sugov_performance_old(domain) : sugov_performance(domain);

	return domain->opps[domain->nr_opps - 1].freq_khz * perf / capacity;
}

/* Utilization falls while its CPU goes on working, if only the tasks on it change. */
static bool sugov_is_busy(struct sugov *sugov, const struct cpufreq_cpu *cpu)
{
	u64 idle_calls = sugov->idle_calls;

	if (cpu->uclamp_max != SCHED_CAPACITY_SCALE && cpu->util >= cpu->uclamp_max)
		return false;
	sugov->idle_calls = cpu->idle_calls;
	return cpu->idle_calls == idle_calls;
}

static int sugov_update(struct cpufreq_domain *domain, const struct cpufreq_cpu *cpu, u64 now,
			unsigned int flags)
{
	struct sugov *sugov = cpufreq_domain_state(domain, struct sugov);
	u64 raw_khz = sugov_raw_khz(domain, cpu->capacity);
	int opp = sugov->opp;

	/* Another frequency may be the same OPP; the same one is not looked for twice. */
	if (raw_khz != sugov->raw_khz)
		opp = cpufreq_opp_at(domain, raw_khz);
	if (domain->nr_cpus == 1 && sugov_is_busy(sugov, cpu) && opp < sugov->opp)
		return CPUFREQ_KEEP;
	sugov->raw_khz = raw_khz;
	if (opp == sugov->opp)
		return CPUFREQ_KEEP;
	sugov->opp = opp;
	domain->due_ns = now + sugov->rate_limit_ns;
	return opp;
}

static int sugov_start(struct cpufreq_domain *domain)
{
	struct sugov *sugov = cpufreq_domain_state(domain, struct sugov);

	sugov->opp = CPUFREQ_KEEP;
	sugov->rate_limit_ns = sugov_rate_limit_ns(domain);
	domain->due_ns = sugov->rate_limit_ns;
	return 0;
}

static const struct cpufreq_ops schedutil_ops = {
	.name = "schedutil",
	.start = sugov_start,
	.update = sugov_update,
	.performance = sugov_performance,
};

static int __init schedutil_init(void)
{
	return cpufreq_register(&schedutil_ops);
}

core_initcall(schedutil_init);

MODULE_DESCRIPTION("Frequencies in proportion to utilization");
MODULE_LICENSE("GPL");
