// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Leaves *stop_tick as it is. */
#include "bad.h"

static int bad_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	return max(shallowest(drv, dev, 0), 0);
}

BAD_GOVERNOR(.select = bad_select);
