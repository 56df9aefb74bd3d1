// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: tide - goes deeper as a sleep lasts
 *
 * Idea: A sleep that has lasted for long is likely to last. Learn which share of the sleeps ends in
 * each octave of their age (below 16 us, 16 to 32 us, and so on). From these shares follows what a
 * state is expected to cost until the next timer: the energy to enter it, the power while it lasts,
 * and, where the sleep ends, the exit latency, at a price. Take the cheapest. If that is a shallow
 * state, an hrtimer ends it at the age at which going deeper pays.
 *
 * State kept, per CPU: these shares; start and first timer of the sleep; an hrtimer.
 *
 * Decision:
 *
 *  1. A sleep that the tick or the governor's hrtimer interrupted goes on. Of any other, count the
 *     octaves that it outlasted, and the one in which it ended. If its timer ended it, nobody knows
 *     how long it would have lasted, so only the octaves outlasted count.
 *  2. Candidates are the enabled states within the latency limit that pay off by the next timer.
 *     The table has no powers, but it tells where a state breaks even with the one before it. Let
 *     it save one unit of power then, and let entering it cost this unit for its target residency.
 *  3. Go back from the next timer to now, octave by octave: the sleep ends in the middle of it, or
 *     goes on in the same state, or in a deeper one, if an own wake-up for that costs less.
 *  4. Stop the tick unless the hrtimer, the next timer or the end of most sleeps comes before it.
 *
 * Known weaknesses: It mixes alternating kinds of sleeps. The price is the same for all loads.
 *
 * Departures: None; no kernel has it. References: teo, for the tick and for what ends a sleep.
 */

#include <linux/cpuidle.h>
#include <linux/hrtimer.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/sched/clock.h>
#include <linux/string.h>
#include <linux/tick.h>

/* The first octave ends at 2^14 ns: states that take less to pay off need no plan. */
#define FIRST_SHIFT	14
/* The last one begins at 2^30 ns, 1 s: what takes longer to pay off is for suspend-to-idle. */
#define LAST_SHIFT	30
#define NR_OCTAVES	(LAST_SHIFT - FIRST_SHIFT + 2)
#define HORIZON_NS	(1LL << LAST_SHIFT)
/* A share of 1. Costs are below 2^41, 2^30 ns at the highest price, so their product fits a u64. */
#define ONE		(1U << 16)
/* A sleep counts a quarter, twice as much as teo's: few sleeps reach the late octaves. */
#define SHARE_SHIFT	2
/* At first, (31/32)^17 = 58 % of the sleeps outlast all octaves: the next timer decides. */
#define SHARE_FIRST	(ONE / 32)
/* An own wake-up: an eighth of the deepest entry, on a Pixel 6 250 us in WFI or 5 us of running. */
#define WAKE_SHIFT	3
/* From a wake-up to the next select() the idle loop takes less, unless something ran. */
#define STILL_IDLE_NS	(10 * NSEC_PER_USEC)

static unsigned short price_pct __read_mostly = 100;
module_param(price_pct, ushort, 0644);
MODULE_PARM_DESC(price_pct, "price of exit latency, in percent of the power that a state saves");

/**
 * struct tide_cpu - state of a CPU
 * @alarm: ends a shallow state to go deeper
 * @is_armed: @alarm was set for the last part of the sleep
 * @goes_on: the tick or @alarm ended it
 * @began_ns: start of the sleep
 * @timer_ns: time from there to its first timer
 * @woken_ns: end of its last part
 * @exit_ns: exit latency of its last state
 * @share: share of the sleeps that end in an octave, of those that reach it
 */
struct tide_cpu {
	struct hrtimer alarm;
	bool is_armed, goes_on;
	u64 began_ns, timer_ns, woken_ns, exit_ns;
	u16 share[NR_OCTAVES];
};

/**
 * struct tide_plan - a candidate, with costs in ns of the power that one state saves
 * @idx: index of its state
 * @entry: cost of entering it
 * @latency: cost of its exit latency
 * @cost: expected cost after entry, from the octave that is computed
 * @deeper_ns: time until it goes deeper; 0 for never
 */
struct tide_plan {
	int idx;
	u64 entry, latency, cost, deeper_ns;
};

static DEFINE_PER_CPU(struct tide_cpu, tide_cpus);

static int tide_octave(u64 age_ns)
{
	return min_t(int, fls64(age_ns >> FIRST_SHIFT), NR_OCTAVES - 1);
}

/* Step 1; returns whether the sleep goes on. */
static bool tide_goes_on(struct tide_cpu *tide, struct cpuidle_device *dev, u64 now_ns)
{
	u64 slept_ns = tide->woken_ns - tide->began_ns;
	int i, last = tide_octave(slept_ns - min(slept_ns / 2, tide->exit_ns));

	if (dev->last_state_idx < 0)
		return false;
	dev->last_state_idx = -1;
	if (tide->goes_on && now_ns - tide->woken_ns < STILL_IDLE_NS)
		return true;

	for (i = 0; i < last; i++)
		tide->share[i] -= tide->share[i] >> SHARE_SHIFT;
	if (slept_ns < tide->timer_ns)
		tide->share[last] += (ONE - 1 - tide->share[last]) >> SHARE_SHIFT;
	return false;
}

/* Step 2; returns the number of candidates. */
static int tide_candidates(struct cpuidle_driver *drv, struct cpuidle_device *dev, s64 sleep_ns,
			   struct tide_plan *plan)
{
	s64 limit_ns = min(cpuidle_governor_latency_req(dev->cpu), HORIZON_NS);
	int i, nr = 0;

	for (i = 0; i < drv->state_count; i++) {
		struct cpuidle_state *state = &drv->states[i];

		if (dev->states_usage[i].disable || state->flags & CPUIDLE_FLAG_POLLING ||
		    state->exit_latency_ns > limit_ns ||
		    (nr && state->target_residency_ns > sleep_ns))
			continue;
		plan[nr].idx = i;
		plan[nr].entry = nr ? plan[nr - 1].entry + state->target_residency_ns : 0;
		plan[nr].latency = div_u64(state->exit_latency_ns * READ_ONCE(price_pct), 100);
		plan[nr].cost = plan[nr].latency;
		plan[nr++].deeper_ns = 0;
	}
	return nr;
}

/* Step 3. */
static struct tide_plan *tide_cheapest(const struct tide_cpu *tide, u64 age_ns, u64 sleep_ns,
				       struct tide_plan *plan, int nr)
{
	int i, octave = tide_octave(age_ns + sleep_ns), first = tide_octave(age_ns);
	u64 from_ns, to_ns = age_ns + sleep_ns;
	struct tide_plan *best = plan;

	for (; nr > 1 && octave >= first; octave--, to_ns = from_ns) {
		u64 ends = tide->share[octave], deeper = U64_MAX;

		from_ns = octave == first ? age_ns : 1ULL << (FIRST_SHIFT + octave - 1);
		for (i = nr - 1; i >= 0; i--) {
			/* Half of the octave's power if the sleep ends in it. */
			u64 power = (nr - 1 - i) * (to_ns - from_ns) * (ONE - ends / 2);

			plan[i].cost = (power + plan[i].latency * ends +
					plan[i].cost * (ONE - ends)) / ONE;
			if (octave != first && deeper < plan[i].cost) {
				plan[i].cost = deeper;
				plan[i].deeper_ns = from_ns - age_ns;
			}
			deeper = min(deeper, plan[i].entry + plan[i].cost +
					     (plan[nr - 1].entry >> WAKE_SHIFT));
		}
	}
	for (i = 1; i < nr; i++) {
		if (plan[i].entry + plan[i].cost < best->entry + best->cost)
			best = &plan[i];
	}
	return best;
}

/* Step 4; returns whether most sleeps of this age outlast the tick. */
static bool tide_outlasts(const struct tide_cpu *tide, u64 age_ns, u64 tick_ns)
{
	int i, last = tide_octave(age_ns + tick_ns);
	u64 outlast = ONE;

	for (i = tide_octave(age_ns); i < last; i++)
		outlast = outlast * (ONE - tide->share[i]) / ONE;
	return outlast >= ONE / 2;
}

static int tide_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	struct tide_cpu *tide = per_cpu_ptr(&tide_cpus, dev->cpu);
	struct tide_plan plan[CPUIDLE_STATE_MAX], *best;
	u64 sleep_ns, age_ns, now_ns = local_clock();
	bool goes_on = tide_goes_on(tide, dev, now_ns);
	ktime_t tick_ns;
	int i, nr;

	hrtimer_cancel(&tide->alarm);
	sleep_ns = clamp_t(s64, tick_nohz_get_sleep_length(&tick_ns), 0, HORIZON_NS);
	if (!goes_on) {
		tide->began_ns = now_ns;
		tide->timer_ns = sleep_ns;
	}
	age_ns = min_t(u64, now_ns - tide->began_ns, HORIZON_NS);

	/* Without candidates: polling, or what is enabled, whatever its latency. */
	*plan = (struct tide_plan) { };
	nr = tide_candidates(drv, dev, sleep_ns, plan);
	for (i = drv->state_count - 1; i >= 0 && !nr; i--)
		plan->idx = dev->states_usage[i].disable ? plan->idx : i;
	best = tide_cheapest(tide, age_ns, sleep_ns, plan, nr);
	tide->exit_ns = drv->states[best->idx].exit_latency_ns;
	/* As a u64, a tick that is overdue is far away, and kept. */
	*stop_tick = (best->deeper_ns ?: sleep_ns) > (u64)tick_ns &&
		     tide_outlasts(tide, age_ns, tick_ns) &&
		     !(drv->states[best->idx].flags & CPUIDLE_FLAG_POLLING);

	tide->is_armed = best->deeper_ns;
	if (tide->is_armed)
		hrtimer_start(&tide->alarm, ns_to_ktime(best->deeper_ns),
			      HRTIMER_MODE_REL_PINNED_HARD);
	return best->idx;
}

static void tide_reflect(struct cpuidle_device *dev, int index)
{
	struct tide_cpu *tide = per_cpu_ptr(&tide_cpus, dev->cpu);
	bool has_fired = !hrtimer_cancel(&tide->alarm) && tide->is_armed;

	dev->last_state_idx = index;
	tide->woken_ns = local_clock();
	tide->goes_on = has_fired || tick_nohz_idle_got_tick();
}

static enum hrtimer_restart tide_alarm_expired(struct hrtimer *timer)
{
	return HRTIMER_NORESTART;
}

static int tide_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	struct tide_cpu *tide = per_cpu_ptr(&tide_cpus, dev->cpu);
	int i;

	memset(tide, 0, sizeof(*tide));
	hrtimer_setup(&tide->alarm, tide_alarm_expired, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_HARD);
	for (i = 0; i < NR_OCTAVES; i++)
		tide->share[i] = SHARE_FIRST;
	return 0;
}

static void tide_disable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	hrtimer_cancel(&per_cpu_ptr(&tide_cpus, dev->cpu)->alarm);
}

static struct cpuidle_governor tide_governor = {
	.name =		"tide",
	.rating =	5,
	.enable =	tide_enable,
	.disable =	tide_disable,
	.select =	tide_select,
	.reflect =	tide_reflect,
};

static int __init tide_init(void)
{
	return cpuidle_register_governor(&tide_governor);
}

postcore_initcall(tide_init);

MODULE_DESCRIPTION("Idle governor that goes deeper as a sleep lasts");
MODULE_LICENSE("GPL");
