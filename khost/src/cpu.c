// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The simulated CPUs: interrupts, IPIs, and their start. This replaces an architecture's SMP code
 * and the kernel's CPU hotplug; a machine whose CPUs stay online needs only the way up.
 */
#include <linux/arch_topology.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/hardirq.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/clockchips.h>
#include <linux/sched.h>
#include <linux/sched/hotplug.h>
#include <linux/smp.h>
#include <linux/smpboot.h>
#include <linux/stop_machine.h>
#include <linux/timer.h>
#include <linux/ptrace.h>
#include <asm/irq_regs.h>
#include "smpboot.h"
#include "host.h"

struct cpumask __cpu_possible_mask, __cpu_online_mask, __cpu_present_mask, __cpu_active_mask;
struct cpumask __cpu_dying_mask;
struct cpumask __cpu_enabled_mask;
atomic_t __num_online_cpus;
unsigned int __num_possible_cpus;
bool cpuhp_tasks_frozen;
int __boot_cpu_id;

const DECLARE_BITMAP(cpu_all_bits, NR_CPUS) = CPU_BITS_ALL;

#define ROW(n) [(n) + 1][0] = 1UL << (n)
#define ROWS8(n) ROW(n), ROW((n) + 1), ROW((n) + 2), ROW((n) + 3), \
		 ROW((n) + 4), ROW((n) + 5), ROW((n) + 6), ROW((n) + 7)

const unsigned long cpu_bit_bitmap[BITS_PER_LONG + 1][BITS_TO_LONGS(NR_CPUS)] = {
	ROWS8(0), ROWS8(8), ROWS8(16), ROWS8(24), ROWS8(32), ROWS8(40), ROWS8(48), ROWS8(56),
};

void set_cpu_online(unsigned int cpu, bool online)
{
	if (online && !cpumask_test_and_set_cpu(cpu, &__cpu_online_mask))
		atomic_inc(&__num_online_cpus);
	else if (!online && cpumask_test_and_clear_cpu(cpu, &__cpu_online_mask))
		atomic_dec(&__num_online_cpus);
}

/* Interrupts. */

DEFINE_PER_CPU(struct pt_regs *, __irq_regs);

/* CPUs with a pending function call from another CPU, even if its interrupt is still under way. */
static bool owes_call[NR_CPUS];

bool khost_owes_call(int cpu)
{
	return owes_call[cpu];
}

void khost_serve_call(void)
{
	owes_call[khost_cpu_number] = false;
	generic_smp_call_function_interrupt();
}

#ifdef CONFIG_PREEMPT_DYNAMIC
DEFINE_STATIC_KEY_TRUE(sk_dynamic_irqentry_exit_cond_resched);
#define can_preempt() static_branch_unlikely(&sk_dynamic_irqentry_exit_cond_resched)
#else
#define can_preempt() IS_ENABLED(CONFIG_PREEMPTION)
#endif

/* The end of an interrupt of a kernel thread. */
static void preempt_interrupted(void)
{
#ifdef CONFIG_PREEMPTION
	if (can_preempt() && khost_is_thread(khost_cpu_number) && !preempt_count() &&
	    need_resched())
		preempt_schedule_irq();
#endif
}

/* Serves raised interrupts. The kernel has just enabled them. */
void khost_serve_interrupts(void)
{
	struct khost_cpu *cpu = khost_cpu;

	while (cpu->raised) {
		unsigned int raised = cpu->raised;
		struct pt_regs regs = { .from_user = !khost_is_thread(khost_cpu_number) };
		struct pt_regs *outer;

		cpu->raised = 0;
		cpu->figured_ns += cpu->irq_ns;
		cpu->irq_ns = 0;
		cpu->irqs_off = 1;
		outer = set_irq_regs(&regs);
		irq_enter();
		if (raised & KHOST_IRQ_TIMER)
			khost_clock_event(khost_cpu_number);
		if (raised & KHOST_IRQ_DEVICE)
			khost_wake_completed(khost_cpu_number);
		if (raised & KHOST_IRQ_CALL)
			khost_serve_call();
		if (raised & KHOST_IRQ_WORK)
			irq_work_run();
		if (raised & KHOST_IRQ_RESCHEDULE)
			scheduler_ipi();
		irq_exit();
		set_irq_regs(outer);
		preempt_interrupted();
		cpu->irqs_off = 0;
	}
}

static void send(int cpu, unsigned int interrupt)
{
	if (!khost_cpus[cpu].sent)
		khost_cpu->figured_ns += khost_cpu->ipi_send_ns;
	khost_cpus[cpu].sent |= interrupt;
	khost_touch(cpu);
}

/* A polling CPU checks this flag. */
void khost_polling_has_work(int cpu)
{
	khost_touch(cpu);
}

void arch_smp_send_reschedule(int cpu)
{
	send(cpu, KHOST_IRQ_RESCHEDULE);
}

#ifndef KHOST_HAS_ARCH_SMP_SEND_RESCHEDULE
void smp_send_reschedule(int cpu)
{
	arch_smp_send_reschedule(cpu);
}
#endif

void arch_send_call_function_single_ipi(int cpu)
{
	owes_call[cpu] = true;
	send(cpu, KHOST_IRQ_CALL);
}

void arch_send_call_function_ipi_mask(const struct cpumask *mask)
{
	int cpu;

	for_each_cpu(cpu, mask)
		arch_send_call_function_single_ipi(cpu);
}

/* An IPI to itself is served as soon as interrupts are enabled. */
void arch_irq_work_raise(void)
{
	khost_cpu->raised |= KHOST_IRQ_WORK;
}

/* The way up. */

static struct khost_step steps[32];
static int step_count;

static void run_step(int (*startup)(unsigned int cpu), enum cpuhp_state state, unsigned int cpu)
{
	int before = khost_cpu_number;

	if (!startup)
		return;
	if (state > CPUHP_BRINGUP_CPU)
		khost_act_for(cpu);
	startup(cpu);
	khost_act_for(before);
}

int __cpuhp_setup_state(enum cpuhp_state state, const char *name, bool invoke,
			int (*startup)(unsigned int cpu), int (*teardown)(unsigned int cpu),
			bool multi_instance)
{
	int at = step_count, cpu;

	/* Return value for a caller that lets us choose the state; others get 0. */
	int result = state == CPUHP_AP_ONLINE_DYN || state == CPUHP_BP_PREPARE_DYN ? state : 0;

	if (!startup && !teardown)
		return result;
	if (step_count == ARRAY_SIZE(steps))
		khost_trouble(KHOST_PANIC, "more than %d steps of CPU hotplug",
			      (int)ARRAY_SIZE(steps));
	while (at > 0 && steps[at - 1].state > state) {
		steps[at] = steps[at - 1];
		at--;
	}
	steps[at].state = state;
	steps[at].startup = startup;
	steps[at].teardown = teardown;
	step_count++;
	if (invoke && startup) {
		for_each_online_cpu(cpu)
			run_step(startup, state, cpu);
	}
	return result;
}

int __cpuhp_setup_state_cpuslocked(enum cpuhp_state state, const char *name, bool invoke,
				   int (*startup)(unsigned int cpu),
				   int (*teardown)(unsigned int cpu), bool multi_instance)
{
	return __cpuhp_setup_state(state, name, invoke, startup, teardown, multi_instance);
}

const struct khost_step *khost_steps(int *count)
{
	*count = step_count;
	return steps;
}

static int idle_thread(void *unused)
{
	local_irq_enable();
	cpu_startup_entry(CPUHP_AP_ONLINE_IDLE);
	return 0;
}

/* The part of the way up after which the CPU runs threads of its own. */
void khost_prepare_cpu(unsigned int cpu, struct task_struct *idle)
{
	int here = khost_cpu_number, step;

	init_idle(idle, cpu);
	khost_give_stack(idle, idle_thread, NULL);
	khost_set_first_task(cpu, idle);
	khost_cpus[cpu].irqs_off = 1;

	hrtimers_prepare_cpu(cpu);
	smpcfd_prepare_cpu(cpu);
	rcutree_prepare_cpu(cpu);
	timers_prepare_cpu(cpu);
	smpboot_create_threads(cpu);
	for (step = 0; step < step_count && steps[step].state < CPUHP_BRINGUP_CPU; step++)
		run_step(steps[step].startup, steps[step].state, cpu);

	khost_act_for(cpu);
#ifdef KHOST_HAS_RCUTREE_REPORT_CPU_STARTING
	rcutree_report_cpu_starting(cpu);
#else
	rcu_cpu_starting(cpu);
#endif
	sched_cpu_starting(cpu);
#ifdef KHOST_HAS_HRTIMERS_CPU_STARTING
	hrtimers_cpu_starting(cpu);
#endif
	set_cpu_online(cpu, true);
	update_siblings_masks(cpu);
	khost_start_clock_event(cpu);
	khost_act_for(here);
	stop_machine_unpark(cpu);
}

static void start_cpu(unsigned int cpu)
{
	int step;

	khost_prepare_cpu(cpu, khost_fork_idle(cpu));
	sched_cpu_activate(cpu);
	smpboot_unpark_threads(cpu);
	rcutree_online_cpu(cpu);
	for (step = 0; step < step_count; step++) {
		if (steps[step].state >= CPUHP_BRINGUP_CPU)
			run_step(steps[step].startup, steps[step].state, cpu);
	}
	/* Starts its idle loop. */
	send(cpu, KHOST_IRQ_RESCHEDULE);
}

/*
 * The kernel gives every possible CPU its idle task at the start. Here offline ones have none until
 * something looks at their runqueues, such as a new control group.
 */
void khost_give_idle_tasks(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		if (!cpu_online(cpu))
			init_idle(khost_fork_idle(cpu), cpu);
	}
}

void bringup_nonboot_cpus(unsigned int max_cpus)
{
	for (unsigned int cpu = 1; cpu < khost_machine->cpus; cpu++) {
		if (khost_machine->online[cpu / 64] >> (cpu % 64) & 1)
			start_cpu(cpu);
	}
}

