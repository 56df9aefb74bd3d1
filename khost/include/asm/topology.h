/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_TOPOLOGY_H
#define KHOST_ASM_TOPOLOGY_H

/* Utilization is frequency-invariant, as the simulated hardware counts it. */
#include <linux/arch_topology.h>

#define arch_scale_cpu_capacity topology_get_cpu_scale
#define arch_scale_freq_capacity topology_get_freq_scale
#define arch_scale_freq_invariant() 1
/* The frequency core reports the frequency that it set, and the reference of the capacities. */
#define arch_set_freq_scale topology_set_freq_scale
#define arch_scale_freq_ref topology_get_freq_ref

/*
 * The scheduler looks these masks up for each pair of CPUs. Its table of topology levels gets the
 * functions of khost/src/topology.c, which cache them; a direct call gets the tree's own.
 */
const struct cpumask *khost_tree_coregroup_mask(int cpu);
const struct cpumask *khost_tree_clustergroup_mask(int cpu);
#define cpu_coregroup_mask(cpu) khost_tree_coregroup_mask(cpu)
#define cpu_clustergroup_mask(cpu) khost_tree_clustergroup_mask(cpu)

#include <asm-generic/topology.h>

#endif
