// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: teo-6.6 - early wake-ups and utilization first, the next timer last
 *
 * Idea: Start from the deepest state and go back to the states in which wake-ups other than timers
 * have usually ended sleeps, and by one more state if the CPU was busy recently. Only then, and
 * only if it can still change the decision, get the next timer, which takes time.
 *
 * Each state has a bin: the sleep lengths from its target residency up to the next state's. A
 * sleep is a *hit* if it ended in the bin of its timer, else an *intercept* in the bin in which it
 * ended. If the deepest state pays off within a tick period, its bin ends there; longer sleeps
 * whose timer is as far away are counted separately, as hits.
 *
 * State kept, per CPU: for each bin, decaying counts of hits and intercepts, and the number of
 * intercepts among the last nine sleeps; the decaying count of hits beyond a tick period; the sum
 * of all decaying counts; the sleep length and the start of the last sleep, until it has updated
 * the others.
 *
 * Decision:
 *
 *  1. Update the counts from the last sleep. If it lasted to the timer, or if the tick or the
 *     polling limit ended it, it ended in its timer's bin. Otherwise its length is the residency
 *     minus half the exit latency, since leaving a state does not take the worst case each time. A
 *     timer that was not read counts as infinitely far away.
 *  2. A CPU is *utilized* while its utilization exceeds its capacity >> util_shift. With at most
 *     two states, a utilized CPU takes state 0 and keeps the tick, if state 0 is enabled and does
 *     not poll, and the tick runs or the state's target residency is at least a tick period; also
 *     if state 1 is disabled. Otherwise it takes state 1, for an expected sleep of its target
 *     residency. Both choices skip the timer.
 *  3. The candidate is the deepest enabled state.
 *  4. Sleeps are too short for it if the intercepts in shallower bins are more than half of the
 *     sum without the hits in shallower bins, or if more than half of the last nine sleeps were
 *     such intercepts. Then go back until the intercepts in the bins passed are more than half of
 *     them (of each kind that met its condition), and take that state if it is enabled. If the
 *     tick is stopped, the CPU could stay in a shallow state for a long time: go back only to
 *     states that pay off at a tick period or later.
 *  5. Do not go deeper than the latency limit allows.
 *  6. If the CPU is utilized, take the next shallower enabled state that does not poll, unless the
 *     tick is stopped and that state pays off below a tick period.
 *  7. With state 0, or if state 0 polls and the chosen state pays off within 15 us, keep the tick
 *     and do not get the timer. Otherwise get the next timer and go back to a state that pays off
 *     by it, with the exception of step 6. If that state pays off within a tick period, and the
 *     intercepts are more than five eighths of the sum, expect a sleep of at most half a tick
 *     period.
 *  8. If the tick runs, and the state polls or the expected sleep is below a tick period, keep the
 *     tick. It will end the sleep, so go back to a state that pays off before it.
 *
 * util_mode=off skips steps 2 and 6.
 *
 * Known weaknesses: With two states, such as WFI and power-off, a utilized CPU takes the first for
 * any sleep, and each tick wakes it. On a little CPU 1/64 of the capacity is almost nothing, and
 * after full load it takes 200 ms of idle time to fall below it. For this reason 6.11 removed
 * utilization. A hit beyond a tick period does not overwrite the oldest of the last nine sleeps,
 * which is then subtracted twice: the count can wrap below zero to a very large number.
 * The decaying counts never reach zero. Step 5 falls back to state 0 even if that is disabled.
 *
 * Departures: It makes the same decisions as Linux 6.6; a test compares both over random sequences
 * of calls. Capacity and util_shift are read at each decision; the kernel reads the capacity when
 * the CPU is enabled, and the shift is 6. The code is not taken from there. It is not named "teo",
 * to distinguish it from that of 6.1.
 *
 * References: Linux 6.6 drivers/cpuidle/governors/teo.c, unchanged to 6.10; commit 21d28cd2fa5f,
 * which moved the timer to the end, and 0a2998fa48f0, which removed utilization; Vincent Guittot
 * on linux-pm, CAKfTPtB21aY9cgi5dSHB0jRp6pE85AfGcHrHjrcpMwi3fJL0FA@mail.gmail.com.
 */

#include <linux/cpuidle.h>
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

/* Count of a sleep, and the decay of all counts at each sleep: an eighth. */
#define SLEEP_WEIGHT		1024
#define DECAY_SHIFT		3

#define NR_RECENT		9
#define NO_BIN			(-1)

/* If state 0 polls, the next timer does not matter for states that pay off this early. */
#define ASK_TIMER_NS		(15 * NSEC_PER_USEC)

/* Instead of an expected sleep: keep the state and the tick. */
#define KEEP_TICK		S64_MIN

enum teo_util_mode {
	UTIL_OFF,
	UTIL_STEP,
};

static const char * const teo_util_modes[] = {
	[UTIL_OFF] =	"off",
	[UTIL_STEP] =	"step",
};

static int util_mode = UTIL_STEP;

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
MODULE_PARM_DESC(util_mode, "off or step");

/* A 64th of the capacity: more than housekeeping needs, and soon reached when work starts. */
static unsigned int util_shift = 6;
module_param(util_shift, uint, 0644);
MODULE_PARM_DESC(util_shift, "a CPU is utilized above its capacity >> util_shift");

/* Counts of a bin, or sums over several. */
struct teo_counts {
	unsigned int hits;
	unsigned int intercepts;
	unsigned int recent;
};

struct teo_cpu {
	/* Start of the sleep between select() and reflect(), then its length. */
	s64 sleep_ns;
	/* KTIME_MAX if select() has not read it. */
	s64 sleep_length_ns;
	struct teo_counts bin[CPUIDLE_STATE_MAX];
	unsigned int hits_beyond_tick;
	unsigned int total;
	int recent_bin[NR_RECENT];
	int next_recent;
};

/* The candidates, and the counts against the deepest one. */
struct teo_outlook {
	/* The shallowest and the deepest enabled state; the deepest within the latency limit. */
	int first, deepest, within_limit;
	/* Sums over the bins shallower than @deepest. */
	struct teo_counts shallower;
	/* Sum over all bins. */
	unsigned int intercepts;
	bool utilized;
};

/* A state and the expected length of the sleep in it, or KEEP_TICK. */
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

	return READ_ONCE(util_mode) == UTIL_STEP &&
	       teo_util(cpu) > arch_scale_cpu_capacity(cpu) >> shift;
}

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

static void teo_add(struct teo_counts *sum, const struct teo_counts *bin)
{
	sum->hits += bin->hits;
	sum->intercepts += bin->intercepts;
	sum->recent += bin->recent;
}

static void teo_learn(struct teo_cpu *teo, struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	int *recent_bin = &teo->recent_bin[teo->next_recent];
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

	if (*recent_bin != NO_BIN)
		teo->bin[*recent_bin].recent--;
	if (++teo->next_recent == NR_RECENT)
		teo->next_recent = 0;

	if (timer_beyond_tick && slept_ns >= TICK_NSEC) {
		/* Like the kernel, do not change *recent_bin: see Known weaknesses. */
		teo->hits_beyond_tick += SLEEP_WEIGHT;
	} else if (!timer_beyond_tick && timer_bin == slept_bin) {
		teo->bin[slept_bin].hits += SLEEP_WEIGHT;
		*recent_bin = NO_BIN;
	} else {
		teo->bin[slept_bin].intercepts += SLEEP_WEIGHT;
		teo->bin[slept_bin].recent++;
		*recent_bin = slept_bin;
	}
}

/* Returns false if all states are disabled. */
static bool teo_look(struct teo_cpu *teo, struct cpuidle_driver *drv, struct cpuidle_device *dev,
		     struct teo_outlook *outlook)
{
	s64 latency_req_ns = cpuidle_governor_latency_req(dev->cpu);
	struct teo_counts sum = { };
	int i;

	for (i = 0; i < drv->state_count; i++) {
		if (!dev->states_usage[i].disable) {
			if (outlook->first < 0)
				outlook->first = i;
			outlook->deepest = i;
			outlook->shallower = sum;
			if (drv->states[i].exit_latency_ns <= latency_req_ns)
				outlook->within_limit = i;
		}
		teo_add(&sum, &teo->bin[i]);
	}
	outlook->intercepts = sum.intercepts;
	return outlook->first >= 0;
}

/* Without a tick, a wrong prediction of a short sleep would cost too much. */
static bool teo_deep_enough(struct cpuidle_state *state)
{
	return !tick_nohz_tick_stopped() || state->target_residency_ns >= TICK_NSEC;
}

/* Step 4. */
static int teo_expect_intercepts(struct teo_cpu *teo, struct cpuidle_driver *drv,
				 struct cpuidle_device *dev, const struct teo_outlook *outlook)
{
	const struct teo_counts *shallower = &outlook->shallower;
	bool by_count = 2 * shallower->intercepts > teo->total - shallower->hits;
	bool by_recent = shallower->recent > NR_RECENT / 2;
	int i, suitable = outlook->deepest;
	struct teo_counts passed = { };

	if (!by_count && !by_recent)
		return outlook->deepest;

	for (i = outlook->deepest - 1; i >= 0; i--) {
		bool enabled = !dev->states_usage[i].disable;
		bool fits = enabled && teo_deep_enough(&drv->states[i]);

		teo_add(&passed, &teo->bin[i]);
		if ((!by_recent || 2 * passed.recent > shallower->recent) &&
		    (!by_count || 2 * passed.intercepts > shallower->intercepts))
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

/* The next shallower enabled state that does not poll, or @idx if there is none. */
static int teo_step(struct cpuidle_driver *drv, struct cpuidle_device *dev, int idx)
{
	int i;

	for (i = idx - 1; i >= 0; i--) {
		if (!dev->states_usage[i].disable &&
		    !(drv->states[i].flags & CPUIDLE_FLAG_POLLING))
			return i;
	}
	return idx;
}

/* Step 2 with two states. */
static struct teo_choice teo_of_two(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	bool takes_first = !dev->states_usage[0].disable &&
			   !(drv->states[0].flags & CPUIDLE_FLAG_POLLING) &&
			   teo_deep_enough(&drv->states[0]);

	if (takes_first || dev->states_usage[1].disable)
		return (struct teo_choice) { .idx = 0, .sleep_ns = KEEP_TICK };
	return (struct teo_choice) { .idx = 1, .sleep_ns = drv->states[1].target_residency_ns };
}

/* Steps 4 to 7 with several enabled states. */
static struct teo_choice teo_choose(struct teo_cpu *teo, struct cpuidle_driver *drv,
				    struct cpuidle_device *dev, const struct teo_outlook *outlook,
				    ktime_t *delta_tick_ns)
{
	int idx = min(teo_expect_intercepts(teo, drv, dev, outlook), outlook->within_limit);
	struct teo_choice choice = { .sleep_ns = KEEP_TICK };
	int shallower;

	if (outlook->utilized) {
		shallower = teo_step(drv, dev, idx);
		if (teo_deep_enough(&drv->states[shallower]))
			idx = shallower;
	}

	choice.idx = idx;
	if (!idx || (drv->states[0].flags & CPUIDLE_FLAG_POLLING &&
		     drv->states[idx].target_residency_ns < ASK_TIMER_NS))
		return choice;

	teo->sleep_length_ns = tick_nohz_get_sleep_length(delta_tick_ns);
	shallower = teo_shallower(drv, dev, idx, teo->sleep_length_ns);
	if (teo_deep_enough(&drv->states[shallower]))
		choice.idx = shallower;

	choice.sleep_ns = teo->sleep_length_ns;
	if (drv->states[choice.idx].target_residency_ns < TICK_NSEC &&
	    outlook->intercepts > teo->total / 2 + teo->total / 8)
		choice.sleep_ns = TICK_NSEC / 2;
	return choice;
}

static int teo_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	struct teo_cpu *teo = per_cpu_ptr(&teo_cpus, dev->cpu);
	struct teo_choice choice = { .sleep_ns = KEEP_TICK };
	struct teo_outlook outlook = { .first = -1 };
	ktime_t delta_tick_ns = TICK_NSEC / 2;

	if (dev->last_state_idx >= 0) {
		teo_learn(teo, drv, dev);
		/* Do not update from it twice if the driver rejects the next state. */
		dev->last_state_idx = -1;
	}

	teo->sleep_ns = local_clock();
	teo->sleep_length_ns = KTIME_MAX;

	if (drv->state_count > 1) {
		outlook.utilized = teo_utilized(dev->cpu);
		if (drv->state_count == 2 && outlook.utilized) {
			outlook.first = 0;
			choice = teo_of_two(drv, dev);
		} else if (teo_look(teo, drv, dev, &outlook)) {
			choice.idx = outlook.deepest;
			choice.sleep_ns = drv->states[choice.idx].target_residency_ns;
			if (choice.idx != outlook.first)
				choice = teo_choose(teo, drv, dev, &outlook, &delta_tick_ns);
		}
	}

	if (choice.sleep_ns != KEEP_TICK) {
		if (tick_nohz_tick_stopped() ||
		    (!(drv->states[choice.idx].flags & CPUIDLE_FLAG_POLLING) &&
		     choice.sleep_ns >= TICK_NSEC))
			return choice.idx;
		if (choice.idx > outlook.first)
			choice.idx = teo_shallower(drv, dev, choice.idx, delta_tick_ns);
	}
	*stop_tick = false;
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
	} else {
		teo->sleep_ns = local_clock() - teo->sleep_ns;
	}
}

static int teo_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	struct teo_cpu *teo = per_cpu_ptr(&teo_cpus, dev->cpu);
	int i;

	memset(teo, 0, sizeof(*teo));
	for (i = 0; i < NR_RECENT; i++)
		teo->recent_bin[i] = NO_BIN;
	return 0;
}

static struct cpuidle_governor teo_governor = {
	.name =		"teo-6.6",
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

MODULE_DESCRIPTION("Idle governor that asks for the next timer last, and for utilization before");
MODULE_LICENSE("GPL");
