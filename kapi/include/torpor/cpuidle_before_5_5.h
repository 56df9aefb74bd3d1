/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_TORPOR_CPUIDLE_BEFORE_5_5_H
#define _KAPI_TORPOR_CPUIDLE_BEFORE_5_5_H

/*
 * Before Linux 5.5 cpuidle used us, and before 4.17 the tick was stopped before the governor was
 * called. The host calls such a governor through functions in old_governors.h, which convert.
 */

struct cpuidle_governor {
	char			name[CPUIDLE_NAME_LEN];
	struct list_head	governor_list;
	unsigned int		rating;

	int  (*enable)(struct cpuidle_driver *drv, struct cpuidle_device *dev);
	void (*disable)(struct cpuidle_driver *drv, struct cpuidle_device *dev);
#if KAPI_BEFORE(4, 17)
	int  (*select)(struct cpuidle_driver *drv, struct cpuidle_device *dev);
#else
	int  (*select)(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick);
#endif
	void (*reflect)(struct cpuidle_device *dev, int index);
#if KAPI_BEFORE(4, 17)
	struct module		*owner;
#endif
};

/* In microseconds. */
static inline int cpuidle_governor_latency_req(unsigned int cpu)
{
	s64 limit_us = kapi_cpu(cpu)->latency_req_ns / 1000;

	return limit_us < INT_MAX ? limit_us : INT_MAX;
}

static inline int cpuidle_get_last_residency(struct cpuidle_device *dev)
{
	return dev->last_residency;
}

#if KAPI_BEFORE(4, 14)
/*
 * The first state that does not poll: a constant of the architecture in these kernels, derived from
 * the table here.
 */
extern int kapi_driver_state_start __attribute__((visibility("hidden")));
#define CPUIDLE_DRIVER_STATE_START	kapi_driver_state_start

/* Only for a module's exit; images are unloaded as a whole. */
static inline void cpuidle_unregister_governor(struct cpuidle_governor *gov)
{
}
#endif

#if KAPI_BEFORE(4, 0)
/* The residency in the state is measured, as in all states. */
#define CPUIDLE_FLAG_TIME_VALID		BIT(31)
#endif

#endif /* _KAPI_TORPOR_CPUIDLE_BEFORE_5_5_H */
