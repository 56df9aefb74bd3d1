// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Contexts of execution.
 *
 * A task that the simulator runs has no stack. The simulator does its work, and the kernel's work
 * for it happens in calls from the simulator, on the simulator's stack. A kernel thread (idle loop,
 * migration thread, frequency worker) is C code with its own stack, on which it resumes.
 *
 * A system call that can wait inside the kernel also has a stack until it returns.
 *
 * So a switch between two simulated tasks switches no stack: the frame in which one called
 * schedule() returns as the other. When a simulated task is replaced by a kernel thread, its frame
 * is abandoned; when the task gets a CPU again, it starts at schedule_tail(), like after a fork.
 */
#include <linux/context_tracking.h>
#include <linux/hardirq.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/smp.h>
#include "host.h"
#include "stack.h"

struct task_struct *khost_current;
static struct task_struct *currents[NR_CPUS];
unsigned long khost_percpu_offset;
int khost_cpu_number;
struct khost_cpu khost_cpus[NR_CPUS];
struct khost_cpu *khost_cpu = khost_cpus;
unsigned long long khost_touched[NR_CPUS / 64];

/* Jump buffer of the return to the simulator, and stack of a call that waits for a thread. */
static void *call_end[5];
static void *call_stack;
/* The previous task of a switch, until the next one has taken it. */
static struct task_struct *switched_from;
/* Set if the simulator's stack must finish a switch to a simulated task. */
static bool finish_switch;

static bool has_stack(struct task_struct *task)
{
	return task->thread.stack_pointer != NULL;
}

#ifdef CONFIG_PREEMPTION
void khost_preempt(void)
{
	if (has_stack(khost_current))
		khost_preempt_thread();
}
#endif

void khost_act_for(int cpu)
{
	if (cpu == khost_cpu_number)
		return;
	currents[khost_cpu_number] = khost_current;
	khost_cpu_number = cpu;
	khost_cpu = &khost_cpus[cpu];
	khost_percpu_offset = __per_cpu_offset[cpu];
	khost_current = currents[cpu];
}

void khost_set_first_task(int cpu, struct task_struct *task)
{
	currents[cpu] = task;
	khost_cpus[cpu].flags = &task->thread_info.flags;
	if (cpu == khost_cpu_number)
		khost_current = task;
}

bool khost_is_thread(int cpu)
{
	return has_stack(cpu == khost_cpu_number ? khost_current : currents[cpu]);
}

__attribute__((used)) void khost_thread_main(int (*body)(void *), void *argument)
{
	struct task_struct *prev = switched_from;

	switched_from = NULL;
	if (prev)
		schedule_tail(prev);
	body(argument);
	khost_exit_current();
}

static void set_entry(struct task_struct *task, int (*body)(void *), void *argument)
{
	void *top = task->stack + KHOST_STACK_SIZE;

	task->thread.stack_pointer = khost_first_frame(top, body, argument);
}

void khost_give_stack(struct task_struct *task, int (*body)(void *), void *argument)
{
	if (!task->stack)
		task->stack = khost_alloc_stack();
	set_entry(task, body, argument);
}

struct task_struct *khost_switch_to(struct task_struct *prev, struct task_struct *next)
{
	struct task_struct *last;

	khost_current = next;
	khost_cpu->switches++;
	if (!is_idle_task(next))
		khost_cpu->figured_ns += khost_cpu->switch_ns;
	khost_cpu->task = khost_number(next);
	khost_cpu->flags = &next->thread_info.flags;
	khost_touch(khost_cpu_number);
	if (!has_stack(prev) && !has_stack(next))
		return prev;
	switched_from = prev;
	if (!has_stack(prev)) {
		khost_swap(&call_stack, next->thread.stack_pointer);
		khost_end_call();
	}
	if (!has_stack(next)) {
		finish_switch = true;
		khost_swap(&prev->thread.stack_pointer, call_stack);
	} else {
		khost_swap(&prev->thread.stack_pointer, next->thread.stack_pointer);
	}
	last = switched_from;
	switched_from = NULL;
	return last;
}

/* Called by a kernel thread: waits for an interrupt on this CPU. */
void khost_wait_for_interrupt(void)
{
	khost_swap(&khost_current->thread.stack_pointer, call_stack);
}

/* Called on the simulator's stack: continues the thread on this CPU. */
void khost_resume_thread(void)
{
	khost_swap(&call_stack, khost_current->thread.stack_pointer);
}

void khost_resume_or_serve(void *unused)
{
	if (khost_is_thread(khost_cpu_number))
		khost_resume_thread();
	else
		khost_serve_interrupts();
}

void khost_end_call(void)
{
	__builtin_longjmp(call_end, 1);
}

/* CPUs with a thread that waits in a loop for another CPU, and their number. */
static bool waits[NR_CPUS];
static int waiting;

/*
 * The CPU cannot wait here, since it has no stack of its own: other CPUs serve its requests at
 * once.
 */
static void serve_calls_elsewhere(void)
{
	int here = khost_cpu_number;

	for (int cpu = 0; cpu < khost_machine->cpus; cpu++) {
		unsigned int irqs_off;

		if (cpu == here || !khost_owes_call(cpu))
			continue;
		khost_act_for(cpu);
		irqs_off = khost_cpu->irqs_off;
		khost_cpu->irqs_off = 1;
		irq_enter();
		khost_serve_call();
		irq_exit();
		khost_cpu->irqs_off = irqs_off;
		/* The caller checks its condition again. */
		khost_cpu->sent |= KHOST_IRQ_RESCHEDULE;
		khost_touch(cpu);
		khost_act_for(here);
	}
}

/*
 * Iterations of such loops in this call. Few of them wait for another CPU, which serves within the
 * call. A loop that goes on waits for a time, which would never come, so time passes in it.
 */
static unsigned int relaxed;

#define RELAXED_MAX 4096
#define RELAX_PS (10 * NSEC_PER_USEC)

/* One iteration of a loop that waits for another CPU. */
void khost_relax(void)
{
	if (++relaxed > RELAXED_MAX)
		khost_cpu->counted_ps += RELAX_PS;
	if (!khost_current || !has_stack(khost_current) || in_interrupt()) {
		serve_calls_elsewhere();
		return;
	}
	if (!waits[khost_cpu_number]) {
		waits[khost_cpu_number] = true;
		waiting++;
	}
	khost_wait_for_interrupt();
	if (!khost_cpu->irqs_off)
		khost_serve_interrupts();
}

/* Whether the task must give way before it returns to user mode. */
static bool must_give_way(void)
{
#ifdef CONFIG_ARCH_HAS_PREEMPT_LAZY
	if (test_thread_flag(TIF_NEED_RESCHED_LAZY))
		return true;
#endif
	return need_resched();
}

/* Return to user mode: does the pending work of an interrupt or a switch. */
static void return_to_user(void)
{
	while (must_give_way())
		schedule();
}

static noinline void run_body(void (*body)(void *), void *argument)
{
	if (!__builtin_setjmp(call_end))
		body(argument);
}

static void call(int cpu, void (*body)(void *), void *argument)
{
	unsigned int irqs_off;
	bool is_borrowed;

	khost_act_for(cpu);
	irqs_off = khost_cpu->irqs_off;
	is_borrowed = has_stack(khost_current) && body != khost_resume_or_serve;
	/* It has used time, whatever else happens. */
	khost_touch(cpu);
	if (!has_stack(khost_current))
		user_exit();
	finish_switch = false;
	run_body(body, argument);
	/* A fork for a sleeping CPU: the thread in which it sleeps finds interrupts as it left them. */
	if (is_borrowed)
		khost_cpus[cpu].irqs_off = irqs_off;
	while (!khost_is_dead && !has_stack(khost_current)) {
		if (finish_switch) {
			struct task_struct *prev = switched_from;

			finish_switch = false;
			switched_from = NULL;
			run_body((void (*)(void *))schedule_tail, prev);
		} else if (must_give_way()) {
			run_body((void (*)(void *))return_to_user, NULL);
		} else {
			user_enter();
			break;
		}
	}
}

/* An offline CPU has no task. */
static bool is_flagged(const struct khost_cpu *it)
{
	return it->flags && *it->flags & KHOST_NEED_RESCHED;
}

/* A CPU that polls gets no IPI: it reads the flag of its idle thread. */
bool khost_sees_work(int cpu)
{
	const struct khost_cpu *it = &khost_cpus[cpu];

	return it->idle_state != KHOST_AWAKE && is_flagged(it);
}

/* Also for IPIs under way, and for flags that a polling CPU reads. */
static bool has_work(int cpu)
{
	const struct khost_cpu *it = &khost_cpus[cpu];

	return it->sent || it->raised || khost_owes_call(cpu) || is_flagged(it);
}

static void take_turn(int cpu)
{
	struct khost_cpu *it = &khost_cpus[cpu];

	it->raised |= it->sent | (khost_owes_call(cpu) ? KHOST_IRQ_CALL : 0);
	it->sent = 0;
	call(cpu, khost_resume_or_serve, NULL);
}

/* Runs each CPU that has work, then each that waits. */
static void go_round(void)
{
	for (int cpu = 0; cpu < khost_machine->cpus && !khost_is_dead; cpu++) {
		if (!waits[cpu] && has_work(cpu))
			take_turn(cpu);
	}
	for (int cpu = 0; cpu < khost_machine->cpus && !khost_is_dead; cpu++) {
		if (waits[cpu]) {
			waits[cpu] = false;
			waiting--;
			take_turn(cpu);
		}
	}
}

/*
 * A call from the simulator for @cpu. It ends when the CPU sleeps, or runs a simulated task without
 * remaining kernel work, and no other CPU waits for it in a loop.
 */
int khost_call(unsigned long cpu, void (*body)(void *), void *argument)
{
	if (khost_is_dead)
		return -1;
	relaxed = 0;
	call(cpu, body, argument);
	while (waiting && !khost_is_dead)
		go_round();
	/* A call for a sleeping CPU, such as a fork: an interrupt would have woken it. */
	khost_act_for(cpu);
	if (khost_cpu->idle_state != KHOST_AWAKE && need_resched())
		arch_smp_send_reschedule(cpu);
	return khost_is_dead ? -1 : 0;
}

/* System calls that can wait. */

/* Unused stacks; the first word points to the next. */
static void **free_stacks;
static struct {
	int (*body)(void *argument);
	void *argument;
} entered;

/* Either no call uses it, or the call ends before the next one. */
void put_task_stack(struct task_struct *task)
{
	void **stack = task->stack;

	*stack = free_stacks;
	free_stacks = stack;
	task->stack = NULL;
	task->thread.stack_pointer = NULL;
}

static int system_call(void *unused)
{
	void *left;

	entered.body(entered.argument);
	put_task_stack(current);
	khost_swap(&left, call_stack);
	return 0;
}

static void enter(void *unused)
{
	if (free_stacks) {
		current->stack = free_stacks;
		free_stacks = *free_stacks;
	} else {
		current->stack = khost_alloc_stack();
	}
	set_entry(current, system_call, NULL);
	khost_resume_thread();
}

/*
 * A call from the simulated task on @cpu. @body copies @argument before it waits, since the caller
 * does not keep it.
 */
int khost_call_on_stack(unsigned long cpu, int (*body)(void *), void *argument)
{
	if (khost_is_thread(cpu))
		khost_trouble(KHOST_PANIC, "no task has CPU %lu to make a system call", cpu);
	entered.body = body;
	entered.argument = argument;
	return khost_call(cpu, enter, NULL);
}
