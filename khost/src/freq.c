// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The frequency driver: one policy for each cluster, switched without a thread. */
#include <linux/cpufreq.h>
#include <linux/device.h>
#include <linux/energy_model.h>
#include <linux/slab.h>
#include "host.h"

/* Of the governors' file of sysfs, which nobody reads. */
const struct sysfs_ops governor_sysfs_ops;

/* The folder of sysfs that the core insists on. */

static struct device cpu_root;
static struct kobject folder;

struct device *bus_get_dev_root(const struct bus_type *bus)
{
	return &cpu_root;
}

struct kobject *kobject_create_and_add(const char *name, struct kobject *parent)
{
	return &folder;
}

static struct cpufreq_frequency_table *table_of(const struct khost_cluster *cluster)
{
	struct cpufreq_frequency_table *table =
		kcalloc(cluster->opps + 1, sizeof(*table), GFP_KERNEL);

	for (unsigned int i = 0; i < cluster->opps; i++)
		table[i].frequency = cluster->opp[i].khz;
	table[cluster->opps].frequency = CPUFREQ_TABLE_END;
	return table;
}

static void set_frequency(const struct cpumask *cpus, unsigned int khz)
{
	unsigned int cpu;

	for_each_cpu(cpu, cpus) {
		khost_cpus[cpu].khz = khz;
		khost_touch(cpu);
	}
}

static int init(struct cpufreq_policy *policy)
{
	const struct khost_cluster *cluster = khost_cluster_of(policy->cpu);

	khost_cpus_of(cluster, policy->cpus);
	policy->freq_table = table_of(cluster);
	policy->cpuinfo.transition_latency = cluster->transition_latency_ns;
	policy->cur = cluster->opp[cluster->opps - 1].khz;
	policy->fast_switch_possible = true;
	set_frequency(policy->cpus, policy->cur);
	return 0;
}

/* The governor has resolved its target: the table has it. */
static unsigned int fast_switch(struct cpufreq_policy *policy, unsigned int target_khz)
{
	khost_sees_frequency(policy->cpu, target_khz);
	set_frequency(policy->cpus, target_khz);
	return target_khz;
}

static int target_index(struct cpufreq_policy *policy, unsigned int index)
{
	set_frequency(policy->cpus, policy->freq_table[index].frequency);
	return 0;
}

static unsigned int get(unsigned int cpu)
{
	return khost_cpus[cpu].khz;
}

static int active_power(struct device *device, unsigned long *power_uw, unsigned long *khz)
{
	const struct khost_cluster *cluster = khost_cluster_of(device->id);

	for (unsigned int i = 0; i < cluster->opps; i++) {
		if (cluster->opp[i].khz >= *khz) {
			*khz = cluster->opp[i].khz;
			*power_uw = cluster->opp[i].power_uw;
			return 0;
		}
	}
	return -EINVAL;
}

static void register_em(struct cpufreq_policy *policy)
{
	const struct khost_cluster *cluster = khost_cluster_of(policy->cpu);
	struct em_data_callback callback = EM_DATA_CB(active_power);

	if (cluster->opp[0].power_uw)
		em_dev_register_perf_domain(get_cpu_device(policy->cpu), cluster->opps, &callback,
					    policy->cpus, true);
}

static struct cpufreq_driver driver = {
	.name		= "khost",
	.flags		= CPUFREQ_NEED_INITIAL_FREQ_CHECK,
	.verify		= cpufreq_generic_frequency_table_verify,
	.init		= init,
	.target_index	= target_index,
	.fast_switch	= fast_switch,
	.get		= get,
	.register_em	= register_em,
};

void khost_start_freq_driver(void)
{
	for (unsigned int i = 0; i < khost_machine->clusters; i++) {
		if (!khost_machine->cluster[i].opps)
			return;
	}
	if (khost_machine->schedutil && cpufreq_register_driver(&driver))
		khost_trouble(KHOST_PANIC, "no frequency driver");
}
