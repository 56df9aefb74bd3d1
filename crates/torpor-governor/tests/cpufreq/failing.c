// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Answers what it was given, so that a wrong layout or order shows; or fails as asked. */
#include <linux/bug.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/smp.h>
#include <linux/version.h>

#include "cpufreq.h"

static int how;
module_param(how, int, 0644);

static volatile int zero;

struct seen {
	u64 sum;
};

static int fail(struct cpufreq_domain *domain)
{
	switch (how) {
	case 1:
		*(volatile int *)(unsigned long)zero = 1;
		break;
	case 2:
		BUG();
		break;
	case 3:
		/* Of both domains there are three. */
		return domain->cpus[3].util;
	case 4:
		domain[2].due_ns = 1;
		break;
	case 5:
		return domain->opps[8].freq_khz;
	case 6:
		for (;;)
			barrier();
	case 7:
		return 4;
	case 8:
		return -2;
	case 9:
		return INT_MAX;
	case 12:
		domain->cpus = NULL;
		domain->opps = NULL;
		domain->nr_cpus = domain->nr_opps = 1000;
		domain->due_ns = U64_MAX;
		return 1;
	}
	return CPUFREQ_KEEP;
}

static int seen_start(struct cpufreq_domain *domain)
{
	BUG_ON(how == 16 && domain->nr_opps == 4);
	BUG_ON(domain->due_ns || domain->state[0] || domain->cpus[0].util);
	return how == 14 ? -EINVAL : 0;
}

static int seen_update(struct cpufreq_domain *domain, const struct cpufreq_cpu *cpu, u64 now,
		       unsigned int flags)
{
	struct seen *seen = cpufreq_domain_state(domain, struct seen);

	BUG_ON(cpu->cpu && cpu->cpu != smp_processor_id());
	if (how == 20)
		domain->due_ns = now + 100;
	if (how)
		return fail(domain);
	seen->sum += cpu->util + 2 * cpu->runnable + 3 * cpu->boost + 4 * cpu->perf_min +
		     5 * cpu->capacity + 6 * cpu->idle_calls + 7 * cpu->cpu + 8 * cpu->uclamp_min +
		     9 * cpu->uclamp_max;
	seen->sum += 10 * domain->nr_cpus + 20 * domain->nr_opps +
		     30 * domain->opps[domain->nr_opps - 1].freq_khz +
		     40 * domain->transition_latency_ns + 50 * domain->transition_delay_ns;
	seen->sum += now + flags + (domain->release == KERNEL_VERSION(6, 1, 0));
	return CPUFREQ_KEEP;
}

static unsigned long seen_performance(const struct cpufreq_domain *domain)
{
	if (how == 10)
		return 1025;
	if (how == 11)
		return ~0UL;
	return cpufreq_domain_state(domain, const struct seen)->sum % 1024;
}

static const struct cpufreq_ops seen_ops = {
	.name = "seen",
	.start = seen_start,
	.update = seen_update,
	.performance = seen_performance,
};

static const struct cpufreq_ops no_update_ops = {
	.name = "seen",
};

static int __init seen_init(void)
{
	return how == 13 ? -ENODEV : cpufreq_register(how == 15 ? &no_update_ops : &seen_ops);
}
core_initcall(seen_init);
