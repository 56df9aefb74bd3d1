// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The frequency driver: a policy for each cluster. */
#include <linux/cpufreq.h>
#include <linux/device.h>
#include <linux/energy_model.h>
#include <linux/sched/cpufreq.h>
#include <linux/slab.h>
#include "sched.h"
#include "host.h"

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
	policy->transition_delay_us = cluster->transition_delay_us;
	policy->fast_switch_possible = cluster->fast_switch;
	set_frequency(policy->cpus, policy->cur);
	return 0;
}

/* The governor has resolved its target to a frequency of the table. */
static unsigned int fast_switch(struct cpufreq_policy *policy, unsigned int target_khz)
{
	set_frequency(policy->cpus, target_khz);
	return target_khz;
}

/* The thread sleeps while the clock changes, and CPUs keep the old frequency. */
static int target_index(struct cpufreq_policy *policy, unsigned int index)
{
	ktime_t latency = ns_to_ktime(policy->cpuinfo.transition_latency);

	if (latency && system_state == SYSTEM_RUNNING) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout(&latency, HRTIMER_MODE_REL);
	}
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
					    policy->related_cpus, true);
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

/* A governor's update hook comes here first, where the IO wake-up flag is removed. */

static void (*governor_hears[NR_CPUS])(struct update_util_data *data, u64 time, unsigned int flags);

static void hear_no_iowait(struct update_util_data *data, u64 time, unsigned int flags)
{
	governor_hears[khost_cpu_number](data, time, flags & ~SCHED_CPUFREQ_IOWAIT);
}

/* Also after a write, with which a governor or a CPU may have come. */
void khost_hide_iowait(void)
{
	unsigned int cpu;

	if (!khost_machine->no_iowait_boost)
		return;
	for_each_online_cpu(cpu) {
		struct update_util_data *data = per_cpu(cpufreq_update_util_data, cpu);

		if (!data || data->func == hear_no_iowait)
			continue;
		governor_hears[cpu] = data->func;
		data->func = hear_no_iowait;
	}
}

/* Called by the linked governor to register: it is the one in use. */
static struct cpufreq_governor *linked;

int khost_register_cpufreq(struct cpufreq_governor *governor)
{
	int result = cpufreq_register_governor(governor);

	if (!result)
		linked = governor;
	return result;
}

static void choose_linked(void)
{
	if (!linked)
		khost_trouble(KHOST_REFUSED, "the file registers no frequency governor here");
	khost_set_param("cpufreq.default_governor", linked->name);
}

void khost_start_freq_driver(void)
{
	if (*khost_machine->linked[KHOST_CPUFREQ])
		choose_linked();
	for (unsigned int i = 0; i < khost_machine->clusters; i++) {
		if (!khost_machine->cluster[i].opps)
			return;
	}
	if (cpufreq_register_driver(&driver))
		khost_trouble(KHOST_PANIC, "no frequency driver");
	khost_hide_iowait();
}
