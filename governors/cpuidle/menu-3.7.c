// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: menu-3.7 - the menu governor of 2012, before outliers were filtered
 *
 * Idea: Predict the length of the sleep from the next timer and from past sleeps, then take the
 * deepest state that pays off within it. The ratio of sleep length to timer distance is averaged.
 * If the last eight sleeps were about equally long, their mean is the prediction. The busier the
 * CPU, the smaller the exit latency must be compared with the prediction.
 *
 * State kept, per CPU: twelve ratios of sleep length to timer distance (six distances, without and
 * with IO waiters), the lengths of the last eight sleeps, and the prediction for the last sleep,
 * until it has updated the others.
 *
 * Decision: (All times are in whole us.)
 *
 *  1. Update from the last sleep: its length goes into the pattern; its length without the exit
 *     latency, divided by the timer distance, into the ratio. A sleep of 50 ms or more counts as
 *     predicted.
 *  2. With a latency limit of 0, take state 0.
 *  3. Predict timer distance times ratio.
 *  4. If the variance of the last eight lengths is below 400 us^2, and their mean is neither 0 nor
 *     beyond the timer, predict the mean.
 *  5. Start with the first state that does not poll, if it is enabled and the timer is more than 5
 *     us away, else with state 0. Take the deepest enabled state with target residency <=
 *     prediction, exit latency <= limit, and exit latency times multiplier <= prediction. The
 *     multiplier is 1, plus 20 for each unit of load, plus 10 for each IO waiter.
 *
 * Known weaknesses: One outlier among eight hides a pattern. After a wrong short prediction the
 * CPU stays in the shallow state until the next interrupt. Ratios can exceed 1, since a sleep can
 * outlast its timer by the exit latency. A sleep shorter than the exit latency is recorded
 * uncorrected. The load counts a task that always runs as half a unit.
 *
 * Departures: It uses the interface of current kernels.
 *
 *  - It leaves *stop_tick unchanged. Kernels of that time stopped the tick before they called the
 *    governor, so they would have included the tick in the sleep length, too.
 *  - Times are in ns and are rounded down to us. The distance of an expired timer is 0, one that
 *    exceeds 32 bits is the maximum.
 *  - If this_cpu_load() does not exist, the CPU's utilization replaces it: the same scale, 1024
 *    for a task that always runs, but averaged and at most 1024.
 *  - It does not compare power. Drivers no longer give it, and the default values decreased from
 *    state to state, so that the last suitable state won, as here. State 0 was only the fallback,
 *    whatever its exit latency.
 *  - It does not handle drivers that do not measure residencies, because all of them do.
 *
 * References: Linux 3.7 drivers/cpuidle/governors/menu.c, as the parent of the patches in
 * "x86,idle: Enhance menu governor C-state prediction" V2, linux-pm, 18 October 2012.
 */

#include <linux/cpuidle.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/loadavg.h>
#include <linux/sched/stat.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/tick.h>

#ifndef this_cpu_load
#define this_cpu_load()		sched_cpu_util(smp_processor_id())
#endif

/* Timer distances: below 10 us, then a decade each, the last one from 100 ms. */
#define NR_DISTANCES		6
#define NR_RATIOS		(2 * NR_DISTANCES)
#define FIRST_DISTANCE_US	10

/* A ratio of 1; a new one has a weight of an eighth. */
#define RATIO_STEP		1024
#define RATIO_WEIGHT		8
#define RATIO_ONE		(RATIO_STEP * RATIO_WEIGHT)

/* Predicting longer sleeps better saves nothing, so they count as predicted. */
#define LONG_SLEEP_US		50000

#define NR_LENGTHS		8
/* Lengths are about equal if their standard deviation is below 20 us. */
#define ALIKE_VARIANCE_US2	400

/* With a timer this near, even the first sleeping state does not pay off. */
#define POLL_TIMER_US		5

struct menu_cpu {
	bool must_learn;
	unsigned int timer_us;
	unsigned int exit_us;
	unsigned int ratio_idx;
	/* 0 if unused, which stands for RATIO_ONE. */
	u64 ratio[NR_RATIOS];
	unsigned int length_us[NR_LENGTHS];
	unsigned int next_length;
};

static DEFINE_PER_CPU(struct menu_cpu, menu_cpus);

static void menu_learn(struct menu_cpu *menu, struct cpuidle_device *dev)
{
	unsigned int length_us = min_t(u64, ktime_to_us(dev->last_residency_ns), INT_MAX);
	unsigned int slept_us = length_us;
	u64 ratio = menu->ratio[menu->ratio_idx] * (RATIO_WEIGHT - 1) / RATIO_WEIGHT;

	if (slept_us > menu->exit_us)
		slept_us -= menu->exit_us;

	if (menu->timer_us && slept_us < LONG_SLEEP_US)
		ratio += RATIO_STEP * slept_us / menu->timer_us;
	else
		ratio += RATIO_STEP;
	/* 0 would mean unused. */
	menu->ratio[menu->ratio_idx] = ratio ? ratio : 1;

	menu->length_us[menu->next_length] = length_us;
	menu->next_length = (menu->next_length + 1) % NR_LENGTHS;
}

static unsigned int menu_next_timer_us(void)
{
	ktime_t delta_next_ns;
	ktime_t timer_ns = tick_nohz_get_sleep_length(&delta_next_ns);

	return timer_ns < 0 ? 0 : min_t(u64, ktime_to_us(timer_ns), UINT_MAX);
}

static unsigned int menu_ratio_idx(unsigned int timer_us, unsigned int nr_iowait)
{
	unsigned int idx = nr_iowait ? NR_DISTANCES : 0;
	unsigned int bound_us = FIRST_DISTANCE_US;
	int i;

	for (i = 1; i < NR_DISTANCES && timer_us >= bound_us; i++) {
		bound_us *= 10;
		idx++;
	}
	return idx;
}

/* Minimum length of a sleep, as a multiple of the exit latency. */
static unsigned int menu_multiplier(unsigned int nr_iowait)
{
	unsigned long load = this_cpu_load();
	unsigned int load_tenths = LOAD_INT(load) * 10 + LOAD_FRAC(load) / 10;

	return 1 + 2 * load_tenths + 10 * nr_iowait;
}

/* The mean of the last lengths, if they are about equal and it is before the timer; else 0. */
static u64 menu_typical_us(struct menu_cpu *menu)
{
	u64 sum = 0, squares = 0, mean;
	int i;

	for (i = 0; i < NR_LENGTHS; i++)
		sum += menu->length_us[i];
	mean = sum / NR_LENGTHS;
	if (mean > menu->timer_us)
		return 0;

	for (i = 0; i < NR_LENGTHS; i++) {
		s64 off = menu->length_us[i] - mean;

		squares += off * off;
	}
	return squares / NR_LENGTHS < ALIKE_VARIANCE_US2 ? mean : 0;
}

static u64 menu_predict_us(struct menu_cpu *menu)
{
	u64 *ratio = &menu->ratio[menu->ratio_idx];
	u64 typical_us = menu_typical_us(menu);

	if (!*ratio)
		*ratio = RATIO_ONE;
	if (typical_us)
		return typical_us;
	return div_u64(menu->timer_us * *ratio + RATIO_ONE / 2, RATIO_ONE);
}

/* Step 5. */
static int menu_deepest(struct menu_cpu *menu, struct cpuidle_driver *drv,
			struct cpuidle_device *dev, s64 latency_req_us, u64 predicted_us,
			unsigned int multiplier)
{
	int first = drv->states[0].flags & CPUIDLE_FLAG_POLLING ? 1 : 0;
	int i, idx = 0;

	if (first < drv->state_count && !dev->states_usage[first].disable &&
	    menu->timer_us > POLL_TIMER_US)
		idx = first;

	for (i = first; i < drv->state_count; i++) {
		u64 residency_us = ktime_to_us(drv->states[i].target_residency_ns);
		u64 exit_us = ktime_to_us(drv->states[i].exit_latency_ns);

		if (dev->states_usage[i].disable || residency_us > predicted_us ||
		    exit_us > latency_req_us || exit_us * multiplier > predicted_us)
			continue;
		idx = i;
		/* State 0 was only the fallback: see Departures. */
		menu->exit_us = i ? exit_us : 0;
	}
	return idx;
}

static int menu_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	struct menu_cpu *menu = this_cpu_ptr(&menu_cpus);
	s64 latency_req_us = ktime_to_us(cpuidle_governor_latency_req(dev->cpu));
	unsigned int nr_iowait;

	if (menu->must_learn) {
		menu_learn(menu, dev);
		menu->must_learn = false;
	}
	menu->exit_us = 0;
	if (unlikely(latency_req_us == 0))
		return 0;

	nr_iowait = nr_iowait_cpu(dev->cpu);
	menu->timer_us = menu_next_timer_us();
	menu->ratio_idx = menu_ratio_idx(menu->timer_us, nr_iowait);

	return menu_deepest(menu, drv, dev, latency_req_us, menu_predict_us(menu),
			    menu_multiplier(nr_iowait));
}

static void menu_reflect(struct cpuidle_device *dev, int index)
{
	dev->last_state_idx = index;
	this_cpu_ptr(&menu_cpus)->must_learn = true;
}

static int menu_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	memset(per_cpu_ptr(&menu_cpus, dev->cpu), 0, sizeof(struct menu_cpu));
	return 0;
}

/* Below current governors: it is only for comparisons. */
static struct cpuidle_governor menu_governor = {
	.name =		"menu-3.7",
	.rating =	5,
	.enable =	menu_enable,
	.select =	menu_select,
	.reflect =	menu_reflect,
};

static int __init menu_init(void)
{
	return cpuidle_register_governor(&menu_governor);
}

postcore_initcall(menu_init);

MODULE_DESCRIPTION("The menu idle governor of Linux 3.7");
MODULE_LICENSE("GPL");
