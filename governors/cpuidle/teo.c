// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: teo - the next timer, unless other wake-ups usually come first
 *
 * Idea: Take the state that fits the next timer, unless the CPU has usually been woken up before
 * that state paid off. Timers are the most frequent wake-ups and are known in advance, so the
 * governor only needs to learn how often, and how early, something else comes first.
 *
 * Each state has a bin: the sleep lengths from its target residency up to the next state's. A
 * sleep is a *hit* if it ended in the bin of its timer, else an *intercept* in the bin in which it
 * ended.
 *
 * State kept, per CPU: for each bin, decaying counts of hits and intercepts, and the number of
 * intercepts among the last nine sleeps; the sum of the counts; the sleep length and the start of
 * the last sleep, until it has updated the others.
 *
 * Decision:
 *
 *  1. Update the counts from the last sleep. If it lasted to the timer, or if the tick or the
 *     polling limit ended it, it is a hit. Otherwise its length is the residency minus half the
 *     exit latency, since leaving a state does not take the worst case each time.
 *  2. The candidate is the deepest enabled state that pays off by the next timer.
 *  3. Sleeps are too short for it if the intercepts in shallower bins are more than half of the
 *     sum without the hits in shallower bins, or if more than half of the last nine sleeps were
 *     such intercepts. Then go back to the first state at which the bins passed contain more than
 *     half of those intercepts (of each kind that met its condition). Take that state if it is
 *     enabled, and expect the sleep to end in the middle of its bin. If the tick is stopped, the
 *     CPU could stay in a shallow state for a long time: go back only to states whose bin has its
 *     middle at a tick period or above.
 *  4. Do not go deeper than the latency limit allows.
 *  5. If the tick runs, and the state polls or the expected sleep is below a tick period, keep the
 *     tick. It will end the sleep, so go back to a state that pays off before it.
 *
 * Utilization (util_mode=): A CPU that was busy recently will be busy again soon, whatever its
 * timers, and a shallow state reduces its latency. A CPU is *utilized* while its utilization
 * exceeds its capacity >> util_shift; after full load it takes 200 ms of idle time to fall below
 * 1/64. The expected sleep length does not change, so neither does the decision on the tick.
 *
 *  - off: steps 1 to 5 only.
 *  - shallowest: a utilized CPU takes the first enabled state, without steps 2 to 4, and its sleep
 *    does not update the counts. If the timer comes before state 1 pays off, it takes state 0, and
 *    the previous verdict on utilization stays.
 *  - v2: after step 4, take the state before the chosen one, even if it polls, unless it is
 *    disabled. With at most two states, the first enabled one replaces steps 2 to 4. The sleep of
 *    a utilized CPU does not update the counts.
 *  - v3: like v2, but only from state 1 to state 0, and never a state that polls, also with two
 *    states.
 *  - v4: like v3, but all sleeps update the counts.
 *  - step: after step 4, go back to the next enabled state that pays off in the expected sleep.
 *    With at most two states, the first enabled one replaces steps 2 to 4, unless the timer comes
 *    before state 1 pays off; then state 0. It does not go to a state that polls; step 5 still
 *    can.
 *  - gradual: after step 5, multiply the index by the free share of the capacity and round down.
 *    Take the next enabled state from there that does not poll, first down, then up.
 *
 * Own timer (own_timer=1): Without it, a CPU stays in a state that proves too shallow until the
 * tick, or as long as it is idle. Set an hrtimer for the time at which the next deeper state pays
 * off, under two conditions: from then on the next timer leaves enough time for the deepest state
 * to pay off, and so did three quarters of the sleeps that lasted that long (in the bin of the
 * deepest state: twice its target residency). If only this timer wakes the CPU, the sleep
 * continues: it updates the counts when it ends, and step 3 is skipped, since the sleep is longer
 * than expected.
 *
 * Known weaknesses: The decaying counts never reach zero, so bins that were not used for a long
 * time still count. Step 4 falls back to state 0 even if that is disabled. Bins belong to indices,
 * so a disabled state keeps its counts. If only one state up to the candidate is enabled, the
 * latency limit is ignored, and so is utilization, except with two states and in gradual.
 * Utilization says little about the length of one sleep: on a little CPU 1/64 is almost nothing,
 * and sleeps of a utilized CPU can be long.
 *
 * Departures: With util_mode=off and own_timer=0 none known. It makes the same decisions as Linux
 * 6.1 (stable 6.1.192); a test compares both over random sequences of calls. No kernel has
 * own_timer. In the other modes, capacity and util_shift are read at each decision; Linux 6.3 to
 * 6.5 read the capacity when the CPU is enabled, and the shift is 6. With all states disabled,
 * shallowest takes state 0; the proposal read beyond the table. Only the formula of gradual was
 * proposed; the threshold, and the rules on polling and disabled states, are new.
 *
 * References: Linux 6.1 drivers/cpuidle/governors/teo.c; Documentation/admin-guide/pm/cpuidle.rst.
 * Utilization: shallowest is the RFC "cpuidle: teo: Introduce optional util-awareness" of 15
 * September 2022; v2 to v4 are its later postings, compared with the patches line by line, since
 * no tree has them (20221003144914.160547-2, 20221031121314.1381472-3, 20221102152808.2978590-3);
 * step is the fifth and sixth and commit 9ce0f7c4bc64 (Linux 6.3), reverted by 0a2998fa48f0
 * (6.11); gradual is Yu Chen's proposal. For 6.6 see teo-6.6.
 */

#include <linux/cpuidle.h>
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/topology.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/tick.h>
#include <linux/version.h>

/* Count of a sleep, and the decay of all counts at each sleep: an eighth. */
#define SLEEP_WEIGHT		1024
#define DECAY_SHIFT		3

#define NR_RECENT		9
#define NO_BIN			(-1)

enum teo_util_mode {
	UTIL_OFF,
	UTIL_SHALLOWEST,
	UTIL_V2,
	UTIL_V3,
	UTIL_V4,
	UTIL_STEP,
	UTIL_GRADUAL,
};

static const char * const teo_util_modes[] = {
	[UTIL_OFF] =		"off",
	[UTIL_SHALLOWEST] =	"shallowest",
	[UTIL_V2] =		"v2",
	[UTIL_V3] =		"v3",
	[UTIL_V4] =		"v4",
	[UTIL_STEP] =		"step",
	[UTIL_GRADUAL] =	"gradual",
};

static int util_mode = UTIL_OFF;

static int teo_util_mode_set(const char *val, const struct kernel_param *kp)
{
	int mode = sysfs_match_string(teo_util_modes, val);

	if (mode < 0)
		return mode;
	WRITE_ONCE(util_mode, mode);
	return 0;
}

static int teo_util_mode_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%s\n", teo_util_modes[READ_ONCE(util_mode)]);
}

static const struct kernel_param_ops teo_util_mode_ops = {
	.set =	teo_util_mode_set,
	.get =	teo_util_mode_get,
};

module_param_cb(util_mode, &teo_util_mode_ops, &util_mode, 0644);
MODULE_PARM_DESC(util_mode, "off, shallowest, v2, v3, v4, step or gradual");

/* A 64th of the capacity: more than housekeeping needs, and soon reached when work starts. */
static unsigned int util_shift = 6;
module_param(util_shift, uint, 0644);
MODULE_PARM_DESC(util_shift, "a CPU is utilized above its capacity >> util_shift");

static bool own_timer;
module_param(own_timer, bool, 0644);
MODULE_PARM_DESC(own_timer, "wake up to go deeper if a shallow choice proves wrong (default N)");

/* The sleep continues if nothing else ran for this long after the governor's timer. */
#define STILL_IDLE_NS		(10 * NSEC_PER_USEC)

/* Counts of a bin, or sums over several. */
struct teo_counts {
	unsigned int hits;
	unsigned int intercepts;
	unsigned int recent;
};

struct teo_cpu {
	/* Start of the sleep between select() and reflect(), then its length. */
	s64 sleep_ns;
	s64 sleep_length_ns;
	struct teo_counts bin[CPUIDLE_STATE_MAX];
	unsigned int total;
	/* Like the counts, for sleeps of twice the deepest state's target residency. */
	unsigned int twice;
	int recent_bin[NR_RECENT];
	int next_recent;
	/* The sleep started on a utilized CPU; for modes that ignore such sleeps. */
	bool utilized;
	/* Start of the sleep; its length when the own timer ended the first part. */
	s64 began_ns, first_part_ns;
	bool is_set, has_fired;
	struct hrtimer alarm;
};

/* A state and the expected length of the sleep in it. */
struct teo_choice {
	int idx;
	s64 sleep_ns;
};

static DEFINE_PER_CPU(struct teo_cpu, teo_cpus);

#ifdef CONFIG_SMP
static unsigned long teo_util(int cpu)
{
	return sched_cpu_util(cpu);
}
#else
/* Without SMP the scheduler does not track it. */
static unsigned long teo_util(int cpu)
{
	return 0;
}
#endif

static bool teo_utilized(int cpu)
{
	unsigned int shift = min(READ_ONCE(util_shift), 31U);

	return teo_util(cpu) > arch_scale_cpu_capacity(cpu) >> shift;
}

/* The first three postings ignore the sleeps of utilized CPUs. */
static bool teo_ignores_utilized(int mode)
{
	return mode == UTIL_SHALLOWEST || mode == UTIL_V2 || mode == UTIL_V3;
}

static void teo_add(struct teo_counts *sum, const struct teo_counts *bin)
{
	sum->hits += bin->hits;
	sum->intercepts += bin->intercepts;
	sum->recent += bin->recent;
}

/* The length of the last sleep for its bin; U64_MAX if it reached the timer. */
static u64 teo_slept_ns(struct teo_cpu *teo, struct cpuidle_driver *drv,
			struct cpuidle_device *dev)
{
	u64 exit_latency_ns = drv->states[dev->last_state_idx].exit_latency_ns;
	u64 slept_ns = dev->last_residency_ns + teo->first_part_ns;

	if (teo->sleep_ns >= teo->sleep_length_ns)
		return U64_MAX;
	return slept_ns < exit_latency_ns ? slept_ns / 2 : slept_ns - exit_latency_ns / 2;
}

static void teo_note_recent(struct teo_cpu *teo, int bin)
{
	int *oldest = &teo->recent_bin[teo->next_recent];

	if (*oldest != NO_BIN)
		teo->bin[*oldest].recent--;
	if (bin != NO_BIN)
		teo->bin[bin].recent++;
	*oldest = bin;
	if (++teo->next_recent == NR_RECENT)
		teo->next_recent = 0;
}

static void teo_learn(struct teo_cpu *teo, struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	u64 slept_ns = teo_slept_ns(teo, drv, dev);
	u64 lasted_ns = min_t(u64, slept_ns, teo->sleep_length_ns);
	int i, timer_bin = 0, slept_bin = 0;

	teo->twice -= teo->twice >> DECAY_SHIFT;
	if (lasted_ns / 2 >= drv->states[drv->state_count - 1].target_residency_ns)
		teo->twice += SLEEP_WEIGHT;
	teo->total = SLEEP_WEIGHT;
	for (i = 0; i < drv->state_count; i++) {
		s64 residency_ns = drv->states[i].target_residency_ns;
		struct teo_counts *bin = &teo->bin[i];

		bin->hits -= bin->hits >> DECAY_SHIFT;
		bin->intercepts -= bin->intercepts >> DECAY_SHIFT;
		teo->total += bin->hits + bin->intercepts;

		if (residency_ns > teo->sleep_length_ns)
			continue;
		timer_bin = i;
		if (residency_ns <= slept_ns)
			slept_bin = i;
	}

	if (timer_bin == slept_bin) {
		teo->bin[timer_bin].hits += SLEEP_WEIGHT;
		teo_note_recent(teo, NO_BIN);
	} else {
		teo->bin[slept_bin].intercepts += SLEEP_WEIGHT;
		teo_note_recent(teo, slept_bin);
	}
}

/* Without a tick, a wrong prediction of a short sleep would cost too much. */
static bool teo_long_enough(u64 sleep_ns)
{
	return !tick_nohz_tick_stopped() || sleep_ns >= TICK_NSEC;
}

/* Sums the counts of the bins shallower than @choice; goes back if sleeps are too short for it. */
static void teo_expect_intercepts(struct teo_cpu *teo, struct cpuidle_driver *drv,
				  struct cpuidle_device *dev, const struct teo_counts *shallower,
				  struct teo_choice *choice)
{
	bool by_count = 2 * shallower->intercepts > teo->total - shallower->hits;
	bool by_recent = shallower->recent > NR_RECENT / 2;
	struct teo_choice suitable = *choice;
	struct teo_counts passed = { };
	int i;

	if (!by_count && !by_recent)
		return;

	for (i = choice->idx - 1; i >= 0; i--) {
		struct teo_choice here = {
			.idx = i,
			.sleep_ns = (drv->states[i].target_residency_ns +
				     drv->states[i + 1].target_residency_ns) / 2,
		};
		bool enabled = !dev->states_usage[i].disable;
		bool fits = enabled && teo_long_enough(here.sleep_ns);

		teo_add(&passed, &teo->bin[i]);
		if ((!by_recent || 2 * passed.recent > shallower->recent) &&
		    (!by_count || 2 * passed.intercepts > shallower->intercepts)) {
			*choice = fits ? here : suitable;
			return;
		}

		if (fits)
			suitable = here;
		else if (enabled && suitable.idx == choice->idx)
			return; /* Only shorter bins follow. */
	}
}

static bool teo_usable(struct cpuidle_driver *drv, struct cpuidle_device *dev, int i, bool may_poll)
{
	return !dev->states_usage[i].disable &&
	       (may_poll || !(drv->states[i].flags & CPUIDLE_FLAG_POLLING));
}

/* The first enabled state, or -1. */
static int teo_first(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool may_poll)
{
	int i;

	for (i = 0; i < drv->state_count; i++) {
		if (teo_usable(drv, dev, i, may_poll))
			return i;
	}
	return -1;
}

/* The deepest enabled state before @idx that pays off in @within_ns, else the first enabled one. */
static int teo_shallower(struct cpuidle_driver *drv, struct cpuidle_device *dev, int idx,
			 ktime_t within_ns, bool may_poll)
{
	int i;

	for (i = idx - 1; i >= 0; i--) {
		if (!teo_usable(drv, dev, i, may_poll))
			continue;
		idx = i;
		if (drv->states[i].target_residency_ns <= within_ns)
			break;
	}
	return idx;
}

/* @idx scaled by the CPU's free capacity; the first enabled state if there is none. */
static int teo_scaled(struct cpuidle_driver *drv, struct cpuidle_device *dev, int idx)
{
	unsigned long capacity = max(arch_scale_cpu_capacity(dev->cpu), 1UL);
	unsigned long util = min(teo_util(dev->cpu), capacity);
	int i, scaled = idx * (capacity - util) / capacity;

	for (i = scaled; i >= 0; i--) {
		if (teo_usable(drv, dev, i, false))
			return i;
	}
	for (i = scaled + 1; i < idx; i++) {
		if (teo_usable(drv, dev, i, false))
			return i;
	}
	return idx;
}

/*
 * Steps 2 to 4 with utilization. @first is the shallowest enabled state found so far, the lower
 * limit of the choice.
 */
static struct teo_choice teo_choose(struct teo_cpu *teo, struct cpuidle_driver *drv,
				    struct cpuidle_device *dev, int mode, int *first)
{
	s64 latency_req_ns = cpuidle_governor_latency_req(dev->cpu);
	struct teo_choice choice = { .idx = -1, .sleep_ns = teo->sleep_length_ns };
	struct teo_counts sum = { }, shallower = { };
	int i, within_limit = 0;
	bool utilized = false;

	*first = 0;
	if (drv->state_count < 2) {
		choice.idx = 0;
		return choice;
	}
	if (!dev->states_usage[0].disable) {
		choice.idx = 0;
		if (drv->states[1].target_residency_ns > choice.sleep_ns)
			return choice;
	}

	if (mode != UTIL_OFF && mode != UTIL_GRADUAL) {
		utilized = teo_utilized(dev->cpu);
		teo->utilized = utilized;
	}
	if (utilized && mode == UTIL_SHALLOWEST) {
		choice.idx = max(teo_first(drv, dev, true), 0);
		return choice;
	}
	if (utilized && drv->state_count == 2) {
		int idx = teo_first(drv, dev, mode == UTIL_V2);

		if (idx >= 0) {
			choice.idx = idx;
			return choice;
		}
	}

	for (i = 1; i < drv->state_count; i++) {
		teo_add(&sum, &teo->bin[i - 1]);
		if (dev->states_usage[i].disable)
			continue;
		if (choice.idx < 0) {
			choice.idx = i;
			*first = i;
		}
		if (drv->states[i].target_residency_ns > choice.sleep_ns)
			break;
		choice.idx = i;
		if (drv->states[i].exit_latency_ns <= latency_req_ns)
			within_limit = i;
		shallower = sum;
	}
	if (choice.idx < 0) {
		choice.idx = 0;
	} else if (choice.idx > *first) {
		if (!teo->first_part_ns)
			teo_expect_intercepts(teo, drv, dev, &shallower, &choice);
		choice.idx = min(choice.idx, within_limit);
		if (utilized && mode == UTIL_V2 && choice.idx > 0)
			choice.idx -= !dev->states_usage[choice.idx - 1].disable;
		else if (utilized && (choice.idx == 1 || (mode != UTIL_V3 && mode != UTIL_V4)))
			choice.idx = teo_shallower(drv, dev, choice.idx, choice.sleep_ns, false);
	}
	return choice;
}

/* The timer of a CPU that has gone offline expires on another one. */
static enum hrtimer_restart teo_alarm_expired(struct hrtimer *timer)
{
	struct teo_cpu *teo = container_of(timer, struct teo_cpu, alarm);

	teo->has_fired = true;
	return HRTIMER_NORESTART;
}

/* Sets the own timer for the time at which the state after @idx pays off, if that is useful. */
static void teo_set_alarm(struct teo_cpu *teo, struct cpuidle_driver *drv,
			  struct cpuidle_device *dev, int idx, s64 latest_ns)
{
	s64 latency_req_ns = cpuidle_governor_latency_req(dev->cpu);
	s64 age_ns = 0, enough_ns = 0;
	u64 lasted = 0, enough = teo->twice;
	int i;

	for (i = idx + 1; i < drv->state_count; i++) {
		s64 residency_ns = drv->states[i].target_residency_ns;

		if (!teo_usable(drv, dev, i, false) ||
		    drv->states[i].exit_latency_ns > latency_req_ns)
			continue;
		if (!age_ns && residency_ns <= teo->sleep_length_ns)
			age_ns = residency_ns;
		if (age_ns && residency_ns <= teo->sleep_length_ns - age_ns)
			enough_ns = age_ns + residency_ns;
	}
	if (!enough_ns || age_ns >= latest_ns)
		return;
	for (i = idx + 1; i < drv->state_count; i++) {
		s64 residency_ns = drv->states[i].target_residency_ns;
		unsigned int count = teo->bin[i].hits + teo->bin[i].intercepts;

		if (residency_ns >= age_ns)
			lasted += count;
		if (residency_ns >= enough_ns && i < drv->state_count - 1)
			enough += count;
	}
	if (!lasted || 4 * enough < 3 * lasted)
		return;
	teo->is_set = true;
	hrtimer_start(&teo->alarm, ns_to_ktime(age_ns), HRTIMER_MODE_REL_PINNED_HARD);
}

static void teo_clear_alarm(struct teo_cpu *teo)
{
	if (teo->is_set)
		hrtimer_cancel(&teo->alarm);
	teo->is_set = false;
}

/* Whether only the own timer ended the last part of the sleep; @now_ns starts the next one. */
static bool teo_goes_on(struct teo_cpu *teo, s64 now_ns)
{
	bool goes_on = teo->has_fired && now_ns - teo->began_ns - teo->sleep_ns < STILL_IDLE_NS;

	teo->has_fired = false;
	return goes_on;
}

static int teo_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	struct teo_cpu *teo = per_cpu_ptr(&teo_cpus, dev->cpu);
	int first, mode = READ_ONCE(util_mode);
	struct teo_choice choice;
	s64 now_ns = local_clock();
	ktime_t delta_tick_ns;
	bool goes_on;

	teo_clear_alarm(teo);
	goes_on = teo_goes_on(teo, now_ns);
	if (dev->last_state_idx >= 0) {
		if (!goes_on && (!teo->utilized || !teo_ignores_utilized(mode)))
			teo_learn(teo, drv, dev);
		/* Do not update from it twice if the driver rejects the next state. */
		dev->last_state_idx = -1;
	}

	if (!goes_on)
		teo->began_ns = now_ns;
	teo->first_part_ns = now_ns - teo->began_ns;
	teo->sleep_ns = teo->began_ns;
	teo->sleep_length_ns = tick_nohz_get_sleep_length(&delta_tick_ns);

	choice = teo_choose(teo, drv, dev, mode, &first);

	if (!tick_nohz_tick_stopped() &&
	    (drv->states[choice.idx].flags & CPUIDLE_FLAG_POLLING || choice.sleep_ns < TICK_NSEC)) {
		*stop_tick = false;
		if (choice.idx > first &&
		    drv->states[choice.idx].target_residency_ns > delta_tick_ns)
			choice.idx = teo_shallower(drv, dev, choice.idx, delta_tick_ns, true);
	}
	if (mode == UTIL_GRADUAL && teo_utilized(dev->cpu))
		return teo_scaled(drv, dev, choice.idx);
	if (READ_ONCE(own_timer) && !goes_on)
		teo_set_alarm(teo, drv, dev, choice.idx, *stop_tick ? S64_MAX : delta_tick_ns);
	if (goes_on)
		teo->sleep_length_ns = min_t(s64, teo->sleep_length_ns,
					     S64_MAX - teo->first_part_ns) + teo->first_part_ns;
	return choice.idx;
}

static void teo_reflect(struct cpuidle_device *dev, int index)
{
	struct teo_cpu *teo = per_cpu_ptr(&teo_cpus, dev->cpu);

	dev->last_state_idx = index;
	if (dev->poll_time_limit ||
	    (tick_nohz_idle_got_tick() && teo->sleep_length_ns > TICK_NSEC)) {
		dev->poll_time_limit = false;
		teo->sleep_ns = teo->sleep_length_ns;
		teo->has_fired = false;
	} else {
		teo->sleep_ns = local_clock() - teo->sleep_ns;
	}
	teo_clear_alarm(teo);
}

static int teo_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	struct teo_cpu *teo = per_cpu_ptr(&teo_cpus, dev->cpu);
	int i;

	memset(teo, 0, sizeof(*teo));
	for (i = 0; i < NR_RECENT; i++)
		teo->recent_bin[i] = NO_BIN;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&teo->alarm, teo_alarm_expired, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_HARD);
#else
	hrtimer_init(&teo->alarm, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	teo->alarm.function = teo_alarm_expired;
#endif
	return 0;
}

static void teo_disable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	hrtimer_cancel(&per_cpu_ptr(&teo_cpus, dev->cpu)->alarm);
}

static struct cpuidle_governor teo_governor = {
	.name =		"teo",
	.rating =	19,
	.enable =	teo_enable,
	.disable =	teo_disable,
	.select =	teo_select,
	.reflect =	teo_reflect,
};

static int __init teo_init(void)
{
	return cpuidle_register_governor(&teo_governor);
}

postcore_initcall(teo_init);

MODULE_DESCRIPTION("Idle governor that trusts timers until other wake-ups come first");
MODULE_LICENSE("GPL");
