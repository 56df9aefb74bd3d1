// SPDX-License-Identifier: GPL-2.0-only
/* Times what an idle governor does with a timer of its own: its start, and its end before it is due. */
#include <linux/hrtimer.h>
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>

#define ROUNDS	1000
#define DUE_NS	(300 * NSEC_PER_USEC)

static struct hrtimer alarm;

static enum hrtimer_restart expired(struct hrtimer *timer)
{
	return HRTIMER_NORESTART;
}

static int __init timer_cost_init(void)
{
	u64 clock_ns = 0, start_ns = 0, cancel_ns = 0;
	int i;

	hrtimer_init(&alarm, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	alarm.function = expired;
	for (i = 0; i < ROUNDS; i++) {
		u64 at[4];

		/* As select() is called. */
		local_irq_disable();
		at[0] = ktime_get_ns();
		at[1] = ktime_get_ns();
		hrtimer_start(&alarm, ns_to_ktime(DUE_NS), HRTIMER_MODE_REL_PINNED_HARD);
		at[2] = ktime_get_ns();
		hrtimer_cancel(&alarm);
		at[3] = ktime_get_ns();
		local_irq_enable();
		clock_ns += at[1] - at[0];
		start_ns += at[2] - at[1];
		cancel_ns += at[3] - at[2];
	}
	pr_info("timer_cost: clock %llu start %llu cancel %llu\n", div_u64(clock_ns, ROUNDS),
		div_u64(start_ns, ROUNDS), div_u64(cancel_ns, ROUNDS));
	return 0;
}

static void __exit timer_cost_exit(void)
{
}

module_init(timer_cost_init);
module_exit(timer_cost_exit);
MODULE_DESCRIPTION("Time of hrtimer_start() and hrtimer_cancel()");
MODULE_LICENSE("GPL");
