// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Starts the data of the CPU it runs on, not of the one that is enabled. */
#include "bad.h"

static DEFINE_PER_CPU(int, decisions);

static int bad_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	*this_cpu_ptr(&decisions) = 0;
	return 0;
}

static int bad_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	int first = shallowest(drv, dev, 0), second = shallowest(drv, dev, first + 1);

	if (!(*this_cpu_ptr(&decisions))++)
		second = first;
	return chosen(drv, max(second, max(first, 0)), stop_tick);
}

BAD_GOVERNOR(.enable = bad_enable, .select = bad_select);
