// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Doubles the time to the next timer, which can be infinite. */
#include "bad.h"

static int bad_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	ktime_t delta_tick;
	s64 twice_ns = tick_nohz_get_sleep_length(&delta_tick) * 2;

	*stop_tick = twice_ns > 0;
	return sound(drv, dev, stop_tick);
}

BAD_GOVERNOR(.select = bad_select);
