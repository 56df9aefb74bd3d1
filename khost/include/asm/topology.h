/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_TOPOLOGY_H
#define KHOST_ASM_TOPOLOGY_H

/* A hosted kernel's machine counts frequency-invariant, as its hardware does. */
#include <linux/arch_topology.h>

#define arch_scale_cpu_capacity topology_get_cpu_scale
#define arch_scale_freq_capacity topology_get_freq_scale
#define arch_scale_freq_invariant() 1
/* The frequency core says what it has set, and against which frequency capacities are given. */
#define arch_set_freq_scale topology_set_freq_scale
#define arch_scale_freq_ref topology_get_freq_ref

/*
 * The scheduler asks for these masks with each pair of CPUs. Its table of topology levels gets the
 * functions of khost/src/topology.c, which remember them; a call gets the tree's own.
 */
const struct cpumask *khost_tree_coregroup_mask(int cpu);
const struct cpumask *khost_tree_clustergroup_mask(int cpu);
#define cpu_coregroup_mask(cpu) khost_tree_coregroup_mask(cpu)
#define cpu_clustergroup_mask(cpu) khost_tree_clustergroup_mask(cpu)

#include <asm-generic/topology.h>

#endif
