// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The deepest enabled state, whatever the limit. */
#include "bad.h"

static int bad_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	for (int i = drv->state_count - 1; i > 0; i--) {
		if (!dev->states_usage[i].disable)
			return chosen(drv, i, stop_tick);
	}
	return chosen(drv, 0, stop_tick);
}

BAD_GOVERNOR(.select = bad_select);
