// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The CPUs of each core, cluster, cache and package, and their capacities. */
#include <linux/arch_topology.h>
#include <linux/cacheinfo.h>
#include <linux/cpu.h>
#include <linux/device.h>
#include <linux/pm_qos.h>
#include "host.h"

const struct khost_cluster *khost_cluster_of(unsigned int cpu)
{
	return &khost_machine->cluster[khost_machine->cluster_of[cpu]];
}

void khost_cpus_of(const struct khost_cluster *cluster, struct cpumask *cpus)
{
	cpumask_clear(cpus);
	for (unsigned int cpu = 0; cpu < khost_machine->cpus; cpu++) {
		if (khost_cluster_of(cpu) == cluster)
			cpumask_set_cpu(cpu, cpus);
	}
}

bool last_level_cache_is_valid(unsigned int cpu)
{
	return true;
}

bool last_level_cache_is_shared(unsigned int one, unsigned int other)
{
	return khost_cluster_of(one)->cache == khost_cluster_of(other)->cache;
}

void khost_setup_topology(void)
{
	reset_cpu_topology();
	for (unsigned int cpu = 0; cpu < khost_machine->cpus; cpu++) {
		const struct khost_cluster *cluster = khost_cluster_of(cpu);
		struct cpu_topology *place = &cpu_topology[cpu];

		place->package_id = cluster->package;
		place->cluster_id = -1;
		place->core_id = khost_machine->core_of[cpu];
		place->thread_id = -1;
		topology_set_cpu_scale(cpu, cluster->capacity);
#ifdef KHOST_HAS_CAPACITY_FREQ_REF
		if (cluster->opps)
			per_cpu(capacity_freq_ref, cpu) = cluster->opp[cluster->opps - 1].khz;
#endif
	}
}

/* Constant after all CPUs are up. */
static bool masks_are_final;

void khost_keep_masks(void)
{
	masks_are_final = true;
}

const struct cpumask *(cpu_coregroup_mask)(int cpu)
{
	static const struct cpumask *masks[NR_CPUS];

	if (!masks_are_final)
		return cpu_coregroup_mask(cpu);
	if (!masks[cpu])
		masks[cpu] = cpu_coregroup_mask(cpu);
	return masks[cpu];
}

const struct cpumask *(cpu_clustergroup_mask)(int cpu)
{
	static const struct cpumask *masks[NR_CPUS];

	if (!masks_are_final)
		return cpu_clustergroup_mask(cpu);
	if (!masks[cpu])
		masks[cpu] = cpu_clustergroup_mask(cpu);
	return masks[cpu];
}

/* Devices of CPUs, for the frequency core and the energy model. */

static struct device cpu_root;

typeof(cpu_subsys) cpu_subsys = {
	.name = "cpu",
#ifndef KHOST_HAS_BUS_GET_DEV_ROOT
	.dev_root = &cpu_root,
#endif
};
static DEFINE_PER_CPU(struct device, cpu_device);

struct device *bus_get_dev_root(const struct bus_type *bus)
{
	return &cpu_root;
}

struct device *get_cpu_device(unsigned int cpu)
{
	return cpu < khost_machine->cpus ? &per_cpu(cpu_device, cpu) : NULL;
}

/* Older kernels have no such mask. */
extern struct cpumask __cpu_enabled_mask;

/* Folder of some files that nobody writes. */
struct kobject *kernel_kobj;

/* Like an architecture's calls of register_cpu(). */
void khost_add_cpus(void)
{
	struct kobject *devices = kobject_create_and_add("devices", NULL);
	struct kobject *system = kobject_create_and_add("system", devices);

	kernel_kobj = kobject_create_and_add("kernel", NULL);
	khost_add_device(&cpu_root, system, "cpu");
	for (unsigned int cpu = 0; cpu < khost_machine->cpus; cpu++) {
		struct device *device = get_cpu_device(cpu);
		char name[16];

		device->id = cpu;
		device->bus = &cpu_subsys;
		spin_lock_init(&device->power.lock);
		snprintf(name, sizeof(name), "cpu%u", cpu);
		khost_add_device(device, &cpu_root.kobj, name);
		cpumask_set_cpu(cpu, &__cpu_enabled_mask);
		dev_pm_qos_expose_latency_limit(device, PM_QOS_RESUME_LATENCY_NO_CONSTRAINT);
	}
}

int subsys_interface_register(struct subsys_interface *interface)
{
	for (unsigned int cpu = 0; cpu < khost_machine->cpus; cpu++)
		interface->add_dev(get_cpu_device(cpu), interface);
	return 0;
}

/* The machine has no caches. Since 7.2, sched_ext numbers CPUs by those that they share. */
struct cpu_cacheinfo *get_cpu_cacheinfo(unsigned int cpu)
{
	static struct cpu_cacheinfo none;

	return &none;
}
