// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: menu-6.12 - the typical length first, then the next timer
 *
 * Idea: Predict the length of the sleep from past sleeps and from the next timer, then take the
 * deepest state that pays off within it. Finding the next timer takes time, so do it only if the
 * recent sleeps leave the decision open. Past sleeps give two estimates:
 *
 *  - The typical length of recent sleeps, if they were all about equally long, as with the
 *    interrupts of a busy device.
 *  - A running average of the ratio of sleep length to timer distance, for each range of
 *    distances.
 *
 * State kept, per CPU: six ratios, one for each range; the lengths of the last eight sleeps, in
 * us; and the next timer, ratio and wake-up of the last sleep, until it has updated the others.
 *
 * Decision:
 *
 *  1. Update the ratio and the recent lengths from the last sleep. If the driver rejected its
 *     state, record an infinite length, so that no old length stays in the pattern.
 *  2. Find the typical length of recent sleeps. If it is at most 15 us and the tick runs, it is
 *     the prediction; assume no timer, and the tick in half a period. Otherwise get the next
 *     timer, and predict the smaller of the typical length and timer distance times ratio.
 *  3. If the tick is stopped, a wrong short prediction would leave the CPU in a shallow state for
 *     a long time. So replace a prediction below a tick period by the timer distance.
 *  4. If the next timer or the latency limit allows only state 0, and that is enabled, take it.
 *     Keep the tick if it polls.
 *  5. Take the deepest enabled state with exit latency <= limit and target residency <=
 *     prediction. Instead of polling, take a state with a target residency below 15 us, if that is
 *     within the timer distance and its exit latency within the prediction. Instead of a shallow
 *     state without a tick, take one that fits the time to the next event.
 *  6. If the tick runs, and the state polls or the prediction is below a tick period, keep the
 *     tick. It will end the sleep, so go back to a state that pays off before it.
 *
 * Known weaknesses: The latency limit does not apply to the first enabled state. The length of a
 * sleep is the measured time minus the driver's worst-case exit latency, so sleeps in deep states
 * are recorded too short. A sleep without a known timer updates the ratio of the longest distance.
 * The typical length ignores outliers only if they are long.
 *
 * Departures: None known. It makes the same decisions as Linux 6.12 (stable 6.12.117); a test
 * compares both over random sequences of calls. The code is not taken from there. It is not named
 * "menu", to distinguish it from that of 6.1. With residency_threshold=0 it decides as before
 * commit 07d815701274 ("cpuidle: menu: Use residency threshold in polling state override
 * decisions"), which 6.12 got as a stable patch; the same test covers that.
 *
 * References: Linux 6.12 drivers/cpuidle/governors/menu.c; "The menu Governor" in
 * Documentation/admin-guide/pm/cpuidle.rst.
 */

#include <linux/cpuidle.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/percpu.h>
#include <linux/string.h>
#include <linux/tick.h>

/* Timer distances: below 10 us, then a decade each, the last one from 100 ms. */
#define NR_DISTANCES		6
#define FIRST_DISTANCE_NS	(10 * NSEC_PER_USEC)

/* A ratio of 1; a new one has a weight of an eighth. */
#define RATIO_STEP		1024
#define RATIO_WEIGHT		8
#define RATIO_ONE		(RATIO_STEP * RATIO_WEIGHT)

/* Predicting longer sleeps better saves nothing, so they count as predicted. */
#define LONG_SLEEP_NS		(50000 * NSEC_PER_USEC)
/* Assumed length if the tick ended a sleep too early: long, but below LONG_SLEEP_NS. */
#define TICK_SLEEP_NS		(9 * LONG_SLEEP_NS / 10)

#define NR_LENGTHS		8
/* Minimum number of lengths in a pattern. */
#define NR_LENGTHS_MIN		6
/*
 * Lengths are about equal if their standard deviation is at most 20 us, or a sixth of their mean.
 */
#define ALIKE_VARIANCE_US2	400
#define ALIKE_MEAN2_RATIO	36

#define NO_LENGTH_US		UINT_MAX

/* The next timer does not matter for shorter sleeps. */
#define ASK_TIMER_NS		(15 * NSEC_PER_USEC)

static bool residency_threshold __read_mostly = true;
module_param(residency_threshold, bool, 0644);
MODULE_PARM_DESC(residency_threshold, "only states below 15 us replace polling");

struct menu_cpu {
	bool must_learn;
	bool tick_ended_sleep;
	u64 next_timer_ns;
	unsigned int ratio_idx;
	unsigned int ratio[NR_DISTANCES];
	unsigned int length_us[NR_LENGTHS];
	unsigned int next_length;
};

static DEFINE_PER_CPU(struct menu_cpu, menu_cpus);

static void menu_note_length(struct menu_cpu *menu, unsigned int length_us)
{
	menu->length_us[menu->next_length] = length_us;
	menu->next_length = (menu->next_length + 1) % NR_LENGTHS;
}

/* The length of the sleep, or its estimate if this governor caused the wake-up. */
static u64 menu_slept_ns(struct menu_cpu *menu, struct cpuidle_driver *drv,
			 struct cpuidle_device *dev)
{
	struct cpuidle_state *state = &drv->states[dev->last_state_idx];
	u64 slept_ns = dev->last_residency_ns;

	/* The tick was kept for a short sleep, and nothing came before it. */
	if (menu->tick_ended_sleep && menu->next_timer_ns > TICK_NSEC)
		return TICK_SLEEP_NS;

	/*
	 * Polling reached its limit: nothing came, and perhaps nothing would have until the timer.
	 */
	if (state->flags & CPUIDLE_FLAG_POLLING && dev->poll_time_limit)
		return menu->next_timer_ns;

	/*
	 * The measured time includes the exit from the state. If it is so short that the state was
	 * perhaps not reached at all, assume half.
	 */
	if (slept_ns > 2 * state->exit_latency_ns)
		return slept_ns - state->exit_latency_ns;
	return slept_ns / 2;
}

static void menu_learn(struct menu_cpu *menu, struct cpuidle_driver *drv,
		       struct cpuidle_device *dev)
{
	u64 slept_ns = min(menu_slept_ns(menu, drv, dev), menu->next_timer_ns);
	unsigned int ratio = menu->ratio[menu->ratio_idx];

	ratio -= ratio / RATIO_WEIGHT;
	if (menu->next_timer_ns && slept_ns < LONG_SLEEP_NS)
		ratio += div64_u64(RATIO_STEP * slept_ns, menu->next_timer_ns);
	else
		ratio += RATIO_STEP;
	menu->ratio[menu->ratio_idx] = ratio;

	menu_note_length(menu, ktime_to_us(slept_ns));
}

static unsigned int menu_ratio_idx(u64 next_timer_ns)
{
	u64 bound_ns = FIRST_DISTANCE_NS;
	unsigned int idx = 0;

	while (idx < NR_DISTANCES - 1 && next_timer_ns >= bound_ns) {
		bound_ns *= 10;
		idx++;
	}
	return idx;
}

/* The lengths up to a limit, in us. */
struct menu_sample {
	unsigned int nr;
	unsigned int most;
	unsigned int mean;
	u64 variance;
};

/* Division by a constant is a shift; usually all lengths are in. */
static u64 menu_mean(u64 sum, unsigned int nr)
{
	return nr == NR_LENGTHS ? sum / NR_LENGTHS : div_u64(sum, nr);
}

static struct menu_sample menu_take_sample(struct menu_cpu *menu, unsigned int cutoff_us)
{
	struct menu_sample sample = { };
	u64 sum = 0, squares = 0;
	int i;

	for (i = 0; i < NR_LENGTHS; i++) {
		unsigned int length_us = menu->length_us[i];

		if (length_us > cutoff_us)
			continue;
		sample.nr++;
		sum += length_us;
		sample.most = max(sample.most, length_us);
	}
	if (!sample.most)
		return sample;

	sample.mean = menu_mean(sum, sample.nr);
	for (i = 0; i < NR_LENGTHS; i++) {
		unsigned int length_us = menu->length_us[i];
		s64 off = (s64)length_us - sample.mean;

		if (length_us <= cutoff_us)
			squares += off * off;
	}
	sample.variance = menu_mean(squares, sample.nr);
	return sample;
}

static bool menu_alike(const struct menu_sample *sample)
{
	/*
	 * The product below must not overflow; lengths that different are not about equal anyway.
	 */
	if (sample->variance > U64_MAX / ALIKE_MEAN2_RATIO)
		return false;
	if (sample->variance <= ALIKE_VARIANCE_US2)
		return true;
	return sample->nr >= NR_LENGTHS_MIN &&
		(u64)sample->mean * sample->mean > sample->variance * ALIKE_MEAN2_RATIO;
}

/*
 * The mean of the recent lengths if they are about equal, else NO_LENGTH_US; also if all are 0, as
 * after enable. The longest lengths are removed while enough remain, so that pauses between bursts
 * do not hide the bursts.
 */
static unsigned int menu_typical_us(struct menu_cpu *menu)
{
	unsigned int cutoff_us = INT_MAX;

	for (;;) {
		struct menu_sample sample = menu_take_sample(menu, cutoff_us);

		if (!sample.most)
			return NO_LENGTH_US;
		if (menu_alike(&sample))
			return sample.mean;
		if (sample.nr <= NR_LENGTHS_MIN)
			return NO_LENGTH_US;
		cutoff_us = sample.most - 1;
	}
}

/* The corrected time to the next timer, rounded to us. */
static u64 menu_corrected_ns(struct menu_cpu *menu)
{
	unsigned int timer_us = div_u64(menu->next_timer_ns * menu->ratio[menu->ratio_idx] +
					RATIO_ONE * NSEC_PER_USEC / 2,
					RATIO_ONE * NSEC_PER_USEC);

	return (u64)timer_us * NSEC_PER_USEC;
}

/* Steps 2 and 3; sets the next timer and the time to the next event, including the tick. */
static u64 menu_predict_ns(struct menu_cpu *menu, ktime_t *delta_tick_ns)
{
	u64 predicted_ns = (u64)menu_typical_us(menu) * NSEC_PER_USEC;
	bool tick_stopped = tick_nohz_tick_stopped();
	ktime_t timer_ns;

	if (!tick_stopped && predicted_ns <= ASK_TIMER_NS) {
		menu->next_timer_ns = KTIME_MAX;
		menu->ratio_idx = menu_ratio_idx(KTIME_MAX);
		*delta_tick_ns = TICK_NSEC / 2;
		return predicted_ns;
	}

	timer_ns = tick_nohz_get_sleep_length(delta_tick_ns);
	if (unlikely(timer_ns < 0)) {
		timer_ns = 0;
		*delta_tick_ns = 0;
	}
	menu->next_timer_ns = timer_ns;
	menu->ratio_idx = menu_ratio_idx(timer_ns);

	predicted_ns = min(menu_corrected_ns(menu), predicted_ns);
	return tick_stopped && predicted_ns < TICK_NSEC ? timer_ns : predicted_ns;
}

/*
 * State @next needs longer than the prediction; @idx is the best before it. Adjusts the prediction
 * to the answer.
 */
static int menu_settle(struct menu_cpu *menu, struct cpuidle_driver *drv, int idx, int next,
		       ktime_t delta_tick_ns, u64 *predicted_ns)
{
	struct cpuidle_state *best = &drv->states[idx];
	struct cpuidle_state *deeper = &drv->states[next];

	if (best->flags & CPUIDLE_FLAG_POLLING &&
	    (!residency_threshold || deeper->target_residency_ns < ASK_TIMER_NS) &&
	    deeper->target_residency_ns <= menu->next_timer_ns &&
	    deeper->exit_latency_ns <= *predicted_ns) {
		*predicted_ns = deeper->target_residency_ns;
		return next;
	}
	if (*predicted_ns < TICK_NSEC)
		return idx;

	if (!tick_nohz_tick_stopped()) {
		/* Below a tick period this keeps the tick, which can correct the choice. */
		*predicted_ns = best->target_residency_ns;
		return idx;
	}
	if (best->target_residency_ns < TICK_NSEC && deeper->target_residency_ns <= delta_tick_ns)
		return next;
	return idx;
}

static int menu_deepest(struct menu_cpu *menu, struct cpuidle_driver *drv,
			struct cpuidle_device *dev, s64 latency_req_ns, ktime_t delta_tick_ns,
			u64 *predicted_ns)
{
	int i, idx = -1;

	for (i = 0; i < drv->state_count; i++) {
		struct cpuidle_state *state = &drv->states[i];

		if (dev->states_usage[i].disable)
			continue;
		if (idx < 0)
			idx = i;
		if (state->exit_latency_ns > latency_req_ns)
			break;
		if (state->target_residency_ns > *predicted_ns)
			return menu_settle(menu, drv, idx, i, delta_tick_ns, predicted_ns);
		idx = i;
	}
	return max(idx, 0);
}

/* The deepest enabled state before @idx that pays off in @within_ns, else the first enabled one. */
static int menu_shallower(struct cpuidle_driver *drv, struct cpuidle_device *dev, int idx,
			  ktime_t within_ns)
{
	int i;

	for (i = idx - 1; i >= 0 && drv->states[idx].target_residency_ns > within_ns; i--) {
		if (!dev->states_usage[i].disable)
			idx = i;
	}
	return idx;
}

static int menu_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	struct menu_cpu *menu = this_cpu_ptr(&menu_cpus);
	s64 latency_req_ns = cpuidle_governor_latency_req(dev->cpu);
	ktime_t delta_tick_ns;
	u64 predicted_ns;
	int idx;

	if (menu->must_learn) {
		menu_learn(menu, drv, dev);
		menu->must_learn = false;
	} else if (!dev->last_residency_ns) {
		menu_note_length(menu, NO_LENGTH_US);
	}

	predicted_ns = menu_predict_ns(menu, &delta_tick_ns);

	if (unlikely(drv->state_count < 2 || latency_req_ns == 0) ||
	    (!dev->states_usage[0].disable &&
	     (menu->next_timer_ns < drv->states[1].target_residency_ns ||
	      latency_req_ns < drv->states[1].exit_latency_ns))) {
		*stop_tick = !(drv->states[0].flags & CPUIDLE_FLAG_POLLING);
		return 0;
	}

	idx = menu_deepest(menu, drv, dev, latency_req_ns, delta_tick_ns, &predicted_ns);

	if (!tick_nohz_tick_stopped() &&
	    (drv->states[idx].flags & CPUIDLE_FLAG_POLLING || predicted_ns < TICK_NSEC)) {
		*stop_tick = false;
		idx = menu_shallower(drv, dev, idx, delta_tick_ns);
	}
	return idx;
}

/* On the way out of idle: only stores what the next select() uses. */
static void menu_reflect(struct cpuidle_device *dev, int index)
{
	struct menu_cpu *menu = this_cpu_ptr(&menu_cpus);

	dev->last_state_idx = index;
	menu->must_learn = true;
	menu->tick_ended_sleep = tick_nohz_idle_got_tick();
}

static int menu_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	struct menu_cpu *menu = per_cpu_ptr(&menu_cpus, dev->cpu);
	int i;

	memset(menu, 0, sizeof(*menu));
	for (i = 0; i < NR_DISTANCES; i++)
		menu->ratio[i] = RATIO_ONE;
	return 0;
}

static struct cpuidle_governor menu_governor = {
	.name =		"menu-6.12",
	.rating =	20,
	.enable =	menu_enable,
	.select =	menu_select,
	.reflect =	menu_reflect,
};

static int __init menu_init(void)
{
	return cpuidle_register_governor(&menu_governor);
}

postcore_initcall(menu_init);

MODULE_DESCRIPTION("Idle governor that asks for the next timer only where it matters");
MODULE_LICENSE("GPL");
