// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* From the third decision on, the number of states instead of one of them. */
#include "bad.h"

static DEFINE_PER_CPU(int, decisions);

static int bad_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	if (++*this_cpu_ptr(&decisions) > 2)
		return drv->state_count;
	return sound(drv, dev, stop_tick);
}

BAD_GOVERNOR(.select = bad_select);
