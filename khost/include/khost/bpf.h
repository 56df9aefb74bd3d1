/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A program as a loader sees it: crates/torpor-sim/src/kernel/scheduler.rs writes one for each. */
#ifndef KHOST_BPF_H
#define KHOST_BPF_H

#include <linux/types.h>

struct khost_bpf_map {
	/* The program's variable; its first word points to this. */
	void *variable;
	const char *name;
	unsigned int type, key_size, value_size, max_entries;
	/* Maps in a map, and how many their initializer names. */
	void **inner;
	unsigned int inner_count;
	/* Of the host, from here. */
	unsigned int number, stride, used, at;
	char *values;
	struct hlist_head *buckets;
	struct list_head elements;
};

struct khost_scheduler {
	/* Its struct sched_ext_ops. */
	void *ops;
	struct khost_bpf_map *maps;
	unsigned int map_count;
	/* Sets variables as its loader would, or null. */
	void (*load)(void);
};

int khost_load_scheduler(const struct khost_scheduler *scheduler);

#endif
