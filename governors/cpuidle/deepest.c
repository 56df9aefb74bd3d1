// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * DOC: deepest - the reference for power during idle
 *
 * Idea: Always enter the deepest enabled state that the latency limit allows. No governor uses
 * less power during a sleep; one that uses less energy avoids deep sleeps that are too short to
 * pay off.
 *
 * State kept: none.
 *
 * Decision:
 *
 *  1. Take the deepest enabled state with exit latency <= limit.
 *  2. If there is none, take the first enabled state; if all are disabled, state 0.
 *  3. Stop the tick, because it would only cut the sleep short, unless the state polls.
 *
 * Known weaknesses: It does not predict the length of the sleep. Each short sleep costs the energy
 * of a transition, and each wake-up the full exit latency.
 *
 * Departures: None; it mirrors nothing.
 *
 * References: Requested as a reference by reviewers on the linux-pm list, with "shallowest".
 */

#include <linux/cpuidle.h>
#include <linux/kernel.h>
#include <linux/module.h>

static int deepest_select(struct cpuidle_driver *drv, struct cpuidle_device *dev,
			  bool *stop_tick)
{
	s64 latency_req_ns = cpuidle_governor_latency_req(dev->cpu);
	int i, first = -1, idx = -1;

	for (i = 0; i < drv->state_count; i++) {
		if (dev->states_usage[i].disable)
			continue;
		if (first < 0)
			first = i;
		if (drv->states[i].exit_latency_ns <= latency_req_ns)
			idx = i;
	}
	if (idx < 0)
		idx = first < 0 ? 0 : first;

	if (drv->states[idx].flags & CPUIDLE_FLAG_POLLING)
		*stop_tick = false;
	return idx;
}

static void deepest_reflect(struct cpuidle_device *dev, int index)
{
	dev->last_state_idx = index;
}

/* The lowest rating: loading a reference must not make it the current governor. */
static struct cpuidle_governor deepest_governor = {
	.name =		"deepest",
	.rating =	1,
	.select =	deepest_select,
	.reflect =	deepest_reflect,
};

static int __init deepest_init(void)
{
	return cpuidle_register_governor(&deepest_governor);
}

postcore_initcall(deepest_init);

MODULE_DESCRIPTION("Always the deepest idle state within the latency limit");
MODULE_LICENSE("Dual MIT/GPL");
