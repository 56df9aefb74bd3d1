// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Counts bits in 32 of them up to a time that can have more. */
#include "bad.h"

static int bad_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	ktime_t delta_tick;
	u64 sleep_length_ns = max(tick_nohz_get_sleep_length(&delta_tick), (ktime_t)0);

	for (u32 bit_ns = 1; bit_ns <= sleep_length_ns; bit_ns *= 2)
		barrier();
	return sound(drv, dev, stop_tick);
}

BAD_GOVERNOR(.select = bad_select);
