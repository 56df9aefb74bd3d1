// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Takes its time for each task that waits for IO. */
#include "bad.h"

static int bad_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	unsigned int tasks = min(nr_iowait_cpu(dev->cpu), 8U);

	for (unsigned int i = 0; i < tasks * 10000; i++)
		barrier();
	return sound(drv, dev, stop_tick);
}

BAD_GOVERNOR(.select = bad_select);
