// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Arms timers in select(); answers with how many have expired. */
#include <linux/cpuidle.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/string.h>

static int slip;
module_param(slip, int, 0644);
MODULE_PARM_DESC(slip, "1 faults in the callback, 2 arms too many, 3 arms one without a function");

static int armed = 2;
module_param(armed, int, 0644);
MODULE_PARM_DESC(armed, "timers to arm, 100 ns apart");

struct bench {
	struct hrtimer timer[5];
	int expired;
};

static DEFINE_PER_CPU(struct bench, benches);

static enum hrtimer_restart expire(struct hrtimer *timer)
{
	struct bench *bench = this_cpu_ptr(&benches);

	if (slip == 1)
		*(volatile int *)8 = 0;
	BUG_ON(hrtimer_active(timer));
	bench->expired++;
	return HRTIMER_NORESTART;
}

static int timers_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	struct bench *bench = this_cpu_ptr(&benches);
	int i;

	for (i = 0; i < (slip == 2 ? 5 : armed); i++) {
		if (slip == 3)
			bench->timer[i].function = NULL;
		/* Twice: the second start moves it. */
		hrtimer_start(&bench->timer[i], 7, HRTIMER_MODE_REL_PINNED);
		hrtimer_start(&bench->timer[i], (i + 1) * 100, HRTIMER_MODE_REL_PINNED);
		BUG_ON(!hrtimer_active(&bench->timer[i]));
	}
	return bench->expired;
}

static void timers_reflect(struct cpuidle_device *dev, int index)
{
	struct bench *bench = this_cpu_ptr(&benches);

	BUG_ON(hrtimer_cancel(&bench->timer[1]) && hrtimer_try_to_cancel(&bench->timer[1]));
}

static int timers_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	struct bench *bench = per_cpu_ptr(&benches, dev->cpu);
	int i;

	memset(bench, 0, sizeof(*bench));
	for (i = 0; i < 5; i++) {
		if (i % 2) {
			hrtimer_init(&bench->timer[i], CLOCK_MONOTONIC, HRTIMER_MODE_REL);
			bench->timer[i].function = expire;
		} else {
			hrtimer_setup(&bench->timer[i], expire, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
		}
	}
	return 0;
}

static struct cpuidle_governor timers_governor = {
	.name = "timers",
	.rating = 5,
	.enable = timers_enable,
	.select = timers_select,
	.reflect = timers_reflect,
};

static int __init timers_init(void)
{
	return cpuidle_register_governor(&timers_governor);
}

postcore_initcall(timers_init);
MODULE_LICENSE("Dual MIT/GPL");
