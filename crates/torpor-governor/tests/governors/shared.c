// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Counts its calls in a static and per CPU; answers with the count, moved by a parameter. */
#include <linux/cpuidle.h>
#include <linux/module.h>

static int offset;
module_param(offset, int, 0644);
MODULE_PARM_DESC(offset, "added to each answer");

static int calls;
static DEFINE_PER_CPU(int, cpu_calls);

/* Both counts are equal while nobody else writes them. */
static int shared_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	int *mine = this_cpu_ptr(&cpu_calls);

	BUG_ON(*mine != calls);
	(*mine)++;
	return (calls++ + offset) % drv->state_count;
}

static struct cpuidle_governor shared_governor = {
	.name = "shared",
	.rating = 5,
	.select = shared_select,
};

static int __init shared_init(void)
{
	return cpuidle_register_governor(&shared_governor);
}

postcore_initcall(shared_init);
MODULE_LICENSE("Dual MIT/GPL");
