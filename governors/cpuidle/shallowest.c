// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * DOC: shallowest - the reference for latency
 *
 * Idea: Always enter the shallowest enabled state. No governor wakes up faster, so it bounds the
 * latency that choosing among states can gain, and shows what that costs in energy.
 *
 * State kept: none.
 *
 * Decision:
 *
 *  1. Take the first enabled state; with none enabled, state 0, as the kernel's own governors do.
 *  2. Keep the tick, unless even this state needs a tick period or more to pay off. That is the
 *     kernel's rule for a CPU that is expected to be idle for no longer than its state's target
 *     residency: a shallow sleep must not last long without the governor being asked again.
 *
 * Known weaknesses: on an idle machine it is woken by every tick, which a governor with only one
 * enabled state might have stopped; comparisons of wake-up counts should say so.
 *
 * Departures: it mirrors nothing.
 *
 * References: requested as a reference by reviewers on the linux-pm list, with "deepest".
 */

#include <linux/cpuidle.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/module.h>

static int shallowest_select(struct cpuidle_driver *drv, struct cpuidle_device *dev,
			     bool *stop_tick)
{
	struct cpuidle_state *state;
	int idx = 0;

	while (idx < drv->state_count && dev->states_usage[idx].disable)
		idx++;
	if (idx == drv->state_count)
		idx = 0;

	state = &drv->states[idx];
	if (state->flags & CPUIDLE_FLAG_POLLING || state->target_residency_ns < TICK_NSEC)
		*stop_tick = false;
	return idx;
}

static void shallowest_reflect(struct cpuidle_device *dev, int index)
{
	dev->last_state_idx = index;
}

/* The lowest rating of all: a reference never becomes the governor by being loaded. */
static struct cpuidle_governor shallowest_governor = {
	.name =		"shallowest",
	.rating =	1,
	.select =	shallowest_select,
	.reflect =	shallowest_reflect,
};

static int __init shallowest_init(void)
{
	return cpuidle_register_governor(&shallowest_governor);
}

postcore_initcall(shallowest_init);

MODULE_DESCRIPTION("Always the shallowest idle state");
MODULE_LICENSE("Dual MIT/GPL");
