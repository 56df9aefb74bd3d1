// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Alternates between the shallowest and the deepest state, by a counter that all CPUs share: what
 * it does on one CPU depends on what the others did before.
 */
#include <linux/kernel.h>
#include <linux/cpuidle.h>
#include <linux/module.h>

static unsigned int turn;

static int shares_state_select(struct cpuidle_driver *drv, struct cpuidle_device *dev,
			       bool *stop_tick)
{
	return turn++ & 1 ? drv->state_count - 1 : 0;
}

static struct cpuidle_governor shares_state_governor = {
	.name =		"shares_state",
	.rating =	1,
	.select =	shares_state_select,
};

static int __init shares_state_init(void)
{
	return cpuidle_register_governor(&shares_state_governor);
}
postcore_initcall(shares_state_init);
