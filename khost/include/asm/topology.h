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

#include <asm-generic/topology.h>

#endif
