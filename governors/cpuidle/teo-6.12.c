// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: teo-6.12 - early wake-ups first, the next timer last
 *
 * Idea: Start from the deepest state and go back to the states in which wake-ups other than timers
 * have usually ended sleeps. Only then, and only if it can still change the decision, get the next
 * timer, which takes time.
 *
 * Each state has a bin: the sleep lengths from its target residency up to the next state's. A
 * sleep is a *hit* if it ended in the bin of its timer, else an *intercept* in the bin in which it
 * ended. If the deepest state pays off within a tick period, its bin ends there; longer sleeps
 * whose timer is as far away are counted separately, as hits.
 *
 * State kept, per CPU: for each bin, decaying counts of hits and intercepts; the same count of
 * hits beyond a tick period; the sum of all counts; the sleep length and the start of the last
 * sleep, until it has updated the others.
 *
 * Decision:
 *
 *  1. Update the counts from the last sleep. If it lasted to the timer, or if the tick or the
 *     polling limit ended it, it ended in its timer's bin. Otherwise its length is the residency
 *     minus half the exit latency, since leaving a state does not take the worst case each time. A
 *     timer that was not read counts as infinitely far away.
 *  2. The candidate is the deepest enabled state.
 *  3. Sleeps are too short for it if the intercepts in shallower bins exceed half of the sum
 *     without the hits in shallower bins. Then go back to the first state at which the bins passed
 *     contain more than half of those intercepts, and take it if it is enabled. If the tick is
 *     stopped,
 *     the CPU could stay in a shallow state for a long time: go back only to states that pay off
 *     at a tick period or later. If the result is state 0, get the timer, only for step 1.
 *  4. Do not go deeper than the latency limit allows.
 *  5. With state 0, or if state 0 polls and the chosen state pays off within 15 us, keep the tick
 *     and do not get the timer. Otherwise get the next timer and go back to a state that pays off
 *     by it. If that state pays off within a tick period, and the intercepts are more than five
 *     eighths of the sum, expect a sleep of at most half a tick period.
 *  6. If the tick runs, and the state polls or the expected sleep is below a tick period, keep the
 *     tick. It will end the sleep, so go back to a state that pays off before it.
 *
 * Known weaknesses: A sleep whose timer was not read can hardly be a hit, so intercepts confirm
 * themselves: after a shallow choice, only long idle periods change it. With two states the
 * shallow one is taken far more often than in 6.6. The decaying counts never reach zero. Step 4
 * falls back to state 0 even if that is disabled.
 *
 * Departures: None known. It makes the same decisions as Linux 6.12 (stable 6.12.117); a test
 * compares both over random sequences of calls. The code is not taken from there. It is not named
 * "teo", to distinguish it from that of 6.1.
 *
 * References: Linux 6.12 drivers/cpuidle/governors/teo.c; "The Timer Events Oriented (TEO)
 * Governor" in Documentation/admin-guide/pm/cpuidle.rst; on two-state machines Reka Norman on
 * linux-pm, CAEmPcwsNMNnNXuxgvHTQ93Mx-q3Oz9U57THQsU_qdcCx1m4w5g@mail.gmail.com.
 */

#include <linux/cpuidle.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched/clock.h>
#include <linux/string.h>
#include <linux/tick.h>

/* Count of a sleep, and the decay of all counts at each sleep: an eighth. */
#define SLEEP_WEIGHT		1024
#define DECAY_SHIFT		3

/* If state 0 polls, the next timer does not matter for states that pay off this early. */
#define ASK_TIMER_NS		(15 * NSEC_PER_USEC)

/* Instead of an expected sleep: keep the state and the tick. */
#define KEEP_TICK		S64_MIN

/* Counts of a bin. */
struct teo_counts {
	unsigned int hits;
	unsigned int intercepts;
};

struct teo_cpu {
	/* Start of the sleep between select() and reflect(), then its length. */
	s64 sleep_ns;
	/* KTIME_MAX if select() has not read it. */
	s64 sleep_length_ns;
	struct teo_counts bin[CPUIDLE_STATE_MAX];
	unsigned int hits_beyond_tick;
	unsigned int total;
};

/* The candidates, and the counts against the deepest one. */
struct teo_outlook {
	/* The shallowest and the deepest enabled state; the deepest within the latency limit. */
	int first, deepest, within_limit;
	/* Sums over the bins shallower than @deepest. */
	struct teo_counts shallower;
	/* Sum over all bins. */
	unsigned int intercepts;
};

static DEFINE_PER_CPU(struct teo_cpu, teo_cpus);

/* The length of the last sleep for its bin; U64_MAX if it reached the timer. */
static u64 teo_slept_ns(struct teo_cpu *teo, struct cpuidle_driver *drv,
			struct cpuidle_device *dev)
{
	u64 exit_latency_ns = drv->states[dev->last_state_idx].exit_latency_ns;
	u64 slept_ns = dev->last_residency_ns;

	if (teo->sleep_ns >= teo->sleep_length_ns)
		return U64_MAX;
	return slept_ns < exit_latency_ns ? slept_ns / 2 : slept_ns - exit_latency_ns / 2;
}

static unsigned int teo_decayed(unsigned int count)
{
	return count - (count >> DECAY_SHIFT);
}

static void teo_learn(struct teo_cpu *teo, struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	u64 slept_ns = teo_slept_ns(teo, drv, dev);
	bool timer_beyond_tick = false;
	int i, timer_bin = 0, slept_bin = 0;

	teo->total = SLEEP_WEIGHT;
	for (i = 0; i < drv->state_count; i++) {
		s64 residency_ns = drv->states[i].target_residency_ns;
		struct teo_counts *bin = &teo->bin[i];

		bin->hits = teo_decayed(bin->hits);
		bin->intercepts = teo_decayed(bin->intercepts);
		teo->total += bin->hits + bin->intercepts;

		if (residency_ns > teo->sleep_length_ns)
			continue;
		timer_bin = i;
		if (residency_ns <= slept_ns)
			slept_bin = i;
	}

	if (drv->states[drv->state_count - 1].target_residency_ns < TICK_NSEC) {
		teo->hits_beyond_tick = teo_decayed(teo->hits_beyond_tick);
		teo->total += teo->hits_beyond_tick;
		timer_beyond_tick = teo->sleep_length_ns >= TICK_NSEC;
	}

	if (timer_beyond_tick && slept_ns >= TICK_NSEC)
		teo->hits_beyond_tick += SLEEP_WEIGHT;
	else if (!timer_beyond_tick && timer_bin == slept_bin)
		teo->bin[slept_bin].hits += SLEEP_WEIGHT;
	else
		teo->bin[slept_bin].intercepts += SLEEP_WEIGHT;
}

/* Returns false if all states are disabled. */
static bool teo_look(struct teo_cpu *teo, struct cpuidle_driver *drv, struct cpuidle_device *dev,
		     struct teo_outlook *outlook)
{
	s64 latency_req_ns = cpuidle_governor_latency_req(dev->cpu);
	struct teo_counts sum = { };
	int i;

	*outlook = (struct teo_outlook) { .first = -1 };
	for (i = 0; i < drv->state_count; i++) {
		if (!dev->states_usage[i].disable) {
			if (outlook->first < 0)
				outlook->first = i;
			outlook->deepest = i;
			outlook->shallower = sum;
			if (drv->states[i].exit_latency_ns <= latency_req_ns)
				outlook->within_limit = i;
		}
		sum.hits += teo->bin[i].hits;
		sum.intercepts += teo->bin[i].intercepts;
	}
	outlook->intercepts = sum.intercepts;
	return outlook->first >= 0;
}

/* Without a tick, a wrong prediction of a short sleep would cost too much. */
static bool teo_deep_enough(struct cpuidle_state *state)
{
	return !tick_nohz_tick_stopped() || state->target_residency_ns >= TICK_NSEC;
}

/* Step 3. */
static int teo_expect_intercepts(struct teo_cpu *teo, struct cpuidle_driver *drv,
				 struct cpuidle_device *dev, const struct teo_outlook *outlook)
{
	int i, suitable = outlook->deepest;
	unsigned int passed = 0;

	if (2 * outlook->shallower.intercepts <= teo->total - outlook->shallower.hits)
		return outlook->deepest;

	for (i = outlook->deepest - 1; i >= 0; i--) {
		bool enabled = !dev->states_usage[i].disable;
		bool fits = enabled && teo_deep_enough(&drv->states[i]);

		passed += teo->bin[i].intercepts;
		if (2 * passed > outlook->shallower.intercepts)
			return fits ? i : suitable;

		if (fits)
			suitable = i;
		else if (enabled && suitable == outlook->deepest)
			break; /* Only shallower states follow. */
	}
	return outlook->deepest;
}

/* The deepest enabled state before @idx that pays off in @within_ns, else the first enabled one. */
static int teo_shallower(struct cpuidle_driver *drv, struct cpuidle_device *dev, int idx,
			 s64 within_ns)
{
	int i;

	for (i = idx - 1; i >= 0 && drv->states[idx].target_residency_ns > within_ns; i--) {
		if (!dev->states_usage[i].disable)
			idx = i;
	}
	return idx;
}

/*
 * Steps 3 to 5 with several enabled states. @sleep_ns stays KEEP_TICK if the next timer does not
 * matter.
 */
static int teo_choose(struct teo_cpu *teo, struct cpuidle_driver *drv, struct cpuidle_device *dev,
		      const struct teo_outlook *outlook, ktime_t *delta_tick_ns, s64 *sleep_ns)
{
	int idx = teo_expect_intercepts(teo, drv, dev, outlook);

	if (!idx) {
		teo->sleep_length_ns = tick_nohz_get_sleep_length(delta_tick_ns);
		return 0;
	}

	idx = min(idx, outlook->within_limit);
	if (!idx || (drv->states[0].flags & CPUIDLE_FLAG_POLLING &&
		     drv->states[idx].target_residency_ns < ASK_TIMER_NS))
		return idx;

	teo->sleep_length_ns = tick_nohz_get_sleep_length(delta_tick_ns);
	idx = teo_shallower(drv, dev, idx, teo->sleep_length_ns);

	*sleep_ns = teo->sleep_length_ns;
	if (drv->states[idx].target_residency_ns < TICK_NSEC &&
	    outlook->intercepts > teo->total / 2 + teo->total / 8)
		*sleep_ns = TICK_NSEC / 2;
	return idx;
}

static int teo_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	struct teo_cpu *teo = per_cpu_ptr(&teo_cpus, dev->cpu);
	ktime_t delta_tick_ns = TICK_NSEC / 2;
	struct teo_outlook outlook;
	s64 sleep_ns = KEEP_TICK;
	int idx = 0;

	if (dev->last_state_idx >= 0) {
		teo_learn(teo, drv, dev);
		/* Do not update from it twice if the driver rejects the next state. */
		dev->last_state_idx = -1;
	}

	teo->sleep_ns = local_clock();
	teo->sleep_length_ns = KTIME_MAX;

	if (drv->state_count > 1 && teo_look(teo, drv, dev, &outlook)) {
		idx = outlook.deepest;
		if (idx == outlook.first)
			sleep_ns = drv->states[idx].target_residency_ns;
		else
			idx = teo_choose(teo, drv, dev, &outlook, &delta_tick_ns, &sleep_ns);
	}

	if (sleep_ns != KEEP_TICK) {
		if (tick_nohz_tick_stopped() ||
		    (!(drv->states[idx].flags & CPUIDLE_FLAG_POLLING) && sleep_ns >= TICK_NSEC))
			return idx;
		if (idx > outlook.first)
			idx = teo_shallower(drv, dev, idx, delta_tick_ns);
	}
	*stop_tick = false;
	return idx;
}

static void teo_reflect(struct cpuidle_device *dev, int index)
{
	struct teo_cpu *teo = per_cpu_ptr(&teo_cpus, dev->cpu);

	dev->last_state_idx = index;
	if (dev->poll_time_limit ||
	    (tick_nohz_idle_got_tick() && teo->sleep_length_ns > TICK_NSEC)) {
		dev->poll_time_limit = false;
		teo->sleep_ns = teo->sleep_length_ns;
	} else {
		teo->sleep_ns = local_clock() - teo->sleep_ns;
	}
}

static int teo_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	memset(per_cpu_ptr(&teo_cpus, dev->cpu), 0, sizeof(struct teo_cpu));
	return 0;
}

static struct cpuidle_governor teo_governor = {
	.name =		"teo-6.12",
	.rating =	19,
	.enable =	teo_enable,
	.select =	teo_select,
	.reflect =	teo_reflect,
};

static int __init teo_init(void)
{
	return cpuidle_register_governor(&teo_governor);
}

postcore_initcall(teo_init);

MODULE_DESCRIPTION("Idle governor that asks for the next timer last");
MODULE_LICENSE("GPL");
