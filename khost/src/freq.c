// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The frequency driver: a policy for each cluster. */
#include <linux/cpufreq.h>
#include <linux/device.h>
#include <linux/energy_model.h>
#include <linux/sched/cpufreq.h>
#include <linux/slab.h>
#include "sched.h"
#include "host.h"

/* The sysfs folder that the core requires. */

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

/* The folder of a governor's tunables, and its files. */
static struct kobject *tunables;
static const struct kobj_type *tunables_type;

int kobject_init_and_add(struct kobject *object, const struct kobj_type *type,
			 struct kobject *parent, const char *fmt, ...)
{
	if (type->sysfs_ops == &governor_sysfs_ops) {
		tunables = object;
		tunables_type = type;
	}
	return 0;
}

/* Like a write to the sysfs file. */
static void write_tunable(const char *name, const char *value)
{
	struct attribute **at;

	if (!tunables)
		khost_trouble(KHOST_REFUSED, "its frequency governor has no files, and no %s", name);
	for (at = tunables_type->default_groups[0]->attrs; *at; at++) {
		if (strcmp((*at)->name, name))
			continue;
		if (tunables_type->sysfs_ops->store(tunables, *at, value, strlen(value)) >= 0)
			return;
		khost_trouble(KHOST_REFUSED, "`%s` is not a value for %s", value, name);
	}
	khost_trouble(KHOST_REFUSED, "its frequency governor has no %s", name);
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

static void deafen(unsigned int cpu)
{
	struct update_util_data *data = per_cpu(cpufreq_update_util_data, cpu);

	if (data) {
		governor_hears[cpu] = data->func;
		data->func = hear_no_iowait;
	}
}

static void apply_settings(void)
{
	unsigned int cpu;

	for (unsigned int i = 0; i < khost_machine->tunables; i++)
		write_tunable(khost_machine->tunable[i].name, khost_machine->tunable[i].value);
	for_each_online_cpu(cpu) {
		struct cpufreq_policy *policy = cpufreq_cpu_get_raw(cpu);
		unsigned int khz = khost_cluster_of(cpu)->set_khz;

		if (khost_machine->no_iowait_boost)
			deafen(cpu);
		if (policy && policy->cpu == cpu && khz != KHOST_UNSET &&
		    policy->governor->store_setspeed(policy, khz))
			khost_trouble(KHOST_REFUSED, "CPU %u has no frequency of %u kHz", cpu, khz);
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
	apply_settings();
}
