// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * DOC: shallowest - the reference for latency
 *
 * Idea: Always enter the shallowest enabled state. No governor wakes up faster, so it shows the
 * largest possible gain in latency and its cost in energy.
 *
 * State kept: none.
 *
 * Decision:
 *
 *  1. Take the first enabled state; if all are disabled, state 0, like the kernel's own governors.
 *  2. Keep the tick, unless the state's target residency is a tick period or more. This is the
 *     kernel's rule for a CPU whose sleep is expected to be no longer than the target residency:
 *     the tick must end a shallow sleep, so that the governor can choose again.
 *
 * Known weaknesses: On an idle machine each tick wakes the CPU, although a governor could stop it
 * if only one state is enabled. Consider this when you compare wake-up counts.
 *
 * Departures: None; it mirrors nothing.
 *
 * References: Requested as a reference by reviewers on the linux-pm list, with "deepest".
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

/* The lowest rating: loading a reference must not make it the current governor. */
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
