/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_CPUIDLE_H
#define _KAPI_LINUX_CPUIDLE_H

#include <asm/processor.h>
#include <linux/bits.h>
#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/gfp.h>
#include <linux/hrtimer.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/limits.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/sched/topology.h>
#include <linux/static_key.h>
#include <linux/version.h>

#define CPUIDLE_STATE_MAX	10
#define CPUIDLE_NAME_LEN	16
#define CPUIDLE_DESC_LEN	32

struct module;
struct cpumask;
struct cpuidle_device;
struct cpuidle_driver;

#define CPUIDLE_STATE_DISABLED_BY_USER		BIT(0)
#define CPUIDLE_STATE_DISABLED_BY_DRIVER	BIT(1)

/* Per CPU and state; only @disable is used here. */
struct cpuidle_state_usage {
	unsigned long long	disable;
	unsigned long long	usage;
	u64			time_ns;
	unsigned long long	above;
	unsigned long long	below;
	unsigned long long	rejected;
};

/* @exit_latency and @target_residency are in us, rounded down from the _ns fields. */
struct cpuidle_state {
	char		name[CPUIDLE_NAME_LEN];
	char		desc[CPUIDLE_DESC_LEN];
	s64		exit_latency_ns;
	s64		target_residency_ns;
	unsigned int	flags;
	unsigned int	exit_latency;
	int		power_usage;
	unsigned int	target_residency;
	int (*enter)(struct cpuidle_device *dev, struct cpuidle_driver *drv, int index);
#if KAPI_BEFORE(5, 5)
	/* Disabled by the driver; here equivalent to disabled by the user. */
	bool		disabled;
#else
	bool		kapi_pad;
#endif
};

#define CPUIDLE_FLAG_NONE		(0x00)
#define CPUIDLE_FLAG_POLLING		BIT(0)
#define CPUIDLE_FLAG_COUPLED		BIT(1)
#define CPUIDLE_FLAG_TIMER_STOP		BIT(2)
#define CPUIDLE_FLAG_UNUSABLE		BIT(3)
#define CPUIDLE_FLAG_OFF		BIT(4)
#define CPUIDLE_FLAG_TLB_FLUSHED	BIT(5)
#define CPUIDLE_FLAG_RCU_IDLE		BIT(6)

struct cpuidle_device {
	unsigned int		registered:1;
	unsigned int		enabled:1;
	unsigned int		poll_time_limit:1;
	unsigned int		cpu;
	ktime_t			next_hrtimer;

	int			last_state_idx;
#if KAPI_BEFORE(5, 5)
	int			last_residency;	/* us */
#endif
	u64			last_residency_ns;
	u64			poll_limit_ns;
	u64			forced_idle_latency_limit_ns;
	struct cpuidle_state_usage states_usage[CPUIDLE_STATE_MAX];
};

struct cpuidle_driver {
	const char		*name;
	struct module		*owner;
	unsigned int		bctimer:1;
	struct cpuidle_state	states[CPUIDLE_STATE_MAX];
	int			state_count;
	int			safe_state_index;
	struct cpumask		*cpumask;
	const char		*governor;
};

/* A governor as the host calls it. That of older kernels is different. */
#if KAPI_BEFORE(5, 5)
struct kapi_governor {
#else
#define kapi_governor cpuidle_governor
struct cpuidle_governor {
#endif
	char			name[CPUIDLE_NAME_LEN];
	struct list_head	governor_list;
	unsigned int		rating;

	int  (*enable)(struct cpuidle_driver *drv, struct cpuidle_device *dev);
	void (*disable)(struct cpuidle_driver *drv, struct cpuidle_device *dev);
	int  (*select)(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick);
	void (*reflect)(struct cpuidle_device *dev, int index);
};

#if KAPI_BEFORE(5, 5)
#include <torpor/cpuidle_before_5_5.h>
#endif

int cpuidle_register_governor(struct cpuidle_governor *gov);

#if !KAPI_BEFORE(5, 5)
/* The lower of the latency limits of the CPU and the system. */
static inline s64 cpuidle_governor_latency_req(unsigned int cpu)
{
	return kapi_cpu(cpu)->latency_req_ns;
}
#endif

/* The driver of a CPU of the run. */
static inline struct cpuidle_driver *cpuidle_get_cpu_driver(struct cpuidle_device *dev)
{
	return dev ? kapi_cpu(dev->cpu)->driver : NULL;
}

/* Some architectures tune it; x86 and arm64 guests do not. */
static inline int cpuidle_find_deepest_state(struct cpuidle_driver *drv,
					     struct cpuidle_device *dev, u64 latency_limit_ns)
{
	int i, deepest = 0;
	s64 deepest_latency_ns = 0;

	for (i = 1; i < drv->state_count; i++) {
		s64 latency_ns = drv->states[i].exit_latency_ns;

		if (dev->states_usage[i].disable || latency_ns <= deepest_latency_ns ||
		    (u64)latency_ns > latency_limit_ns)
			continue;
		deepest_latency_ns = latency_ns;
		deepest = i;
	}
	return deepest;
}

#endif /* _KAPI_LINUX_CPUIDLE_H */
