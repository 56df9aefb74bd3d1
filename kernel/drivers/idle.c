// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: torpor_idle - idle states for machines that have none
 *
 * A virtual machine usually has one idle state. This driver provides the states of any machine: in
 * each of them the CPU halts, and after wake-up spends the state's exit latency. So governors decide
 * as on that machine, and wake-ups take as long. No energy is saved.
 *
 *     states=POLL,C1:2:2,C1E:10:20,C6:133:600
 *
 * lists NAME:EXIT_LATENCY_US:TARGET_RESIDENCY_US from the shallowest to the deepest. POLL, which
 * can only be the first, is the kernel's own polling state. An exit latency is served with
 * interrupts off, and is 100 ms at most.
 *
 * serve= selects how the exit latency is spent:
 *
 *  - time: by the CPU's cycle counter.
 *  - count: in iterations of a loop that take count_ps each. This is exact if an emulator counts
 *    instructions instead of time: with QEMU's -icount shift=N an iteration takes 2^(N + 1) ns.
 *  - off: not at all.
 *
 * As on hardware, the exit latency passes before the interrupt that ends a sleep is handled. On
 * arm64 the CPU waits with interrupts off. On x86 it cannot, so that the interrupt is handled inside
 * the state; the first tracepoint of an interrupt spends the latency. A kernel without these
 * tracepoints handles the interrupt first. Then its scheduler reads the clock at the wake-up and not
 * again at the switch, and so bills the exit latency to the task as time on the CPU.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/cpuidle.h>
#include <linux/interrupt.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/idle.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/time64.h>
#include <linux/tracepoint.h>

#include "cpu.h"

/* Several times that of any machine's deepest state, and far below a lockup detector's limit. */
#define EXIT_LATENCY_MAX_US	(100 * USEC_PER_MSEC)

/* Two instructions at 20 GHz: no CPU is faster. */
#define COUNT_MIN_PS		100

enum serve { SERVE_OFF, SERVE_TIME, SERVE_COUNT };

static const char * const serve_names[] = {
	[SERVE_OFF] =	"off",
	[SERVE_TIME] =	"time",
	[SERVE_COUNT] =	"count",
};

static int serve __read_mostly = SERVE_TIME;

static int serve_set(const char *val, const struct kernel_param *kp)
{
	int way = sysfs_match_string(serve_names, val);

	if (way < 0)
		return way;
	WRITE_ONCE(serve, way);
	return 0;
}

static int serve_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%s\n", serve_names[READ_ONCE(serve)]);
}

static const struct kernel_param_ops serve_ops = {
	.set =	serve_set,
	.get =	serve_get,
};

module_param_cb(serve, &serve_ops, &serve, 0644);
MODULE_PARM_DESC(serve, "how the exit latency is spent: off, time or count");

static char *states = "POLL,C1:2:2,C2:50:200,C3:300:1000";
module_param(states, charp, 0444);
MODULE_PARM_DESC(states, "NAME:EXIT_LATENCY_US:TARGET_RESIDENCY_US,... ; the first may be POLL");

static unsigned int count_ps = 4000;
module_param(count_ps, uint, 0444);
MODULE_PARM_DESC(count_ps, "what a round of the counting loop takes, in picoseconds");

/* Exit latency of each state, in cycles and in iterations. */
static u64 latency_cycles[CPUIDLE_STATE_MAX] __read_mostly;
static unsigned long latency_rounds[CPUIDLE_STATE_MAX] __read_mostly;

/* The state whose exit latency the CPU has yet to spend, plus one; 0 for none. */
static DEFINE_PER_CPU(int, owed);

static __always_inline void idle_spend_latency(void)
{
	int index = __this_cpu_read(owed) - 1;
	u64 start;

	if (index < 0)
		return;
	__this_cpu_write(owed, 0);

	switch (READ_ONCE(serve)) {
	case SERVE_TIME:
		start = torpor_cycles();
		while (torpor_cycles() - start < latency_cycles[index])
			;
		break;
	case SERVE_COUNT:
		if (latency_rounds[index])
			torpor_count_down(latency_rounds[index]);
		break;
	}
}

static __cpuidle int idle_enter(struct cpuidle_device *dev, struct cpuidle_driver *drv, int index)
{
	if (current_clr_polling_and_test())
		return index;

	__this_cpu_write(owed, index + 1);
	torpor_wait_for_interrupt();
	idle_spend_latency();
	return index;
}

#if defined(CONFIG_X86_64) && defined(CONFIG_TRACEPOINTS)
/* Tracepoints at the start of interrupts, before their handlers. */
static const char * const interrupt_names[] = {
	"call_function_entry",
	"call_function_single_entry",
	"irq_work_entry",
	"local_timer_entry",
	"reschedule_entry",
	"x86_platform_ipi_entry",
};

static struct tracepoint *interrupts[ARRAY_SIZE(interrupt_names) + 1];
static int interrupt_count;

static void idle_interrupted(void *unused, int vector)
{
	idle_spend_latency();
}

static void idle_device_interrupted(void *unused, int irq, struct irqaction *action)
{
	idle_spend_latency();
}

/* Returns the probe for a tracepoint, or NULL if it is no interrupt's. */
static void *idle_probe_of(struct tracepoint *tp)
{
	if (!strcmp(tp->name, "irq_handler_entry"))
		return idle_device_interrupted;
	if (match_string(interrupt_names, ARRAY_SIZE(interrupt_names), tp->name) >= 0)
		return idle_interrupted;
	return NULL;
}

static void idle_watch(struct tracepoint *tp, void *unused)
{
	void *probe = idle_probe_of(tp);

	if (!probe || interrupt_count == ARRAY_SIZE(interrupts))
		return;
	if (!tracepoint_probe_register(tp, probe, NULL))
		interrupts[interrupt_count++] = tp;
}

static void idle_watch_interrupts(void)
{
	for_each_kernel_tracepoint(idle_watch, NULL);
}

static void idle_forget_interrupts(void)
{
	while (interrupt_count) {
		struct tracepoint *tp = interrupts[--interrupt_count];

		tracepoint_probe_unregister(tp, idle_probe_of(tp), NULL);
	}
	tracepoint_synchronize_unregister();
}
#else
static void idle_watch_interrupts(void) { }
static void idle_forget_interrupts(void) { }
#endif

/* No .owner: see torpor_wait_until_left(). */
static struct cpuidle_driver idle_driver = {
	.name =	"torpor_idle",
};

/* Parses one state's text; modifies @text. */
static int idle_parse_state(struct cpuidle_state *state, char *text)
{
	char *name = strsep(&text, ":");
	char *latency = strsep(&text, ":");

	if (!latency || !text || !*name)
		return -EINVAL;
	if (kstrtouint(latency, 10, &state->exit_latency) ||
	    kstrtouint(text, 10, &state->target_residency))
		return -EINVAL;
	if (state->exit_latency > EXIT_LATENCY_MAX_US)
		return -ERANGE;
	if (strscpy(state->name, name, sizeof(state->name)) < 0)
		return -ENAMETOOLONG;
	strscpy(state->desc, name, sizeof(state->desc));
	state->enter = idle_enter;
	return 0;
}

static int idle_parse_states(struct cpuidle_driver *drv, char *table)
{
	char *text;

	while ((text = strsep(&table, ","))) {
		int ret, idx = drv->state_count;

		if (idx == CPUIDLE_STATE_MAX) {
			pr_err("states: more than %d\n", CPUIDLE_STATE_MAX);
			return -E2BIG;
		}
		drv->state_count++;
		if (!idx && !strcmp(text, "POLL")) {
			cpuidle_poll_state_init(drv);
			if (drv->states[idx].enter)
				continue;
			pr_err("states: this kernel has no polling state, as it lacks CONFIG_ARCH_HAS_CPU_RELAX\n");
			return -EOPNOTSUPP;
		}
		ret = idle_parse_state(&drv->states[idx], text);
		if (ret) {
			pr_err("states: %s, number %d, is no NAME:EXIT_LATENCY_US:TARGET_RESIDENCY_US with a name of at most %d characters and a latency of at most %lu us\n",
			       text, idx, CPUIDLE_NAME_LEN - 1, EXIT_LATENCY_MAX_US);
			return ret;
		}
		latency_cycles[idx] = div_u64((u64)drv->states[idx].exit_latency *
					      torpor_cycles_khz(), USEC_PER_MSEC);
		latency_rounds[idx] = div_u64((u64)drv->states[idx].exit_latency * USEC_PER_SEC,
					      count_ps);
	}
	return 0;
}

static int __init idle_init(void)
{
	char *table;
	int ret;

	if (count_ps < COUNT_MIN_PS) {
		pr_err("count_ps: %u is less than %d, and no CPU does a round in that\n",
		       count_ps, COUNT_MIN_PS);
		return -EINVAL;
	}
	table = kstrdup(states, GFP_KERNEL);
	if (!table)
		return -ENOMEM;
	ret = idle_parse_states(&idle_driver, table);
	kfree(table);
	if (ret)
		return ret;

	idle_watch_interrupts();
	ret = cpuidle_register(&idle_driver, NULL);
	if (ret)
		idle_forget_interrupts();
	if (ret == -EBUSY)
		pr_err("this machine has an idle driver, %s\n", cpuidle_get_driver()->name);
	return ret;
}

static void __exit idle_exit(void)
{
	cpuidle_unregister(&idle_driver);
	torpor_wait_until_left();
	idle_forget_interrupts();
}

module_init(idle_init);
module_exit(idle_exit);

MODULE_DESCRIPTION("Idle states for machines that have none");
MODULE_VERSION(TORPOR_VERSION);
MODULE_LICENSE("GPL");
