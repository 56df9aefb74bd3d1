// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: ladder - one state deeper or shallower at a time
 *
 * Idea: Expect a sleep like the last ones. After several long sleeps in a state try the next
 * deeper one; after one short sleep go back. It is meant for kernels whose tick never stops: there
 * all sleeps are short, and the next timer says little.
 *
 * State kept, per CPU: the current state (in the device), and for each state the number of long
 * sleeps since it was entered or left.
 *
 * Decision:
 *
 *  1. With a latency limit of 0, take state 0.
 *  2. A sleep was long if its length minus the exit latency exceeds the exit latency. After the
 *     fourth long sleep take the next state, if it is enabled and within the limit. A polling
 *     state 0 is left after any sleep.
 *  3. If the current state is disabled or exceeds the limit, go back to one within the limit, but
 *     not to a polling state 0.
 *  4. If the last sleep's length minus the exit latency is below the exit latency, go back by one
 *     state.
 *  5. Otherwise stay.
 *
 * Known weaknesses: It uses neither timers nor target residencies, and always lets the tick stop.
 * Long sleeps need not be consecutive: a shorter sleep that does not lead back keeps the count.
 * Differences are unsigned, so a sleep shorter than the exit latency counts as long, and only
 * sleeps of one to two exit latencies lead back. Step 3 does not check whether the state is
 * enabled. A rejected entry counts as a sleep with a residency of 0.
 *
 * Departures: None known. It makes the same decisions as Linux 6.12 (stable 6.12.117); a test
 * compares both over random sequences of calls. The code is not taken from there.
 *
 * References: Linux 6.12 drivers/cpuidle/governors/ladder.c.
 */

#include <linux/cpuidle.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/string.h>
#include <linux/tick.h>

/* Long sleeps before the next deeper state. */
#define LONG_SLEEPS_UP		4

/* Above menu's 20: without tickless idle, the next timer is of no use. */
#define RATING			10
#define RATING_NO_NOHZ		25

struct ladder_cpu {
	unsigned int long_sleeps[CPUIDLE_STATE_MAX];
};

static DEFINE_PER_CPU(struct ladder_cpu, ladder_cpus);

/*
 * A polling state is no rung: it is left after one sleep, and only the latency limit leads to it.
 */
static int ladder_lowest(struct cpuidle_driver *drv)
{
	return drv->states[0].flags & CPUIDLE_FLAG_POLLING ? 1 : 0;
}

static int ladder_move(struct ladder_cpu *ladder, struct cpuidle_device *dev, int to)
{
	ladder->long_sleeps[dev->last_state_idx] = 0;
	dev->last_state_idx = to;
	return to;
}

/* Counts a long sleep; returns whether to try the next state. */
static bool ladder_may_rise(struct ladder_cpu *ladder, struct cpuidle_driver *drv,
			    struct cpuidle_device *dev, u64 remainder_ns, s64 latency_req_ns)
{
	int idx = dev->last_state_idx;
	bool is_rung = idx >= ladder_lowest(drv);
	u64 threshold_ns = is_rung ? drv->states[idx].exit_latency_ns : 0;

	if (idx == drv->state_count - 1 || dev->states_usage[idx + 1].disable ||
	    drv->states[idx + 1].exit_latency_ns > latency_req_ns || remainder_ns <= threshold_ns)
		return false;

	return ++ladder->long_sleeps[idx] >= (is_rung ? LONG_SLEEPS_UP : 0);
}

static int ladder_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	struct ladder_cpu *ladder = this_cpu_ptr(&ladder_cpus);
	s64 latency_req_ns = cpuidle_governor_latency_req(dev->cpu);
	int lowest = ladder_lowest(drv);
	int idx = dev->last_state_idx;
	struct cpuidle_state *state = &drv->states[idx];
	u64 remainder_ns = dev->last_residency_ns - state->exit_latency_ns;

	if (unlikely(latency_req_ns == 0))
		return ladder_move(ladder, dev, 0);

	if (ladder_may_rise(ladder, drv, dev, remainder_ns, latency_req_ns))
		return ladder_move(ladder, dev, idx + 1);

	if (idx <= lowest)
		return idx;

	if (dev->states_usage[idx].disable || state->exit_latency_ns > latency_req_ns) {
		do {
			idx--;
		} while (idx > lowest && drv->states[idx].exit_latency_ns > latency_req_ns);
		return ladder_move(ladder, dev, idx);
	}

	if (remainder_ns < state->exit_latency_ns)
		return ladder_move(ladder, dev, idx - 1);
	return idx;
}

/* select() has already stored state 0, which only the latency limit can select. */
static void ladder_reflect(struct cpuidle_device *dev, int index)
{
	if (index > 0)
		dev->last_state_idx = index;
}

static int ladder_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	struct ladder_cpu *ladder = per_cpu_ptr(&ladder_cpus, dev->cpu);

	memset(ladder, 0, sizeof(*ladder));
	dev->last_state_idx = ladder_lowest(drv);
	return 0;
}

static struct cpuidle_governor ladder_governor = {
	.name =		"ladder",
	.rating =	RATING,
	.enable =	ladder_enable,
	.select =	ladder_select,
	.reflect =	ladder_reflect,
};

static int __init ladder_init(void)
{
	if (!tick_nohz_enabled)
		ladder_governor.rating = RATING_NO_NOHZ;
	return cpuidle_register_governor(&ladder_governor);
}

postcore_initcall(ladder_init);

MODULE_DESCRIPTION("Idle governor that goes one state deeper or shallower at a time");
MODULE_LICENSE("GPL");
