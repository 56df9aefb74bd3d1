// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: menu-3.8 - the menu governor of early 2013, with its own timer
 *
 * Idea: Predict like menu of 3.7, but ignore exceptionally long sleeps in the pattern, and set a
 * timer if the prediction leads to a shallow state. If the sleep lasts until that timer, the CPU
 * wakes up, records this, and can go deeper. It contains four changes of 2012, each with a switch;
 * with all of them off it makes the same decisions as menu-3.7:
 *
 *  - typical_interval 1: the mean of recent lengths can ignore the longest ones. 0: the detector
 *    of 3.7. 2: it can ignore outliers on both sides (see Departures).
 *  - repeat_timer: if a pattern was found and the next timer is far away, wake up after 2 *
 *    (prediction + 60 us).
 *  - general_timer: wake up after the same time if the next timer is more than perfect_cstate_ms
 *    (30) away. The ratio was wrong then, and is reset.
 *  - zero_residency: record a length of 0 if the CPU had something to run before it was asleep.
 *
 * State kept, per CPU: twelve ratios of sleep length to timer distance (six distances, without and
 * with IO waiters), the lengths of the last eight sleeps, the prediction for the last sleep, until
 * it has updated the others, and a timer with its purpose.
 *
 * Decision: (All times are in whole us.)
 *
 *  1. Update from the last sleep: its length goes into the pattern; its length without the exit
 *     latency, divided by the timer distance, into the ratio. A sleep of 50 ms or more counts as
 *     predicted.
 *  2. With a latency limit of 0, take state 0.
 *  3. Predict timer distance times ratio.
 *  4. If the recent lengths are about equal, predict their mean. They are if their standard
 *     deviation is at most 20 us, or, with at least six lengths, less than a sixth of their mean.
 *     Otherwise remove the longest, as long as there are more than six, and try again.
 *  5. Start with the first state that does not poll, if it is enabled and the timer is more than 5
 *     us away, else with state 0. Take the deepest enabled state with target residency <=
 *     prediction, exit latency <= limit, and exit latency times multiplier <= prediction. The
 *     multiplier is 1, plus 20 for each unit of load, plus 10 for each IO waiter.
 *  6. If the target residency of an enabled state exceeded the prediction, set the timer: because
 *     of the pattern, if there is one and the next timer is more than four times as far away; else
 *     because of the ratio, if the next timer is beyond perfect_cstate_ms.
 *
 * Known weaknesses: The typical length is not limited by the next timer. Only the longest lengths
 * are removed, so one short sleep among long ones hides the pattern. Of 200 180 210 10000 30 1000
 * 170 200, the example in the patch, it removes 10000 and 1000 and then finds no pattern, because
 * of the 30. It removes equal lengths together, and the few that remain easily look alike: seven of
 * 100 us and one aborted entry give a pattern of 0. A sleep that the repeat timer ends is an
 * outlier, too, and is ignored, so the timer fires until the last length of the pattern is gone.
 * Each timer is an additional wake-up; both were removed in 3.11 for this reason.
 *
 * Departures: Those of menu-3.7, and:
 *
 *  - The timer is cancelled in reflect() and before it is set again. Kernels of that time
 *    cancelled it in every interrupt and at the end of the idle loop. After an aborted entry it
 *    runs until the CPU is idle again.
 *  - Those kernels reported an aborted entry with a residency of 0. Here it is recognized by a
 *    residency of 0 without a call of reflect(), which is also the case for an entry that the
 *    driver rejected and those kernels did not report.
 *  - typical_interval 2 is in no kernel: while there are more than five lengths, it removes the
 *    one farthest from the mean; five are enough. On the example it does what the patch describes:
 *    it predicts just below 200.
 *
 * References: "x86,idle: Enhance menu governor C-state prediction" V2, linux-pm, 18 October 2012;
 * Linux commits 69a37beabf1f, e11538d1f039, c96ca4fb; 148519120c6d and 228b30234f25, which removed
 * the timers.
 */

#include <linux/cpuidle.h>
#include <linux/hrtimer.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/loadavg.h>
#include <linux/sched/stat.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/tick.h>
#include <linux/version.h>

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
/* In 3.7's detector, lengths are about equal if their standard deviation is below 20 us. */
#define ALIKE_VARIANCE_US2	400
/* Otherwise up to 20 us, or below a sixth of the mean. */
#define ALIKE_DEVIATION_US	20
#define ALIKE_MEAN_RATIO	6
/* Minimum number of lengths in a pattern; if outliers are removed on both sides, most of them. */
#define NR_LENGTHS_MIN		6
#define NR_LENGTHS_MIN_BOTH	5

/* With a timer this near, even the first sleeping state does not pay off. */
#define POLL_TIMER_US		5

/* Margin over a pattern's mean before the governor wakes the CPU: three deviations. */
#define MAX_DEVIATION_US	60
/* The governor's own wake-up helps only if it comes long before the timer. */
#define TIMER_SHARE		4

enum { TYPICAL_OF_3_7, TYPICAL_OF_3_8, TYPICAL_BOTH_ENDS };

static unsigned int typical_interval __read_mostly = TYPICAL_OF_3_8;
module_param(typical_interval, uint, 0644);
MODULE_PARM_DESC(typical_interval,
		 "pattern detector: 0 of 3.7, 1 leaves out long sleeps, 2 also short ones");

static bool repeat_timer __read_mostly = true;
module_param(repeat_timer, bool, 0644);
MODULE_PARM_DESC(repeat_timer, "wake up when a sleep outlasts a pattern");

static bool general_timer __read_mostly = true;
module_param(general_timer, bool, 0644);
MODULE_PARM_DESC(general_timer, "wake up when a sleep outlasts a ratio");

static bool zero_residency __read_mostly = true;
module_param(zero_residency, bool, 0644);
MODULE_PARM_DESC(zero_residency, "learn from entries that were given up");

static unsigned int perfect_cstate_ms __read_mostly = 30;
module_param(perfect_cstate_ms, uint, 0644);
MODULE_PARM_DESC(perfect_cstate_ms, "timers farther than this are worth the general timer");

enum menu_timer { TIMER_OFF, TIMER_REPEAT, TIMER_GENERAL };

struct menu_cpu {
	bool must_learn;
	/* Set between select() and reflect(). */
	bool is_entering;
	enum menu_timer timer;
	struct hrtimer alarm;
	unsigned int timer_us;
	unsigned int exit_us;
	unsigned int ratio_idx;
	/* 0 if unused, which stands for RATIO_ONE. */
	u64 ratio[NR_RATIOS];
	unsigned int length_us[NR_LENGTHS];
	unsigned int next_length;
};

/* A prediction and its reliability. */
struct menu_prediction {
	u64 length_us;
	bool is_pattern;
	/* It was too short for a state. */
	bool kept_shallow;
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

/* 3.7's detector: the mean, if all lengths are about equal and it is before the timer. */
static bool menu_all_alike(struct menu_cpu *menu, u64 *mean_us)
{
	u64 sum = 0, squares = 0, mean;
	int i;

	for (i = 0; i < NR_LENGTHS; i++)
		sum += menu->length_us[i];
	mean = sum / NR_LENGTHS;
	if (!mean || mean > menu->timer_us)
		return false;

	for (i = 0; i < NR_LENGTHS; i++) {
		s64 off = menu->length_us[i] - mean;

		squares += off * off;
	}
	*mean_us = mean;
	return squares / NR_LENGTHS < ALIKE_VARIANCE_US2;
}

/* The lengths from @least to @most: limits on entry, extremes on return. */
struct menu_sample {
	unsigned int nr;
	s64 least, most;
	s64 mean;
	unsigned long deviation;
};

static void menu_take_sample(struct menu_cpu *menu, struct menu_sample *sample)
{
	s64 from = sample->least, to = sample->most;
	u64 sum = 0, squares = 0;
	int i;

	*sample = (struct menu_sample) { .least = to, .most = from };
	for (i = 0; i < NR_LENGTHS; i++) {
		s64 length_us = menu->length_us[i];

		if (length_us < from || length_us > to)
			continue;
		sample->nr++;
		sum += length_us;
		sample->least = min(sample->least, length_us);
		sample->most = max(sample->most, length_us);
	}
	sample->mean = div_u64(sum, sample->nr);

	for (i = 0; i < NR_LENGTHS; i++) {
		s64 off = (s64)menu->length_us[i] - sample->mean;

		if (menu->length_us[i] >= from && menu->length_us[i] <= to)
			squares += off * off;
	}
	sample->deviation = int_sqrt(div_u64(squares, sample->nr));
}

/* The mean of the lengths without outliers, if those are about equal. */
static bool menu_typical(struct menu_cpu *menu, bool both_ends, u64 *mean_us)
{
	unsigned int nr_min = both_ends ? NR_LENGTHS_MIN_BOTH : NR_LENGTHS_MIN;
	struct menu_sample sample = { .least = 0, .most = UINT_MAX };

	for (;;) {
		menu_take_sample(menu, &sample);
		if (sample.deviation <= ALIKE_DEVIATION_US ||
		    (sample.nr >= nr_min && sample.mean > ALIKE_MEAN_RATIO * sample.deviation)) {
			*mean_us = sample.mean;
			return true;
		}
		if (sample.nr <= nr_min)
			return false;
		if (both_ends && sample.mean - sample.least > sample.most - sample.mean)
			sample.least++;
		else
			sample.most--;
	}
}

static void menu_predict(struct menu_cpu *menu, struct menu_prediction *prediction)
{
	u64 *ratio = &menu->ratio[menu->ratio_idx];
	u64 typical_us = 0;

	if (!*ratio)
		*ratio = RATIO_ONE;
	if (typical_interval == TYPICAL_OF_3_7)
		prediction->is_pattern = menu_all_alike(menu, &typical_us);
	else
		prediction->is_pattern = menu_typical(menu, typical_interval == TYPICAL_BOTH_ENDS,
						      &typical_us);
	prediction->length_us = typical_us;
	if (!prediction->is_pattern)
		prediction->length_us = div_u64(menu->timer_us * *ratio + RATIO_ONE / 2, RATIO_ONE);
}

/* Step 5. */
static int menu_deepest(struct menu_cpu *menu, struct cpuidle_driver *drv,
			struct cpuidle_device *dev, s64 latency_req_us, unsigned int multiplier,
			struct menu_prediction *prediction)
{
	int first = drv->states[0].flags & CPUIDLE_FLAG_POLLING ? 1 : 0;
	int i, idx = 0;

	if (first < drv->state_count && !dev->states_usage[first].disable &&
	    menu->timer_us > POLL_TIMER_US)
		idx = first;

	for (i = first; i < drv->state_count; i++) {
		u64 residency_us = ktime_to_us(drv->states[i].target_residency_ns);
		u64 exit_us = ktime_to_us(drv->states[i].exit_latency_ns);

		if (dev->states_usage[i].disable)
			continue;
		if (residency_us > prediction->length_us) {
			prediction->kept_shallow = true;
			continue;
		}
		if (exit_us > latency_req_us || exit_us * multiplier > prediction->length_us)
			continue;
		idx = i;
		/* As in menu-3.7: state 0 is the fallback. */
		menu->exit_us = i ? exit_us : 0;
	}
	return idx;
}

/*
 * For a pattern the wake-up suffices: the next select() records the length. The timer of a CPU that
 * has gone offline expires on another one.
 */
static enum hrtimer_restart menu_timer_expired(struct hrtimer *timer)
{
	struct menu_cpu *menu = container_of(timer, struct menu_cpu, alarm);

	if (menu->timer == TIMER_GENERAL)
		menu->ratio[menu->ratio_idx] = RATIO_ONE;
	menu->timer = TIMER_OFF;
	return HRTIMER_NORESTART;
}

static void menu_cancel_timer(struct menu_cpu *menu)
{
	if (menu->timer == TIMER_OFF)
		return;
	hrtimer_cancel(&menu->alarm);
	menu->timer = TIMER_OFF;
}

/* Step 6. */
static void menu_arm_timer(struct menu_cpu *menu, const struct menu_prediction *prediction)
{
	u64 wait_us = 2 * (prediction->length_us + MAX_DEVIATION_US);

	if (prediction->is_pattern && repeat_timer && TIMER_SHARE * wait_us < menu->timer_us)
		menu->timer = TIMER_REPEAT;
	else if (general_timer && (u64)perfect_cstate_ms * USEC_PER_MSEC < menu->timer_us)
		menu->timer = TIMER_GENERAL;
	else
		return;
	hrtimer_start(&menu->alarm, ns_to_ktime(wait_us * NSEC_PER_USEC),
		      HRTIMER_MODE_REL_PINNED_HARD);
}

static int menu_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	struct menu_cpu *menu = this_cpu_ptr(&menu_cpus);
	s64 latency_req_us = ktime_to_us(cpuidle_governor_latency_req(dev->cpu));
	bool gave_up = menu->is_entering && !dev->last_residency_ns;
	struct menu_prediction prediction = { };
	unsigned int nr_iowait;
	int idx;

	menu_cancel_timer(menu);
	if (menu->must_learn || (gave_up && zero_residency))
		menu_learn(menu, dev);
	menu->must_learn = false;
	menu->is_entering = true;
	menu->exit_us = 0;
	if (unlikely(latency_req_us == 0))
		return 0;

	nr_iowait = nr_iowait_cpu(dev->cpu);
	menu->timer_us = menu_next_timer_us();
	menu->ratio_idx = menu_ratio_idx(menu->timer_us, nr_iowait);
	menu_predict(menu, &prediction);

	idx = menu_deepest(menu, drv, dev, latency_req_us, menu_multiplier(nr_iowait), &prediction);
	if (prediction.kept_shallow)
		menu_arm_timer(menu, &prediction);
	return idx;
}

static void menu_reflect(struct cpuidle_device *dev, int index)
{
	struct menu_cpu *menu = this_cpu_ptr(&menu_cpus);

	menu_cancel_timer(menu);
	dev->last_state_idx = index;
	menu->is_entering = false;
	menu->must_learn = true;
}

static int menu_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	struct menu_cpu *menu = per_cpu_ptr(&menu_cpus, dev->cpu);

	memset(menu, 0, sizeof(*menu));
	/* Hard: an idle CPU cannot wait for a timer that expires in a thread. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&menu->alarm, menu_timer_expired, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_HARD);
#else
	hrtimer_init(&menu->alarm, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	menu->alarm.function = menu_timer_expired;
#endif
	return 0;
}

static void menu_disable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	/* Even if no timer is recorded: the module can be unloaded after this. */
	hrtimer_cancel(&per_cpu_ptr(&menu_cpus, dev->cpu)->alarm);
}

/* Below current governors: it is only for comparisons. */
static struct cpuidle_governor menu_governor = {
	.name =		"menu-3.8",
	.rating =	5,
	.enable =	menu_enable,
	.disable =	menu_disable,
	.select =	menu_select,
	.reflect =	menu_reflect,
};

static int __init menu_init(void)
{
	return cpuidle_register_governor(&menu_governor);
}

postcore_initcall(menu_init);

MODULE_DESCRIPTION("The menu idle governor of Linux 3.8, which sets itself a timer");
MODULE_LICENSE("GPL");
