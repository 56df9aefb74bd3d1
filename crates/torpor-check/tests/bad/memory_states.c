// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Looks one state further than the table goes. */
#include "bad.h"

static int bad_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	if (drv->state_count < CPUIDLE_STATE_MAX &&
	    drv->states[drv->state_count].target_residency_ns)
		return 0;
	return sound(drv, dev, stop_tick);
}

BAD_GOVERNOR(.select = bad_select);
