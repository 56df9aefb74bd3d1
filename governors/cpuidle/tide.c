// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: tide - spends energy on a deep state when a sleep is likely to last
 *
 * Idea: The longer a sleep has lasted, the better one knows whether it will last. Learn how many
 * sleeps end in each octave of their age, and go deep at the age at which that pays. A timer of
 * its own wakes the CPU up at that age, so a shallow state is never kept by mistake.
 *
 * State kept, per CPU: the share of sleeps that end in each octave of age, of those that reach it;
 * the price of exit latency; the start and first timer of the sleep; an hrtimer.
 *
 * Decision:
 *
 *  1. A sleep that the tick or the own timer interrupted goes on, with its age. Of any other, count
 *     the octaves that it outlasted and the one that it ended in. If its timer ended it, nobody
 *     knows how long it would have lasted, and only the octaves outlasted count.
 *  2. The candidates are the states that can be entered now: enabled, within the latency limit, and
 *     paying off before the next timer. No other state has an influence on anything. The driver's
 *     table tells where one breaks even with the one before it, but no powers: let each save one
 *     unit more, and let entering it cost that unit for its target residency. Costs are in ns then.
 *  3. The cost of a candidate is the unit for as long as it sleeps, for each deeper candidate, and
 *     its exit latency at the current price. Go back from the next timer, octave by octave: a sleep
 *     ends there, or it continues at the cost computed before, in this state or, after an own
 *     wake-up, in a deeper one. Take the cheapest, and set the timer for the age at which it
 *     goes deeper.
 *  4. Keep the tick if the own timer comes first, or if it is likely that the sleep ends before.
 *  5. The price makes latency comparable with energy. It is not a constant, as no table has it: it
 *     rises with the exit latency spent, and falls with that of a bet on the deepest state that at
 *     least half of the sleeps last for. It rests where both are the same.
 *
 * Known weaknesses: It ignores the order of sleeps, so two alternating kinds are mixed. It spends
 * the latency of the bet even where less would do. What a shallow state keeps powered besides the
 * CPU is not in its cost.
 *
 * Departures: None; no kernel has it. References: teo, for the bet and for what ends a sleep.
 */

#include <linux/bitops.h>
#include <linux/cpuidle.h>
#include <linux/hrtimer.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched/clock.h>
#include <linux/string.h>
#include <linux/tick.h>
#include <linux/version.h>

/* The first octave of age ends at 16 us: below that no state but the shallowest ones pays off. */
#define FIRST_SHIFT		14
/* No sleep is planned further: a state that takes longer to pay off is for suspend-to-idle. */
#define HORIZON_NS		NSEC_PER_SEC
/* So that the last octave begins at 2^29 ns, the last power of two before the horizon. */
#define NR_OCTAVES		(29 - FIRST_SHIFT + 2)
/* Shares and the price, in fixed point; ten states times 2^30 ns times it are within 64 bits. */
#define ONE			(1U << 16)
/* An average over about eight sleeps, as many as menu looks at, and teo's counts decay in. */
#define HAZARD_SHIFT		3
/* At first more than half of the sleeps outlast all octaves, so the next timer decides. */
#define HAZARD_FIRST		(ONE / 32)
/* Four times the power saved: above, hardly any state is worth its latency. Chosen, not derived. */
#define PRICE_MAX		(4 * ONE)
/* A sleep whose latency is wrong by the deepest state's: from 0 to the maximum in eight of them. */
#define PRICE_STEP		(PRICE_MAX / 8)
/* An own wake-up costs a quarter of the entry into the deepest candidate. Assumed: not measured. */
#define WAKE_SHIFT		2
/* The idle loop takes less from a wake-up to the next selection, unless something ran. */
#define STILL_IDLE_NS		(10 * NSEC_PER_USEC)

static unsigned int share_pct __read_mostly = 100;
module_param(share_pct, uint, 0644);
MODULE_PARM_DESC(share_pct, "exit latency to spend, in percent of a bet on the majority");

static bool own_timer __read_mostly = true;
module_param(own_timer, bool, 0644);
MODULE_PARM_DESC(own_timer, "set timers that end a shallow state to go deeper");

/**
 * struct tide_cpu - state of a CPU
 * @alarm: ends a shallow state
 * @began_ns: start of the sleep, over all its parts
 * @woken_ns: end of its last part
 * @timer_ns: time from @began_ns to the first timer
 * @spent_ns: exit latency of the last state
 * @bet_ns: exit latency of the bet
 * @deepest_ns: exit latency of the deepest state that can be entered
 * @must_learn: a part has ended that select() has not seen
 * @has_fired: @alarm has expired
 * @may_go_on: the tick, @alarm or the polling limit ended the last part
 * @price: price of a ns of exit latency, at most %PRICE_MAX
 * @hazard: share of the sleeps in each octave that end there
 */
struct tide_cpu {
	struct hrtimer alarm;
	s64 began_ns, woken_ns, timer_ns;
	s64 spent_ns, bet_ns, deepest_ns;
	bool must_learn, has_fired, may_go_on;
	u32 price;
	u16 hazard[NR_OCTAVES];
};

/* A candidate: costs in ns of the power that one state saves; when it goes deeper, or 0. */
struct tide_plan {
	int idx, power;
	s64 residency_ns, exit_ns, deeper_ns;
	u64 entry, latency, cost;
};

static DEFINE_PER_CPU(struct tide_cpu, tide_cpus);

/* The clock can wrap. */
static s64 tide_since(s64 later_ns, s64 sooner_ns)
{
	return (u64)later_ns - (u64)sooner_ns;
}

static int tide_octave(s64 age_ns)
{
	return min_t(int, fls64(age_ns >> FIRST_SHIFT), NR_OCTAVES - 1);
}

static s64 tide_octave_start(int octave)
{
	return octave ? 1LL << (FIRST_SHIFT + octave - 1) : 0;
}

/* Share of the sleeps of one age that reach another. */
static u64 tide_outlast(const struct tide_cpu *tide, s64 from_ns, s64 to_ns)
{
	int i, last = tide_octave(to_ns);
	u64 share = ONE;

	for (i = tide_octave(from_ns); i < last; i++)
		share = share * (ONE - tide->hazard[i]) / ONE;
	return share;
}

/* Steps 1 and 5; returns whether the sleep goes on. */
static bool tide_goes_on(struct tide_cpu *tide, s64 now_ns)
{
	s64 slept_ns = clamp_t(s64, tide_since(tide->woken_ns, tide->began_ns), 0, HORIZON_NS);
	s64 excess_ns = tide->spent_ns - div_s64(tide->bet_ns * READ_ONCE(share_pct), 100);
	int i, last = tide_octave(max(slept_ns - tide->spent_ns, slept_ns / 2));

	if (!tide->must_learn)
		return false;
	tide->must_learn = false;
	if (tide->may_go_on && tide_since(now_ns, tide->woken_ns) < STILL_IDLE_NS)
		return true;

	excess_ns = div64_s64(max_t(s64, excess_ns, -HORIZON_NS) * PRICE_STEP,
			      max(tide->deepest_ns, 1LL));
	tide->price = clamp_t(s64, tide->price + excess_ns, 0, PRICE_MAX);
	for (i = 0; i < last; i++)
		tide->hazard[i] -= tide->hazard[i] >> HAZARD_SHIFT;
	if (slept_ns < tide->timer_ns)
		tide->hazard[last] += (ONE - 1 - tide->hazard[last]) >> HAZARD_SHIFT;
	return false;
}

/* Step 2; returns the number of candidates. */
static int tide_plans(struct tide_cpu *tide, struct cpuidle_driver *drv,
		      struct cpuidle_device *dev, s64 sleep_ns, struct tide_plan *plan)
{
	s64 limit_ns = min_t(s64, cpuidle_governor_latency_req(dev->cpu), HORIZON_NS);
	int i, nr = 0;

	for (i = 0; i < drv->state_count; i++) {
		struct cpuidle_state *state = &drv->states[i];
		s64 residency_ns = state->target_residency_ns;

		if (dev->states_usage[i].disable || state->flags & CPUIDLE_FLAG_POLLING ||
		    state->exit_latency_ns > limit_ns || residency_ns > HORIZON_NS)
			continue;
		tide->deepest_ns = state->exit_latency_ns;
		if (nr && residency_ns > sleep_ns)
			continue;
		plan[nr] = (struct tide_plan) {
			.idx = i,
			.residency_ns = residency_ns,
			.exit_ns = state->exit_latency_ns,
			.entry = nr ? plan[nr - 1].entry + residency_ns : 0,
			.latency = (u64)state->exit_latency_ns * tide->price / ONE,
		};
		nr++;
	}
	for (i = 0; i < nr; i++)
		plan[i].power = nr - 1 - i;
	return nr;
}

/* Step 3. */
static struct tide_plan *tide_cheapest(const struct tide_cpu *tide, s64 age_ns, s64 sleep_ns,
				       struct tide_plan *plan, int nr, u64 wake_cost)
{
	int i, octave, first = tide_octave(age_ns), last = tide_octave(age_ns + sleep_ns);
	bool may_deepen = READ_ONCE(own_timer);
	struct tide_plan *p, *best = plan;

	for (i = 0; i < nr; i++)
		plan[i].cost = plan[i].latency;
	for (octave = last; nr > 1 && octave >= first; octave--) {
		s64 from_ns = max(age_ns, tide_octave_start(octave));
		s64 to_ns = octave == last ? age_ns + sleep_ns : tide_octave_start(octave + 1);
		u64 hazard = tide->hazard[octave], change = U64_MAX;

		for (p = &plan[nr - 1]; p >= plan; p--) {
			/* A sleep that ends in the octave ends in its middle. */
			p->cost = (p->cost * (ONE - hazard) + p->latency * hazard +
				   p->power * (to_ns - from_ns) * (ONE - hazard / 2)) / ONE;
			if (may_deepen && octave != first && change < p->cost) {
				p->cost = change;
				p->deeper_ns = from_ns - age_ns;
			}
			change = min(change, wake_cost + p->entry + p->cost);
		}
	}
	for (i = 1; i < nr; i++) {
		if (plan[i].cost + plan[i].entry < best->cost + best->entry)
			best = &plan[i];
	}
	return best;
}

/* Step 4. Stopping the tick costs about half of a wake-up by it. */
static bool tide_keeps_tick(const struct tide_cpu *tide, const struct tide_plan *plan, s64 age_ns,
			    s64 sleep_ns, s64 tick_ns, u64 wake_cost)
{
	if (sleep_ns <= tick_ns || (plan->deeper_ns && plan->deeper_ns < tick_ns))
		return true;
	return tide_outlast(tide, age_ns, age_ns + tick_ns) * (plan->entry + wake_cost) / ONE <
	       wake_cost / 2;
}

static int tide_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	struct tide_cpu *tide = per_cpu_ptr(&tide_cpus, dev->cpu);
	struct tide_plan plan[CPUIDLE_STATE_MAX], *best;
	s64 sleep_ns, age_ns, now_ns = local_clock();
	bool goes_on = tide_goes_on(tide, now_ns);
	ktime_t tick_ns;
	u64 wake_cost;
	int i, nr;

	hrtimer_cancel(&tide->alarm);
	tide->has_fired = false;
	sleep_ns = clamp_t(s64, tick_nohz_get_sleep_length(&tick_ns), 0, HORIZON_NS);
	if (!goes_on) {
		tide->began_ns = now_ns;
		tide->timer_ns = sleep_ns;
	}
	age_ns = clamp_t(s64, tide_since(now_ns, tide->began_ns), 0, HORIZON_NS);

	nr = tide_plans(tide, drv, dev, sleep_ns, plan);
	if (!nr) {
		/* Polling is left, or what is enabled whatever its latency. */
		while (nr < drv->state_count && dev->states_usage[nr].disable)
			nr++;
		nr = nr < drv->state_count ? nr : 0;
		tide->spent_ns = tide->bet_ns = 0;
		*stop_tick = !(drv->states[nr].flags & CPUIDLE_FLAG_POLLING);
		return nr;
	}
	wake_cost = plan[nr - 1].entry >> WAKE_SHIFT;
	best = tide_cheapest(tide, age_ns, sleep_ns, plan, nr, wake_cost);
	tide->spent_ns = best->exit_ns;
	if (!goes_on) {
		i = nr - 1;
		while (i > 0 && tide_outlast(tide, 0, plan[i].residency_ns) < ONE / 2)
			i--;
		tide->bet_ns = plan[i].exit_ns;
	}

	if (!tick_nohz_tick_stopped()) {
		*stop_tick = !tide_keeps_tick(tide, best, age_ns, sleep_ns, tick_ns, wake_cost);
		if (!*stop_tick && best->deeper_ns >= tick_ns)
			best->deeper_ns = 0;
	}
	if (best->deeper_ns)
		hrtimer_start(&tide->alarm, ns_to_ktime(best->deeper_ns),
			      HRTIMER_MODE_REL_PINNED_HARD);
	return best->idx;
}

static void tide_reflect(struct cpuidle_device *dev, int index)
{
	struct tide_cpu *tide = per_cpu_ptr(&tide_cpus, dev->cpu);

	dev->last_state_idx = index;
	tide->woken_ns = local_clock();
	tide->may_go_on = tick_nohz_idle_got_tick() || tide->has_fired || dev->poll_time_limit;
	dev->poll_time_limit = false;
	tide->must_learn = true;
	hrtimer_cancel(&tide->alarm);
}

/* The timer of a CPU that has gone offline expires on another one. */
static enum hrtimer_restart tide_alarm_expired(struct hrtimer *timer)
{
	container_of(timer, struct tide_cpu, alarm)->has_fired = true;
	return HRTIMER_NORESTART;
}

static int tide_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	struct tide_cpu *tide = per_cpu_ptr(&tide_cpus, dev->cpu);
	int i;

	memset(tide, 0, sizeof(*tide));
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&tide->alarm, tide_alarm_expired, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_HARD);
#else
	hrtimer_init(&tide->alarm, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	tide->alarm.function = tide_alarm_expired;
#endif
	tide->price = ONE;
	for (i = 0; i < NR_OCTAVES; i++)
		tide->hazard[i] = HAZARD_FIRST;
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

MODULE_DESCRIPTION("Idle governor that plans a sleep from how often sleeps of its age end");
MODULE_LICENSE("GPL");
