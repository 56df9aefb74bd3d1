// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: ladder - one state deeper or shallower at a time
 *
 * Idea: Sleeps are like the last ones. After several long sleeps in a state try the next deeper
 * one, after a single short one go back. Made for kernels whose tick never stops: all sleeps are
 * then short, and nothing is to be gained from looking ahead.
 *
 * State kept, per CPU: the current state (in the device), and for each state how many long sleeps
 * it has seen since it was entered or left for another.
 *
 * Decision:
 *
 *  1. With a latency limit of 0, state 0.
 *  2. A sleep was long if what remains after the exit latency is more than the exit latency once
 *     more. After the fourth long one take the next state, if it is enabled and within the limit.
 *     Out of a polling state 0, any sleep is long enough.
 *  3. If the current state is disabled or beyond the limit, go down to one within it, at least to
 *     the first that does not poll.
 *  4. If what remains of the last sleep is less than the exit latency, one state back.
 *  5. Else stay.
 *
 * Known weaknesses: it knows nothing of timers, target residencies, or the tick, which it always
 * lets stop. Long sleeps need not be consecutive: shorter ones that do not lead back leave the
 * count as it is. Remainders are compared without sign, so a sleep shorter than the exit latency
 * counts as a long one, and the way back opens only between one and two exit latencies. Step 3
 * does not look at whether the state it finds is enabled. The residency is also looked at after a
 * refused entry, which left 0.
 *
 * Departures: none known; it decides as Linux 6.12 (stable 6.12.117) does, which a test checks
 * with random sequences of calls. It is structured and written anew.
 *
 * References: Linux 6.12 drivers/cpuidle/governors/ladder.c.
 */

#include <linux/cpuidle.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/string.h>
#include <linux/tick.h>

/* Long sleeps before a deeper state is tried. */
#define LONG_SLEEPS_UP		4

/* Above menu's 20: without tickless idle, looking ahead is of no use. */
#define RATING			10
#define RATING_NO_NOHZ		25

struct ladder_cpu {
	unsigned int long_sleeps[CPUIDLE_STATE_MAX];
};

static DEFINE_PER_CPU(struct ladder_cpu, ladder_cpus);

/* A polling state is no rung: it is left at once, and only the latency limit leads back to it. */
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

/* Counts the sleep if it was long; whether the next state is to be tried. */
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

/* State 0 is not noted: reached by the latency limit alone, select() has noted it. */
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
