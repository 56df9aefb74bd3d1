// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Divides by the length of the sleep, which can be 0. */
#include "bad.h"

static DEFINE_PER_CPU(u64, rate);

static int bad_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	return sound(drv, dev, stop_tick);
}

static void bad_reflect(struct cpuidle_device *dev, int index)
{
	*this_cpu_ptr(&rate) = div64_u64(NSEC_PER_SEC, dev->last_residency_ns);
}

BAD_GOVERNOR(.select = bad_select, .reflect = bad_reflect);
