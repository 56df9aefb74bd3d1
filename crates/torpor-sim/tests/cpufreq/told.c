// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Fails if what it is passed breaks a promise of cpufreq.h; goes up and down in turn; and stops at
 * the call that its parameter says.
 */
#include <linux/bug.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/time64.h>

#include "cpufreq.h"

static unsigned int stop_at;
module_param(stop_at, uint, 0644);

struct told {
	u64 last;
	u32 calls;
	u32 opp;
};

static void check(const struct cpufreq_domain *domain)
{
	for (unsigned int i = 0; i < domain->nr_cpus; i++) {
		const struct cpufreq_cpu *cpu = &domain->cpus[i];

		BUG_ON(!cpu->capacity || cpu->capacity > SCHED_CAPACITY_SCALE);
		BUG_ON(cpu->util > cpu->capacity && cpu->boost);
		BUG_ON(cpu->uclamp_max > SCHED_CAPACITY_SCALE);
		BUG_ON(i && cpu->cpu <= cpu[-1].cpu);
	}
}

static int told_start(struct cpufreq_domain *domain)
{
	struct told *told = cpufreq_domain_state(domain, struct told);

	check(domain);
	BUG_ON(told->calls || domain->due_ns);
	domain->due_ns = NSEC_PER_MSEC;
	return 0;
}

static int told_update(struct cpufreq_domain *domain, const struct cpufreq_cpu *cpu, u64 now,
		       unsigned int flags)
{
	struct told *told = cpufreq_domain_state(domain, struct told);

	check(domain);
	BUG_ON(cpu->util > cpu->capacity || cpu->cpu != smp_processor_id());
	BUG_ON(now < domain->due_ns || now < told->last);
	BUG_ON(++told->calls == stop_at);
	told->last = now;
	told->opp = !told->opp;
	domain->due_ns = now + NSEC_PER_MSEC;
	return told->opp;
}

static const struct cpufreq_ops told_ops = {
	.name = "told",
	.start = told_start,
	.update = told_update,
};

static int __init told_init(void)
{
	return cpufreq_register(&told_ops);
}
core_initcall(told_init);
