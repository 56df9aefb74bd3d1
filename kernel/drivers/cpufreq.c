// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: torpor_cpufreq - frequencies for machines that have none
 *
 * A virtual machine usually cannot set its CPUs' frequency. This driver accepts each request of a
 * cpufreq governor at once, so that governors choose as on any machine, and energy-aware placement
 * has an energy model. The event power:cpu_frequency shows the requests. The CPUs' speed does not
 * change, and no energy is saved.
 *
 *     policies=0-3@408000:6800,600000:40800/4-5@408000:121000,1800000:1130000
 *
 * lists CPUS@KHZ:POWER_UW,... for each frequency domain, from the lowest frequency up; the power is
 * that of one CPU. A CPU is in one domain. The driver does not set the CPUs' capacities: arm64
 * computes them from the device tree's capacity-dmips-mhz and the highest frequencies here.
 *
 * delay_us= is the minimum time between two requests of a domain, for schedutil.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/cpufreq.h>
#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/energy_model.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/version.h>

#define DOMAINS_MAX	8
#define OPPS_MAX	32
/* The core computes with Hz in 64 bits and kHz in 32; the highest values have special meanings. */
#define KHZ_MAX		INT_MAX

static char *policies = "0@1000000:100000";
module_param(policies, charp, 0444);
MODULE_PARM_DESC(policies, "CPUS@KHZ:POWER_UW,.../... of each domain, from the lowest frequency up");

static unsigned int delay_us = 1000;
module_param(delay_us, uint, 0444);
MODULE_PARM_DESC(delay_us, "least time between two requests that schedutil makes for a domain");

struct domain {
	struct cpumask cpus;
	unsigned int opp_count;
	/* One more, for the end marker. */
	struct cpufreq_frequency_table khz[OPPS_MAX + 1];
	unsigned int power_uw[OPPS_MAX];
};

static struct domain domains[DOMAINS_MAX];
static unsigned int domain_count;

static struct domain *domain_of(unsigned int cpu)
{
	unsigned int i;

	for (i = 0; i < domain_count; i++) {
		if (cpumask_test_cpu(cpu, &domains[i].cpus))
			return &domains[i];
	}
	return NULL;
}

/* Returns the lowest OPP at or above @khz, or the highest one. */
static unsigned int opp_for(const struct domain *domain, unsigned int khz)
{
	unsigned int i = 0;

	while (i < domain->opp_count - 1 && domain->khz[i].frequency < khz)
		i++;
	return i;
}

static int freq_init(struct cpufreq_policy *policy)
{
	struct domain *domain = domain_of(policy->cpu);

	if (!domain)
		return -ENODEV;
	cpumask_copy(policy->cpus, &domain->cpus);
	policy->freq_table = domain->khz;
	policy->cur = domain->khz[0].frequency;
	policy->transition_delay_us = delay_us;
	policy->fast_switch_possible = true;
	policy->dvfs_possible_from_any_cpu = true;
	return 0;
}

static unsigned int freq_fast_switch(struct cpufreq_policy *policy, unsigned int target_freq)
{
	const struct domain *domain = domain_of(policy->cpu);

	return domain->khz[opp_for(domain, target_freq)].frequency;
}

/* For governors that can sleep. The core itself stores the requested frequency. */
static int freq_target_index(struct cpufreq_policy *policy, unsigned int index)
{
	return 0;
}

/* Before Linux 6.0 the callback had another order of arguments, and powers were in mW. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 0, 0)
static int __maybe_unused freq_power(struct device *dev, unsigned long *power_uw,
				     unsigned long *khz)
{
	const struct domain *domain = domain_of(dev->id);
	unsigned int i = opp_for(domain, *khz);

	*khz = domain->khz[i].frequency;
	*power_uw = domain->power_uw[i];
	return 0;
}

static void freq_register_em(struct cpufreq_policy *policy)
{
	struct em_data_callback callback = EM_DATA_CB(freq_power);

	em_dev_register_perf_domain(get_cpu_device(policy->cpu), domain_of(policy->cpu)->opp_count,
				    &callback, policy->related_cpus, true);
}
#else
#define freq_register_em NULL
#endif

static struct cpufreq_driver freq_driver = {
	.name =		"torpor_cpufreq",
	/* Each domain's governor has its own tunables. */
	.flags =	CPUFREQ_HAVE_GOVERNOR_PER_POLICY,
	.init =		freq_init,
	.verify =	cpufreq_generic_frequency_table_verify,
	.target_index =	freq_target_index,
	.fast_switch =	freq_fast_switch,
	.register_em =	freq_register_em,
	.attr =		cpufreq_generic_attr,
};

/* Parses one domain's text; modifies @text. */
static int freq_parse_domain(struct domain *domain, char *text)
{
	char *cpus = strsep(&text, "@");
	unsigned int khz, last_khz = 0;
	const struct domain *other;
	char *opp, *power;

	if (!text || cpulist_parse(cpus, &domain->cpus) || cpumask_empty(&domain->cpus))
		return -EINVAL;
	if (!cpumask_subset(&domain->cpus, cpu_possible_mask))
		return -ENXIO;
	for (other = domains; other < domain; other++) {
		if (cpumask_intersects(&domain->cpus, &other->cpus))
			return -EEXIST;
	}
	while ((opp = strsep(&text, ","))) {
		unsigned int i = domain->opp_count++;

		power = opp;
		strsep(&power, ":");
		if (i == OPPS_MAX || !power || kstrtouint(opp, 10, &khz) ||
		    kstrtouint(power, 10, &domain->power_uw[i]) || khz <= last_khz ||
		    khz > KHZ_MAX)
			return -EINVAL;
		domain->khz[i].frequency = khz;
		last_khz = khz;
	}
	domain->khz[domain->opp_count].frequency = CPUFREQ_TABLE_END;
	return 0;
}

static int freq_parse(char *table)
{
	char *text;
	int ret;

	while ((text = strsep(&table, "/"))) {
		if (domain_count == DOMAINS_MAX) {
			pr_err("policies: more than %d\n", DOMAINS_MAX);
			return -E2BIG;
		}
		ret = freq_parse_domain(&domains[domain_count], text);
		if (ret == -EEXIST) {
			pr_err("policies: number %u has a CPU of one before it\n", domain_count);
			return ret;
		}
		if (ret) {
			pr_err("policies: number %u is no CPUS@KHZ:POWER_UW,... of this machine's CPUs, with at most %d rising frequencies\n",
			       domain_count, OPPS_MAX);
			return ret;
		}
		domain_count++;
	}
	return 0;
}

static int __init freq_driver_init(void)
{
	char *table;
	int ret;

	if (!IS_ENABLED(CONFIG_CPU_FREQ)) {
		pr_err("this kernel is built without cpufreq\n");
		return -ENODEV;
	}
	table = kstrdup(policies, GFP_KERNEL);
	if (!table)
		return -ENOMEM;
	ret = freq_parse(table);
	kfree(table);
	if (ret)
		return ret;

	ret = cpufreq_register_driver(&freq_driver);
	if (ret == -EEXIST)
		pr_err("this machine has a cpufreq driver, %s\n", cpufreq_get_current_driver());
	return ret;
}

static void __exit freq_driver_exit(void)
{
	if (IS_ENABLED(CONFIG_CPU_FREQ))
		cpufreq_unregister_driver(&freq_driver);
}

module_init(freq_driver_init);
module_exit(freq_driver_exit);

MODULE_DESCRIPTION("Frequencies for machines that have none");
MODULE_VERSION(TORPOR_VERSION);
MODULE_LICENSE("GPL");
