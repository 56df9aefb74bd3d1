/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Code that the bad governors share, without flaws. */
#include <linux/cpuidle.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/percpu.h>
#include <linux/sched/stat.h>
#include <linux/tick.h>

/* Keeps the tick for a polling state. */
static inline int chosen(struct cpuidle_driver *drv, int idx, bool *stop_tick)
{
	*stop_tick = !(drv->states[idx].flags & CPUIDLE_FLAG_POLLING);
	return idx;
}

/* The shallowest enabled state within the limit, at or above @from; else -1. */
static inline int shallowest(struct cpuidle_driver *drv, struct cpuidle_device *dev, int from)
{
	s64 latency_req_ns = cpuidle_governor_latency_req(dev->cpu);

	for (int i = from; i < drv->state_count; i++) {
		if (!dev->states_usage[i].disable &&
		    drv->states[i].exit_latency_ns <= latency_req_ns)
			return i;
	}
	return -1;
}

static inline int sound(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	return chosen(drv, max(shallowest(drv, dev, 0), 0), stop_tick);
}

#define BAD_GOVERNOR(...)						\
	static struct cpuidle_governor bad_governor = {			\
		.name = "bad", .rating = 1, __VA_ARGS__			\
	};								\
	static int __init bad_init(void)				\
	{								\
		return cpuidle_register_governor(&bad_governor);	\
	}								\
	postcore_initcall(bad_init)
