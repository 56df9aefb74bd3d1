// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The idle driver: one for each cluster, with the platform's states. */
#include <linux/cpuidle.h>
#include <linux/sched/clock.h>
#include <linux/sched/idle.h>
#include <linux/tick.h>
#include "host.h"

static void sleep_in(int state)
{
	khost_cpu->idle_state = state;
	khost_cpu->entered_ns = khost_local_ns();
	khost_cpu->sleeps++;
	khost_cpu->tick_stopped = tick_nohz_tick_stopped();
	khost_touch(khost_cpu_number);
	khost_wait_for_interrupt();
	khost_cpu->idle_state = KHOST_AWAKE;
}

/* Firmware or hardware rejects the state, which takes time. */
static bool is_rejected(int state)
{
	u64 time_ns;

	if (!khost_host->rejects)
		return false;
	time_ns = khost_host->rejects(khost_host->context, khost_cpu_number, state);
	if (!time_ns)
		return false;
	khost_cpu->poll_until_ns = khost_local_ns() + time_ns;
	khost_cpu->is_rejected = 1;
	sleep_in(state);
	khost_cpu->is_rejected = 0;
	khost_cpu->poll_until_ns = 0;
	return true;
}

/*
 * Interrupts are off on entry and exit: the interrupt that woke the CPU is served when the core
 * enables them.
 */
static int enter(struct cpuidle_device *device, struct cpuidle_driver *driver, int state)
{
	if (is_rejected(state))
		return -EBUSY;
	sleep_in(state);
	return state;
}

/* Polls need_resched() until the loop sees that its time is up. Interrupts do not end it. */
static int enter_polling(struct cpuidle_device *device, struct cpuidle_driver *driver, int state)
{
	u64 end_ns = khost_host->poll_ends(khost_host->context, khost_cpu_number, khost_local_ns(),
					   cpuidle_poll_time(driver, device));

	device->poll_time_limit = false;
	raw_local_irq_enable();
	if (!current_set_polling_and_test()) {
		while (!need_resched()) {
			if (khost_local_ns() >= end_ns) {
				device->poll_time_limit = true;
				break;
			}
			khost_cpu->poll_until_ns = end_ns;
			sleep_in(state);
			khost_cpu->poll_until_ns = 0;
			khost_serve_interrupts();
		}
	}
	raw_local_irq_disable();
	current_clr_polling();
	return state;
}

/* Used without a driver: always on some machines, and once during the start of all. */
void arch_cpu_idle(void)
{
	sleep_in(khost_cluster_of(khost_cpu_number)->default_idle);
}

/* An offline CPU stays in the deepest state. */
void arch_cpu_idle_dead(void)
{
	unsigned int states = khost_cluster_of(khost_cpu_number)->states;

	for (;;)
		sleep_in(states ? states - 1 : 0);
}

static void add_state(struct cpuidle_driver *driver, const struct khost_state *given)
{
	struct cpuidle_state *state = &driver->states[driver->state_count++];

	strscpy(state->name, given->name, sizeof(state->name));
	strscpy(state->desc, given->name, sizeof(state->desc));
	state->exit_latency_ns = given->exit_latency_ns;
	state->exit_latency = given->exit_latency_ns / NSEC_PER_USEC;
	state->target_residency_ns = given->target_residency_ns;
	state->target_residency = given->target_residency_ns / NSEC_PER_USEC;
	state->enter = given->polling ? enter_polling : enter;
	if (given->polling)
		state->flags |= CPUIDLE_FLAG_POLLING;
}

void khost_start_idle_driver(void)
{
	if (khost_machine->no_idle_driver || cpuidle_disabled())
		return;
	for (unsigned int i = 0; i < khost_machine->clusters; i++) {
		const struct khost_cluster *cluster = &khost_machine->cluster[i];
		struct cpuidle_driver *driver = khost_alloc(sizeof(*driver));
		struct cpumask *cpus = khost_alloc(sizeof(*cpus));

		if (!cluster->states)
			continue;
		driver->name = "khost_idle";
		for (unsigned int n = 0; n < cluster->states; n++)
			add_state(driver, &cluster->state[n]);
		khost_cpus_of(cluster, cpus);
		driver->cpumask = cpus;
		if (cpuidle_register(driver, NULL))
			khost_trouble(KHOST_PANIC, "no idle driver for cluster %u", i);
	}
}

/* Reports to the simulator what its own counting depends on. */
void khost_report_idle_limits(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		const struct cpuidle_device *device = per_cpu(cpuidle_devices, cpu);
		unsigned int off = 0;

		for (unsigned int n = 0; device && n < KHOST_STATES_MAX; n++)
			off |= (unsigned int)!!device->states_usage[n].disable << n;
		khost_cpus[cpu].states_off = off;
		khost_cpus[cpu].latency_limit_ns = cpuidle_governor_latency_req(cpu);
	}
}

int khost_idle_usage(void *usage, unsigned long cpu)
{
	struct cpuidle_device *device = per_cpu(cpuidle_devices, cpu);
	struct khost_usage *to = usage;

	for (unsigned int i = 0; device && i < KHOST_STATES_MAX; i++) {
		const struct cpuidle_state_usage *from = &device->states_usage[i];

		to[i] = (struct khost_usage) {
			.usage = from->usage,
			.time_ns = from->time_ns,
			.above = from->above,
			.below = from->below,
			.rejected = from->rejected,
		};
	}
	return 0;
}
