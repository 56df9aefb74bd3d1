// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* A ring of eight lengths whose position is never wrapped. */
#include "bad.h"

struct ring {
	u64 lengths_ns[8];
	int next;
};

static DEFINE_PER_CPU(struct ring, rings);

static int bad_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	return sound(drv, dev, stop_tick);
}

static void bad_reflect(struct cpuidle_device *dev, int index)
{
	struct ring *ring = this_cpu_ptr(&rings);

	ring->lengths_ns[ring->next++] = dev->last_residency_ns;
}

BAD_GOVERNOR(.select = bad_select, .reflect = bad_reflect);
