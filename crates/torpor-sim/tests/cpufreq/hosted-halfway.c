// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* A frequency governor for tests: it holds the OPP in the middle. */
#include <linux/cpufreq.h>
#include <linux/init.h>
#include <linux/module.h>

static void halfway_limits(struct cpufreq_policy *policy)
{
	unsigned int count = 0;

	while (policy->freq_table[count].frequency != CPUFREQ_TABLE_END)
		count++;
	__cpufreq_driver_target(policy, policy->freq_table[count / 2].frequency,
				CPUFREQ_RELATION_L);
}

static struct cpufreq_governor halfway = {
	.name = "halfway",
	.owner = THIS_MODULE,
	.limits = halfway_limits,
};

static int __init halfway_init(void)
{
	return cpufreq_register_governor(&halfway);
}

core_initcall(halfway_init);

MODULE_DESCRIPTION("Holds the OPP in the middle");
MODULE_LICENSE("Dual MIT/GPL");
