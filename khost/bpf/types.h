/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Preprocessed, its types are the vmlinux.h of a sched_ext scheduler: those that the kernel's own
 * files see in this configuration. crates/torpor-sim/src/kernel/types.rs takes them out.
 */
#include "build_policy.c"
#include <linux/bpf.h>
#include <bpf/cpumask.c>
/* Iterators. */
#include <bpf/helpers.c>
#include <bpf/cgroup_iter.c>
