// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Works for a while, then follows a null pointer. */
#include <linux/kernel.h>
#include <linux/cpuidle.h>
#include <linux/module.h>
#include <linux/percpu.h>

struct history {
	unsigned int calls;
	int *nowhere;
};

static DEFINE_PER_CPU(struct history, histories);

static int crashes_late_select(struct cpuidle_driver *drv, struct cpuidle_device *dev,
			       bool *stop_tick)
{
	struct history *history = this_cpu_ptr(&histories);

	if (++history->calls > 20)
		return *READ_ONCE(history->nowhere);
	return 0;
}

static struct cpuidle_governor crashes_late_governor = {
	.name =		"crashes_late",
	.rating =	1,
	.select =	crashes_late_select,
};

static int __init crashes_late_init(void)
{
	return cpuidle_register_governor(&crashes_late_governor);
}
postcore_initcall(crashes_late_init);
