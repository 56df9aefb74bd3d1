// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: haltpoll - polls before it halts, for virtual machines
 *
 * Idea: A halt of a virtual CPU costs two switches between guest and host, so poll for some time
 * first. Poll longer if a longer poll would have caught the last event, and shorter otherwise. It
 * is for drivers with two states: polling (0) and halt (1).
 *
 * State kept, per CPU: the polling time (poll_limit_ns of the device), initially 0, and the last
 * state.
 *
 * Decision:
 *
 *  1. With a latency limit of 0, take state 0 and keep the tick.
 *  2. With a polling time of 0, halt.
 *  3. If the last poll reached its limit, halt; otherwise poll and keep the tick.
 *  4. After a halt, adjust the polling time. If the halt was longer than the polling time but not
 *     longer than guest_halt_poll_ns, a longer poll would have caught the event: multiply the time
 *     by
 *     guest_halt_poll_grow, and limit it to guest_halt_poll_grow_start .. guest_halt_poll_ns. If
 *     the halt was longer than guest_halt_poll_ns, polling was in vain: divide the time by
 *     guest_halt_poll_shrink (if that is 0, set it to 0), and set it to 0 if the result is below
 *     guest_halt_poll_grow_start.
 *
 * Parameters: guest_halt_poll_ns 200000, the longest polling time; guest_halt_poll_shrink 2;
 * guest_halt_poll_grow 2; guest_halt_poll_grow_start 50000 (in ns as well);
 * guest_halt_poll_allow_shrink Y.
 *
 * Known weaknesses: It ignores timers, target residencies, disabled states, and states deeper than
 * 1. The length of a halt includes the exit latency. Products are truncated to 32 bits, so a large
 *    factor can shorten the time.
 *
 * Departures: None known. It makes the same decisions as Linux 6.12 (stable 6.12.117); a test
 * compares both over random sequences of calls. The code is not taken from there.
 *
 * References: Linux 6.12 drivers/cpuidle/governors/haltpoll.c; "Guest halt polling" in
 * Documentation/virt/guest-halt-polling.rst.
 */

#include <linux/cpuidle.h>
#include <linux/kernel.h>
#include <linux/kvm_para.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <trace/events/power.h>

#define STATE_POLL	0
#define STATE_HALT	1

static unsigned int guest_halt_poll_ns __read_mostly = 200000;
module_param(guest_halt_poll_ns, uint, 0644);
MODULE_PARM_DESC(guest_halt_poll_ns, "longest time to poll, in ns");

static unsigned int guest_halt_poll_shrink __read_mostly = 2;
module_param(guest_halt_poll_shrink, uint, 0644);
MODULE_PARM_DESC(guest_halt_poll_shrink, "what a polling time in vain is divided by; 0 drops it");

static unsigned int guest_halt_poll_grow __read_mostly = 2;
module_param(guest_halt_poll_grow, uint, 0644);
MODULE_PARM_DESC(guest_halt_poll_grow, "what a polling time too short is multiplied by");

static unsigned int guest_halt_poll_grow_start __read_mostly = 50000;
module_param(guest_halt_poll_grow_start, uint, 0644);
MODULE_PARM_DESC(guest_halt_poll_grow_start, "shortest time to poll, in ns");

static bool guest_halt_poll_allow_shrink __read_mostly = true;
module_param(guest_halt_poll_allow_shrink, bool, 0644);
MODULE_PARM_DESC(guest_halt_poll_allow_shrink, "whether polling times become shorter");

static unsigned int haltpoll_grown_ns(unsigned int limit_ns)
{
	return min(max(limit_ns * guest_halt_poll_grow, guest_halt_poll_grow_start),
		   guest_halt_poll_ns);
}

static unsigned int haltpoll_shrunk_ns(unsigned int limit_ns)
{
	/* Read once: a user can write 0 concurrently. */
	unsigned int divisor = READ_ONCE(guest_halt_poll_shrink);

	limit_ns = divisor ? limit_ns / divisor : 0;
	return limit_ns < guest_halt_poll_grow_start ? 0 : limit_ns;
}

static void haltpoll_learn(struct cpuidle_device *dev, u64 halted_ns)
{
	unsigned int limit_ns;

	if (halted_ns > guest_halt_poll_ns) {
		if (!guest_halt_poll_allow_shrink)
			return;
		limit_ns = haltpoll_shrunk_ns(dev->poll_limit_ns);
		trace_guest_halt_poll_ns_shrink(limit_ns, dev->poll_limit_ns);
		dev->poll_limit_ns = limit_ns;
	} else if (halted_ns > dev->poll_limit_ns) {
		limit_ns = haltpoll_grown_ns(dev->poll_limit_ns);
		trace_guest_halt_poll_ns_grow(limit_ns, dev->poll_limit_ns);
		dev->poll_limit_ns = limit_ns;
	}
}

static int haltpoll_select(struct cpuidle_driver *drv, struct cpuidle_device *dev,
			   bool *stop_tick)
{
	bool must_poll = !drv->state_count || cpuidle_governor_latency_req(dev->cpu) == 0;
	bool polled_in_vain = dev->last_state_idx == STATE_POLL && dev->poll_time_limit;

	if (!must_poll && (!dev->poll_limit_ns || polled_in_vain))
		return STATE_HALT;

	*stop_tick = false;
	return STATE_POLL;
}

static void haltpoll_reflect(struct cpuidle_device *dev, int index)
{
	dev->last_state_idx = index;
	if (index != STATE_POLL)
		haltpoll_learn(dev, dev->last_residency_ns);
}

static int haltpoll_enable(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	dev->poll_limit_ns = 0;
	return 0;
}

static struct cpuidle_governor haltpoll_governor = {
	.name =		"haltpoll",
	.rating =	9,
	.enable =	haltpoll_enable,
	.select =	haltpoll_select,
	.reflect =	haltpoll_reflect,
};

/* On bare metal a halt costs no switch, so the governor does not register. */
static int __init haltpoll_init(void)
{
	return kvm_para_available() ? cpuidle_register_governor(&haltpoll_governor) : 0;
}

postcore_initcall(haltpoll_init);

MODULE_DESCRIPTION("Idle governor for virtual machines that polls before it halts");
MODULE_LICENSE("GPL");
