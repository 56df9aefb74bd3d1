// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Chooses a state that no CPU has. */
#include <linux/kernel.h>
#include <linux/cpuidle.h>
#include <linux/module.h>

static int out_of_range_select(struct cpuidle_driver *drv, struct cpuidle_device *dev,
			       bool *stop_tick)
{
	return drv->state_count;
}

static struct cpuidle_governor out_of_range_governor = {
	.name =		"out_of_range",
	.rating =	1,
	.select =	out_of_range_select,
};

static int __init out_of_range_init(void)
{
	return cpuidle_register_governor(&out_of_range_governor);
}
postcore_initcall(out_of_range_init);
