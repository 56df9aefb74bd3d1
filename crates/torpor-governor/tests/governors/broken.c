// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Fails in the way that its parameter names. */
#include <linux/cpuidle.h>
#include <linux/module.h>

static int how;
module_param(how, int, 0644);
static int where;
module_param(where, int, 0644);

static DEFINE_PER_CPU(int, mine);
static volatile int zero;

static noinline int recurse(volatile char *before)
{
	volatile char frame[512];

	frame[0] = before[0];
	return recurse(frame) + frame[0];
}

static int fail(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	volatile char start[1] = { 0 };

	switch (how) {
	case 1:
		return *(volatile int *)(unsigned long)zero;
	case 2:
		return 1000 / zero;
	case 3:
		return recurse(start);
	case 4:
		for (;;)
			barrier();
	case 5:
		BUG_ON(!zero);
		return 0;
	case 6:
		return drv->state_count;
	case 7:
		/* Past this CPU's own data. */
		this_cpu_ptr(&mine)[64] = 1;
		return 0;
	case 8:
		/* A CPU that is not there. */
		return *per_cpu_ptr(&mine, 1000);
	case 9:
		/* Far past the device. */
		dev->states_usage[200].disable = 1;
		return 0;
	case 10:
		((void (*)(void))(unsigned long)(zero + 8))();
		return 0;
	case 11:
		return -1;
	}
	WARN_ON(how < 0);
	return 0;
}

static int broken_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	return where == 2 ? fail(drv, dev) : 0;
}

static int broken_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	return where == 0 ? fail(drv, dev) : 0;
}

static void broken_reflect(struct cpuidle_device *dev, int index)
{
	struct cpuidle_driver drv = { .state_count = 2 };

	if (where == 1)
		fail(&drv, dev);
}

static struct cpuidle_governor broken_governor = {
	.name = "broken",
	.rating = 5,
	.enable = broken_enable,
	.select = broken_select,
	.reflect = broken_reflect,
};

static int __init broken_init(void)
{
	if (where == 3)
		return -ENODEV;
	if (where == 4)
		return 0;
	return cpuidle_register_governor(&broken_governor);
}

postcore_initcall(broken_init);
MODULE_LICENSE("Dual MIT/GPL");
