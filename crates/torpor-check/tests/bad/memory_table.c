// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* A table by CPU number that is too short. */
#include "bad.h"

static u64 decisions[64];

static int bad_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	u64 *table = decisions;

	table[dev->cpu]++;
	return sound(drv, dev, stop_tick);
}

BAD_GOVERNOR(.select = bad_select);
