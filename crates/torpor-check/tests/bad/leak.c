// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Counts the decisions of all CPUs together, and picks by the count. */
#include "bad.h"

static unsigned int decisions;

static int bad_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	int first = shallowest(drv, dev, 0), second = shallowest(drv, dev, first + 1);

	return chosen(drv, max(decisions++ % 2 ? second : first, max(first, 0)), stop_tick);
}

BAD_GOVERNOR(.select = bad_select);
