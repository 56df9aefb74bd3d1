// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: tide - minimizes the expected cost of a sleep
 *
 * Idea: Learn how often a sleep that has lasted for some time ends within the next octave of time,
 * and choose the plan with the lowest expected cost: a state, and, if it helps, a time at which to
 * wake up and go deeper. Timers are known in advance; a sleep that a timer ended only shows that
 * nothing came before. A state breaks even with the one before it at its target residency, so
 * entering it costs the power that it saves times the target residency. The power itself matters
 * only relative to the other steps: it is assumed proportional to exit latency / target residency,
 * since a longer transition costs more.
 *
 * State kept, per CPU: for each octave of time since the start of the sleep, how often sleeps that
 * reached it ended in it, as a fast and a slow average; for each state, decaying counts of the
 * sleeps with its length that their timer ended and of the others, and which of the last nine
 * these were; the price of latency; the start and first timer of the sleep; an hrtimer.
 *
 * Decision:
 *
 *  1. If this governor's timer, the tick or the polling limit ended the last sleep, and select()
 *     follows at once, the CPU is still idle, and the sleep continues. Otherwise update the
 *     averages from the sleep: it did not end in the octaves before its end, and it ended in the
 *     last one, unless a timer ended it.
 *  2. The price of latency increases with the exit latency spent, and decreases with the exit
 *     latency that teo's choice would have spent: the state of the timer, unless more than half of
 *     the sleeps by their decaying count, or of the last nine, ended before it paid off; then the
 *     state that most of these were long enough for. It is stable if both are equal on average.
 *  3. The candidates are the enabled states within the latency limit that pay off by the next
 *     timer; of more than four, the shallowest and the three deepest.
 *  4. For each octave, from the last one before the timer back to the current one, compute the
 *     cost of each candidate: its power during the octave, plus the price of its exit latency if
 *     the sleep ends there, otherwise its cost from the next octave on; or the cost of waking up
 *     there to go deeper, if that is lower.
 *  5. Take the candidate with the lowest cost, and set the timer for the time at which it goes
 *     deeper. If it does not, and its exit latency costs more than waiting for the next timer in a
 *     shallow state, set the timer to wake up by its exit latency before the next timer.
 *  6. Keep the tick if the governor's timer comes before it, or if so few sleeps last until the
 *     tick that stopping it costs more than being woken up by it.
 *
 * Known weaknesses: It spends as much latency as teo, even if less would suffice. It ignores the
 * previous sleeps' order and the CPU's utilization, so two alternating kinds of sleeps are mixed.
 * The slow average needs about thirty sleeps to adapt. With more than four suitable states, some
 * are never taken.
 *
 * Departures: None; no kernel has it. References: menu and teo for the tick, teo for step 2.
 */

#include <linux/cpuidle.h>
#include <linux/hrtimer.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/percpu.h>
#include <linux/sched/clock.h>
#include <linux/string.h>
#include <linux/tick.h>
#include <linux/version.h>

/*
 * Octaves of time since the start of the sleep. The first one ends at a 32nd of the target
 * residency of the first state that is not cheap, but at least at 4 us. The last one starts at
 * about eight times the deepest state's, when nothing is left to decide.
 */
#define NR_BINS			20
#define FIRST_SHIFT_MIN		11
#define FIRST_SHIFT_BELOW	6
#define LAST_SHIFT_ABOVE	3

/* A fraction of 1: hazards and weights. */
#define ONE_SHIFT		16
#define ONE			(1 << ONE_SHIFT)
#define HAZARD_FIRST		(ONE / 32)
/* Weight of a sleep in the fast and the slow average; larger for the first ones. */
#define FAST_SHIFT		2
#define SLOW_SHIFT		5
#define NR_PLANS		4
/* States that pay off earlier are always worth entering. */
#define WORTH_A_THOUGHT_NS	(16 * NSEC_PER_USEC)
/* Limits below which no sum of products overflows. */
#define TIME_MAX_NS		(1LL << 40)
#define STEP_TIME_MAX_NS	(1LL << 30)
/* Maximum and minimum of the power step between two states. */
#define STEP_MAX		256
#define STEP_MIN		16
#define STEP_SHIFT		8

/*
 * The price of a ns of latency, in 1/16 of the power that the state saves, stored in 1/256 of that.
 * Its changes are relative to the deepest state's exit latency, so they are the same on all
 * machines. The maximum is four times that at which as much latency is spent as by teo's choice.
 */
#define SHARE_ONE		256
#define PRICE_SHIFT		8
#define PRICE_FIRST		(12 << PRICE_SHIFT)
#define PRICE_MAX		(200 << PRICE_SHIFT)
#define PRICE_FAIR_MAX		(64 << PRICE_SHIFT)
#define PRICE_GAIN		8

/*
 * Count of a sleep in its state, the decay of counts at each sleep, and the number of recent
 * sleeps.
 */
#define SLEEP_WEIGHT		1024
#define DECAY_SHIFT		3
#define NR_RECENT		9
#define IS_HIT			U8_MAX

/*
 * Cost of an own wake-up, relative to entering the deepest state: the interrupt, two passes through
 * the idle loop, two settings of the hardware. It is high, since the tables do not include them.
 */
#define WAKE_SHIFT		2

/* The sleep continues if nothing else ran for this long between two calls. */
#define STILL_IDLE_NS		(10 * NSEC_PER_USEC)
/* A timer can end a sleep this much before its expiry, by clock differences and slack. */
#define TIMER_SLACK_NS		(2 * NSEC_PER_USEC)
/* The interrupt, and the way to the next sleep. */
#define PREWAKE_MARGIN_NS	(5 * NSEC_PER_USEC)

static unsigned int share_pct __read_mostly = 100;
module_param(share_pct, uint, 0644);
MODULE_PARM_DESC(share_pct, "exit latency to spend, in percent of a bet on the majority");

static bool own_timer __read_mostly = true;
module_param(own_timer, bool, 0644);
MODULE_PARM_DESC(own_timer, "set timers: to go deeper, and to be awake when the next one is due");

/* Powers are relative to the deepest state, energies to entering state 0; in steps times ns. */
struct tide_state {
	s64 residency_ns, exit_ns;
	u64 power, entry;
	/* The cost of its exit at a price of 1. */
	u64 latency;
	/* Its exit latency relative to the deepest state's, in 1/SHARE_ONE. */
	int share, idx;
	/* Sleeps of its length that their timer ended, and others. */
	u16 hits, intercepts;
};

struct tide_cpu {
	struct hrtimer alarm;
	/* Start of the sleep, its last end, its first timer distance; latency limit. */
	s64 began_ns, woken_ns, timer_ns, limit_ns;
	/* Index in state[] of the state of the sleep; -1 if it is not there. */
	int last;
	/* The share of the state that teo's choice takes. */
	int due;
	/* Whether an own timer, the tick or the polling limit ended the last part. */
	bool must_learn, has_fired, may_go_on;
	u32 price;
	int nr_states, nr_bins, first_shift;
	u64 wake_cost;
	u16 fast[NR_BINS], slow[NR_BINS];
	u8 seen[NR_BINS];
	/* Indices in state[] for the lengths of the last sleeps, or IS_HIT; the oldest one. */
	u8 recent[NR_RECENT], oldest;
	struct tide_state state[CPUIDLE_STATE_MAX];
};

/* A candidate during the computation of its cost. */
struct tide_plan {
	const struct tide_state *state;
	u64 latency, cost;
	/* Time until it goes deeper; 0 for never. */
	s64 deeper_ns;
};

static DEFINE_PER_CPU(struct tide_cpu, tide_cpus);

/* The clock can wrap. */
static s64 tide_since(s64 later_ns, s64 sooner_ns)
{
	return (u64)later_ns - (u64)sooner_ns;
}

/* Start of an octave. */
static s64 tide_edge(const struct tide_cpu *tide, int bin)
{
	return bin ? 1LL << (tide->first_shift + bin) : 0;
}

static int tide_bin(const struct tide_cpu *tide, s64 age_ns)
{
	return age_ns < tide_edge(tide, 1) ? 0 :
	       min_t(int, ilog2((u64)age_ns) - tide->first_shift, tide->nr_bins - 1);
}

static u32 tide_hazard(const struct tide_cpu *tide, int bin)
{
	/* Nothing is left to decide in the last one. */
	return bin == tide->nr_bins - 1 ? 0 : (tide->fast[bin] + tide->slow[bin]) / 2;
}

static void tide_move(u16 *hazard, bool has_ended, int shift)
{
	*hazard += has_ended ? (ONE - 1 - *hazard) >> shift : -(*hazard >> shift);
}

static void tide_learn(struct tide_cpu *tide, s64 slept_ns, bool by_timer)
{
	int bin, last = tide_bin(tide, slept_ns);

	/* An octave that the timer ended in its first half does not count as passed. */
	if (by_timer && 2 * slept_ns < tide_edge(tide, last) + tide_edge(tide, last + 1))
		last--;
	for (bin = 0; bin <= last; bin++) {
		bool has_ended = bin == last && !by_timer;
		int warm = ilog2(tide->seen[bin] + 2U) + 1;

		tide_move(&tide->fast[bin], has_ended, min(FAST_SHIFT, warm));
		tide_move(&tide->slow[bin], has_ended, min(SLOW_SHIFT, warm));
		if (tide->seen[bin] < U8_MAX)
			tide->seen[bin]++;
	}
}

/* The deepest state that pays off in a sleep of that length, enabled or not. */
static int tide_longest(const struct tide_cpu *tide, s64 sleep_ns)
{
	int i, longest = 0;

	for (i = 1; i < tide->nr_states; i++)
		longest = tide->state[i].residency_ns <= sleep_ns ? i : longest;
	return longest;
}

static void tide_count(struct tide_cpu *tide, s64 slept_ns, bool by_timer)
{
	int i, timer = tide_longest(tide, tide->timer_ns);
	int slept = by_timer ? timer : tide_longest(tide, slept_ns);

	for (i = 0; i < tide->nr_states; i++) {
		tide->state[i].hits -= tide->state[i].hits >> DECAY_SHIFT;
		tide->state[i].intercepts -= tide->state[i].intercepts >> DECAY_SHIFT;
	}
	if (slept == timer)
		tide->state[slept].hits += SLEEP_WEIGHT;
	else
		tide->state[slept].intercepts += SLEEP_WEIGHT;
	tide->recent[tide->oldest] = slept == timer ? IS_HIT : slept;
	tide->oldest = tide->oldest + 1 == NR_RECENT ? 0 : tide->oldest + 1;
}

/* The exit latency that teo's choice would spend. */
static int tide_due(const struct tide_cpu *tide, struct cpuidle_device *dev, s64 sleep_ns)
{
	u32 intercepts = 0, deeper = 0, recent = 0;
	u32 passed = 0, passed_recent = 0;
	u8 last[CPUIDLE_STATE_MAX] = { };
	bool by_count, by_recent;
	int i, bet = tide_longest(tide, sleep_ns);

	for (i = 0; i < NR_RECENT; i++) {
		if (tide->recent[i] < bet) {
			last[tide->recent[i]]++;
			recent++;
		}
	}
	for (i = 0; i < tide->nr_states; i++) {
		if (i >= bet) {
			deeper += tide->state[i].hits + tide->state[i].intercepts;
			continue;
		}
		intercepts += tide->state[i].intercepts;
	}
	by_count = intercepts > deeper;
	by_recent = 2 * recent > NR_RECENT;
	if (by_count || by_recent) {
		while (--bet > 0) {
			passed += tide->state[bet].intercepts;
			passed_recent += last[bet];
			if ((!by_count || 2 * passed > intercepts) &&
			    (!by_recent || 2 * passed_recent > recent))
				break;
		}
	}
	for (; bet > 0; bet--) {
		if (!dev->states_usage[tide->state[bet].idx].disable &&
		    tide->state[bet].exit_ns <= tide->limit_ns)
			return tide->state[bet].share;
	}
	return 0;
}

static void tide_balance(struct tide_cpu *tide)
{
	s64 spent = tide->last < 0 ? 0 : tide->state[tide->last].share;
	u32 want = READ_ONCE(share_pct), most = want < 100 ? PRICE_MAX : PRICE_FAIR_MAX;

	spent -= div_s64((s64)tide->due * want, 100);
	tide->price = clamp_t(s64, tide->price + PRICE_GAIN * spent, 0, most);
}

/* Steps 1 and 2; returns false if the sleep continues. */
static bool tide_is_over(struct tide_cpu *tide, s64 now_ns)
{
	s64 exit_ns = tide->last < 0 ? 0 : tide->state[tide->last].exit_ns;
	s64 slept_ns = tide_since(tide->woken_ns, tide->began_ns);
	bool by_timer = slept_ns >= tide->timer_ns - TIMER_SLACK_NS;

	if (!tide->must_learn)
		return true;
	tide->must_learn = false;
	if (tide->may_go_on && tide_since(now_ns, tide->woken_ns) < STILL_IDLE_NS)
		return false;

	slept_ns = slept_ns > 2 * exit_ns ? slept_ns - exit_ns : slept_ns / 2;
	slept_ns = clamp_t(s64, slept_ns, 0, by_timer ? tide->timer_ns : TIME_MAX_NS);
	tide_balance(tide);
	tide_count(tide, slept_ns, by_timer);
	tide_learn(tide, slept_ns, by_timer);
	return true;
}

/* The timer of a CPU that has gone offline expires on another one. */
static enum hrtimer_restart tide_alarm_expired(struct hrtimer *timer)
{
	struct tide_cpu *tide = container_of(timer, struct tide_cpu, alarm);

	tide->has_fired = true;
	return HRTIMER_NORESTART;
}

/* Step 3; returns the number of candidates. */
static int tide_candidates(struct tide_cpu *tide, struct cpuidle_device *dev, s64 sleep_ns,
			   struct tide_plan *plan)
{
	int i, nr = 0;

	for (i = 0; i < tide->nr_states; i++) {
		const struct tide_state *state = &tide->state[i];

		if (dev->states_usage[state->idx].disable || state->exit_ns > tide->limit_ns)
			continue;
		if (nr && state->residency_ns > sleep_ns)
			break;
		if (nr == 1 && state->residency_ns <= WORTH_A_THOUGHT_NS)
			nr = 0;
		if (nr == NR_PLANS) {
			nr--;
			memmove(&plan[1], &plan[2], (NR_PLANS - 2) * sizeof(*plan));
		}
		plan[nr++] = (struct tide_plan) {
			.state = state,
			.latency = state->latency * (tide->price >> PRICE_SHIFT),
		};
	}
	return nr;
}

/* The costs of waking up before the timer, and of waiting for it in a shallow state. */
static u64 tide_prewake_cost(const struct tide_cpu *tide, const struct tide_plan *shallow,
			     const struct tide_plan *deep)
{
	if (!READ_ONCE(own_timer))
		return U64_MAX;
	return shallow->latency + tide->wake_cost +
	       ((shallow->state->power - deep->state->power) *
		(deep->state->exit_ns + PREWAKE_MARGIN_NS) >> STEP_SHIFT);
}

/* Steps 4 and 5. */
static struct tide_plan *tide_cheapest(struct tide_cpu *tide, s64 age_ns, s64 sleep_ns,
				       struct tide_plan *plan, int nr)
{
	struct tide_plan *best = plan;
	int j, bin, first = tide_bin(tide, age_ns), last = tide_bin(tide, age_ns + sleep_ns);
	bool may_deepen = READ_ONCE(own_timer);

	if (nr == 1)
		return plan;
	plan->cost = plan->latency;
	for (j = 1; j < nr; j++)
		plan[j].cost = min(plan[j].latency, tide_prewake_cost(tide, plan, &plan[j]));
	for (bin = last; bin >= first; bin--) {
		s64 from_ns = max(age_ns, tide_edge(tide, bin));
		s64 to_ns = bin == last ? age_ns + sleep_ns : tide_edge(tide, bin + 1);
		u64 for_ns = clamp_t(s64, to_ns - from_ns, 0, STEP_TIME_MAX_NS);
		u64 hazard = tide_hazard(tide, bin), change = U64_MAX;

		/* If less than half of the octave is left, reduce the hazard. */
		if (2 * (s64)for_ns < tide_edge(tide, bin + 1) - tide_edge(tide, bin))
			hazard /= 2;
		for (j = nr - 1; j >= 0; j--) {
			u64 power_cost = plan[j].state->power * for_ns >> STEP_SHIFT;
			u64 cost = plan[j].cost * (ONE - hazard) + plan[j].latency * hazard;

			/* A sleep that ends in it ends in its middle. */
			cost = (cost + power_cost * (ONE - hazard / 2)) >> ONE_SHIFT;
			if (may_deepen && bin != first && change < cost) {
				cost = change;
				plan[j].deeper_ns = from_ns - age_ns;
			}
			plan[j].cost = cost;
			change = min(change, tide->wake_cost + plan[j].state->entry + cost);
		}
	}
	for (j = 1; j < nr; j++) {
		if (plan[j].cost + plan[j].state->entry < best->cost + best->state->entry)
			best = &plan[j];
	}
	return best;
}

/* Step 6. Stopping the tick costs about half of a wake-up by it. */
static bool tide_keeps_tick(struct tide_cpu *tide, const struct tide_plan *plan, s64 age_ns,
			    s64 sleep_ns, s64 tick_ns)
{
	int bin, last = tide_bin(tide, age_ns + tick_ns);
	u64 outlasts = ONE;

	if (sleep_ns <= tick_ns || (plan->deeper_ns && plan->deeper_ns < tick_ns))
		return true;
	for (bin = tide_bin(tide, age_ns); bin < last; bin++)
		outlasts = outlasts * (ONE - tide_hazard(tide, bin)) >> ONE_SHIFT;
	return outlasts * (plan->state->entry + tide->wake_cost) >> ONE_SHIFT < tide->wake_cost / 2;
}

static int tide_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	struct tide_cpu *tide = per_cpu_ptr(&tide_cpus, dev->cpu);
	struct tide_plan plan[NR_PLANS], *best;
	s64 age_ns, sleep_ns, alarm_ns, now_ns = local_clock();
	ktime_t tick_ns;
	int nr;

	hrtimer_cancel(&tide->alarm);
	tide->limit_ns = cpuidle_governor_latency_req(dev->cpu);
	sleep_ns = clamp_t(s64, tick_nohz_get_sleep_length(&tick_ns), 0, TIME_MAX_NS);
	if (tide_is_over(tide, now_ns)) {
		tide->began_ns = now_ns;
		tide->timer_ns = sleep_ns;
		tide->due = tide_due(tide, dev, sleep_ns);
	}
	tide->has_fired = false;
	age_ns = clamp_t(s64, tide_since(now_ns, tide->began_ns), 0, TIME_MAX_NS);
	nr = tide_candidates(tide, dev, sleep_ns, plan);
	if (!nr) {
		int i, first = 0;

		for (i = drv->state_count - 1; i >= 0; i--)
			first = dev->states_usage[i].disable ? first : i;
		tide->last = -1;
		*stop_tick = !(drv->states[first].flags & CPUIDLE_FLAG_POLLING);
		return first;
	}
	best = tide_cheapest(tide, age_ns, sleep_ns, plan, nr);

	if (!tick_nohz_tick_stopped()) {
		*stop_tick = !tide_keeps_tick(tide, best, age_ns, sleep_ns, tick_ns);
		if (!*stop_tick && best->deeper_ns >= tick_ns)
			best->deeper_ns = 0;
	}
	alarm_ns = best->deeper_ns;
	if (!alarm_ns && best != plan && tide_prewake_cost(tide, plan, best) < best->latency &&
	    (*stop_tick || tick_nohz_tick_stopped() || sleep_ns <= tick_ns)) {
		alarm_ns = sleep_ns - best->state->exit_ns - PREWAKE_MARGIN_NS;
		if (alarm_ns <= best->state->residency_ns)
			alarm_ns = 0;
	}
	if (alarm_ns)
		hrtimer_start(&tide->alarm, ns_to_ktime(alarm_ns), HRTIMER_MODE_REL_PINNED_HARD);
	tide->last = best->state - tide->state;
	return best->state->idx;
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

/* Costs and latencies of all states that do not poll, each relative to the one before it. */
static void tide_read_table(struct tide_cpu *tide, struct cpuidle_driver *drv)
{
	u64 entry = 0, latency = 0, power = 0;
	int i;

	for (i = 0; i < drv->state_count; i++) {
		struct cpuidle_state *given = &drv->states[i];
		struct tide_state *state = &tide->state[tide->nr_states];

		if (given->flags & CPUIDLE_FLAG_POLLING)
			continue;
		state->idx = i;
		state->residency_ns = clamp_t(s64, given->target_residency_ns, 0, STEP_TIME_MAX_NS);
		state->exit_ns = clamp_t(s64, given->exit_latency_ns, 0, STEP_TIME_MAX_NS);
		if (tide->nr_states) {
			s64 more_ns = max_t(s64, state->exit_ns - state[-1].exit_ns, 0);
			u64 step = STEP_MAX;

			if (state->residency_ns)
				step = clamp_t(s64, div64_s64(more_ns * STEP_MAX,
							      state->residency_ns),
					       STEP_MIN, STEP_MAX);
			entry += step * state->residency_ns >> STEP_SHIFT;
			latency += step * more_ns;
			power += step;
		}
		state->entry = entry;
		/* By 16, since the price is in sixteenths. */
		state->latency = latency >> (STEP_SHIFT + 4);
		state->power = power;
		tide->nr_states++;
	}
	for (i = 0; i < tide->nr_states; i++) {
		struct tide_state *state = &tide->state[i];
		s64 deepest_ns = tide->state[tide->nr_states - 1].exit_ns;

		state->power = power - state->power;
		state->share = min_t(s64, SHARE_ONE,
				     div64_s64(state->exit_ns * SHARE_ONE, max(deepest_ns, 1LL)));
	}
	tide->wake_cost = entry >> WAKE_SHIFT;
}

static void tide_lay_bins(struct tide_cpu *tide)
{
	int i = 0, first, last;

	tide->first_shift = FIRST_SHIFT_MIN;
	tide->nr_bins = 1;
	if (!tide->nr_states)
		return;
	while (i < tide->nr_states - 1 && tide->state[i].residency_ns <= WORTH_A_THOUGHT_NS)
		i++;
	first = ilog2((u64)tide->state[i].residency_ns + 1) - FIRST_SHIFT_BELOW;
	tide->first_shift = max(first, FIRST_SHIFT_MIN);
	last = ilog2((u64)tide->state[tide->nr_states - 1].residency_ns + 1) + LAST_SHIFT_ABOVE;
	tide->nr_bins = clamp(last - tide->first_shift + 1, 1, NR_BINS);
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
	tide->last = -1;
	tide->price = PRICE_FIRST;
	memset(tide->recent, IS_HIT, sizeof(tide->recent));
	for (i = 0; i < NR_BINS; i++)
		tide->fast[i] = tide->slow[i] = HAZARD_FIRST;
	tide_read_table(tide, drv);
	tide_lay_bins(tide);
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
