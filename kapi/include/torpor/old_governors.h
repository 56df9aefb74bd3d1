/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_TORPOR_OLD_GOVERNORS_H
#define _KAPI_TORPOR_OLD_GOVERNORS_H

/*
 * Part of image.c for governors of kernels before 5.5: the host calls these functions, which do
 * what the core of such a kernel did around its calls. FIDELITY(old-interface): as far as a replay
 * needs it.
 */

static __in("torpor_kapi") struct cpuidle_governor *old_governors[4];
static __in("torpor_kapi") struct kapi_governor old_as_new[4];
_Static_assert(ARRAY_SIZE(old_governors) == ARRAY_SIZE(kapi_host.governors), "one for each");

#if KAPI_BEFORE(4, 14)
__in("torpor_kapi") int kapi_driver_state_start;
#endif

/*
 * The core of 3.8 to 3.10, whose menu has timers, called this on every exit from idle, even between
 * an aborted entry and the next one.
 */
__hidden __attribute__((weak)) void menu_hrtimer_cancel(void);

static void old_leave_idle(void)
{
	if (menu_hrtimer_cancel)
		menu_hrtimer_cancel();
}

static void old_driver(struct cpuidle_driver *drv)
{
#if KAPI_BEFORE(4, 14)
	kapi_driver_state_start = drv->states[0].flags & CPUIDLE_FLAG_POLLING ? 1 : 0;
#endif
}

static int old_enable(int nr, struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	struct cpuidle_governor *gov = old_governors[nr];

	old_leave_idle();
	old_driver(drv);
	for (int i = 0; i < drv->state_count; i++) {
		/* The default power of drivers that do not give the power of their states. */
		drv->states[i].power_usage = -1 - i;
#if KAPI_BEFORE(4, 0)
		drv->states[i].flags |= CPUIDLE_FLAG_TIME_VALID;
#endif
	}
	return gov->enable ? gov->enable(drv, dev) : 0;
}

static void old_disable(int nr, struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	old_leave_idle();
	old_driver(drv);
	if (old_governors[nr]->disable)
		old_governors[nr]->disable(drv, dev);
}

static void old_residency(struct cpuidle_device *dev)
{
	u64 residency_us = div_u64(dev->last_residency_ns, NSEC_PER_USEC);

	dev->last_residency = min_t(u64, residency_us, INT_MAX);
}

static int old_select(int nr, struct cpuidle_driver *drv, struct cpuidle_device *dev,
		      bool *stop_tick)
{
	old_leave_idle();
	old_driver(drv);
	old_residency(dev);
#if KAPI_BEFORE(4, 17)
	/* *stop_tick stays true: the tick was already stopped. */
	return old_governors[nr]->select(drv, dev);
#else
	return old_governors[nr]->select(drv, dev, stop_tick);
#endif
}

static void old_reflect(int nr, struct cpuidle_device *dev, int index)
{
	old_residency(dev);
	if (old_governors[nr]->reflect)
		old_governors[nr]->reflect(dev, index);
	old_leave_idle();
}

/* One for each governor that an image can register; most register one. */
#define OLD_CALLS(nr)							\
	static int old_enable_##nr(struct cpuidle_driver *drv,		\
				   struct cpuidle_device *dev)		\
	{ return old_enable(nr, drv, dev); }				\
	static void old_disable_##nr(struct cpuidle_driver *drv,	\
				     struct cpuidle_device *dev)	\
	{ old_disable(nr, drv, dev); }					\
	static int old_select_##nr(struct cpuidle_driver *drv,		\
				   struct cpuidle_device *dev,		\
				   bool *stop_tick)			\
	{ return old_select(nr, drv, dev, stop_tick); }			\
	static void old_reflect_##nr(struct cpuidle_device *dev, int index) \
	{ old_reflect(nr, dev, index); }

OLD_CALLS(0)
OLD_CALLS(1)
OLD_CALLS(2)
OLD_CALLS(3)

#define OLD_AS_NEW(nr)	{ .enable = old_enable_##nr, .disable = old_disable_##nr,	\
			  .select = old_select_##nr, .reflect = old_reflect_##nr }

static struct kapi_governor *as_host_calls_it(struct cpuidle_governor *gov)
{
	static const struct kapi_governor calls[] = {
		OLD_AS_NEW(0), OLD_AS_NEW(1), OLD_AS_NEW(2), OLD_AS_NEW(3),
	};
	unsigned int nr = kapi_host.nr_governors;
	struct kapi_governor *as_new = &old_as_new[nr];

	old_governors[nr] = gov;
	*as_new = calls[nr];
	memcpy(as_new->name, gov->name, sizeof(as_new->name));
	as_new->rating = gov->rating;
	return as_new;
}

#endif /* _KAPI_TORPOR_OLD_GOVERNORS_H */
