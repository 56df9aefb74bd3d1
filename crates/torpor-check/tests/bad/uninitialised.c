// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Sets a variable only if some CPU waits for IO. */
#include "bad.h"

static int bad_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	int first = shallowest(drv, dev, 0), second = shallowest(drv, dev, first + 1);
	int waits;

	if (nr_iowait_cpu(dev->cpu))
		waits = 0;
	return chosen(drv, max(waits ? second : first, max(first, 0)), stop_tick);
}

BAD_GOVERNOR(.select = bad_select);
