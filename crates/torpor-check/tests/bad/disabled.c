// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The deepest state within the limit, enabled or not. */
#include "bad.h"

static int bad_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	s64 latency_req_ns = cpuidle_governor_latency_req(dev->cpu);
	int idx = drv->state_count - 1;

	while (idx > 0 && drv->states[idx].exit_latency_ns > latency_req_ns)
		idx--;
	return chosen(drv, idx, stop_tick);
}

BAD_GOVERNOR(.select = bad_select);
