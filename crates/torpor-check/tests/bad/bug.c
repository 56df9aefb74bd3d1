// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Assumes that timers are never overdue. */
#include "bad.h"

static int bad_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	ktime_t delta_tick;

	WARN_ON(tick_nohz_get_sleep_length(&delta_tick) < 0);
	return sound(drv, dev, stop_tick);
}

BAD_GOVERNOR(.select = bad_select);
