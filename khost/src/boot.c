// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Start of a hosted kernel, in the order of init/main.c, and the calls into it. */
#include <linux/arch_topology.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpuidle.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/srcu.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/init.h>
#include <linux/sched/isolation.h>
#include <linux/sched/task.h>
#include <linux/smp.h>
#include <linux/tick.h>
#include <linux/timekeeping.h>
#include <linux/timer.h>
#include <linux/hrtimer.h>
#include <khost/policy.h>
#include "host.h"

const struct khost_host *khost_host;
const struct khost_machine *khost_machine;

enum system_states system_state;
bool static_key_initialized = true;
/* Folders of sysfs. */
int rcu_expedited, rcu_normal;

extern char param_governor[];
extern struct cpuidle_governor *cpuidle_curr_governor;
extern initcall_entry_t __initcall_start[], __initcall0_start[], __initcall_end[];
extern const struct khost_policy *__start_khost_policies[] __weak;
extern const struct khost_policy *__stop_khost_policies[] __weak;

static DECLARE_COMPLETION(kthreadd_done);
static bool is_up;

static void run_initcalls(initcall_entry_t *from, initcall_entry_t *to)
{
	for (; from < to; from++)
		initcall_from_entry(from)();
}

/*
 * Runs before the tree's own policies: the first of several with one name wins. The idle governor
 * that registers here is the one of the command line.
 */
static void start_linked_policies(void)
{
	const struct khost_policy **at;

	for (at = __start_khost_policies; at < __stop_khost_policies; at++) {
		if (!strcmp((*at)->name, khost_machine->linked[(*at)->kind]))
			(*at)->init();
	}
	if (!*khost_machine->linked[KHOST_IDLE] || cpuidle_disabled())
		return;
	if (!cpuidle_curr_governor)
		khost_trouble(KHOST_REFUSED, "%s registers no idle governor here",
			      khost_machine->governor);
	strscpy(param_governor, cpuidle_curr_governor->name, CPUIDLE_NAME_LEN);
}

static void check_governor(void)
{
	const char *wanted = khost_machine->governor;

	/* With cpuidle.off=1 no governor registers. */
	if (cpuidle_disabled())
		return;
	if (*khost_machine->linked[KHOST_IDLE]) {
		/*
		 * A kernel that switches to a governor of its own waits for one grace period. With the
		 * same wait here, drivers start at the same time under all governors.
		 */
		synchronize_rcu();
		return;
	}
	if (!*wanted)
		return;
	if (!cpuidle_curr_governor || strcmp(wanted, cpuidle_curr_governor->name))
		khost_trouble(KHOST_REFUSED, "it has no idle governor %s", wanted);
}

/* The part of kernel_init() for the scheduler, time, idle and frequency. */
static int init_thread(void *unused)
{
	wait_for_completion(&kthreadd_done);
	khost_start_workers();
	run_initcalls(__initcall_start, __initcall0_start);
	smp_init();
	khost_keep_masks();
	/* Every CPU becomes idle on its own before any of them looks for another's tasks. */
	cpu_relax();
	sched_init_smp();
	khost_register_clock();
	khost_parse_for_initcalls();
	khost_add_cpus();
	start_linked_policies();
	run_initcalls(__initcall0_start, __initcall_end);
	check_governor();
	khost_check_io_boost();
	/* Starts threads, for which CPU 0 must not enter an idle state that counts. */
	khost_start_freq_driver();
	khost_start_idle_driver();
	khost_make_groups();
	khost_start_scheduler();
	khost_write_settings();
	rcu_end_inkernel_boot();
	/* Leaves the state that the idle loop uses without a driver. */
	wake_up_all_idle_cpus();
	system_state = SYSTEM_RUNNING;
	is_up = true;
	return khost_machine->has_later_writes ? khost_serve_writes() : 0;
}

static void init_cpu_masks(void)
{
	setup_max_cpus = khost_machine->cpus;
	for (unsigned int cpu = 0; cpu < khost_machine->cpus; cpu++) {
		cpumask_set_cpu(cpu, &__cpu_possible_mask);
		cpumask_set_cpu(cpu, &__cpu_present_mask);
		khost_cpus[cpu].idle_state = KHOST_AWAKE;
		khost_cpus[cpu].timer_ns = ~0ULL;
	}
	nr_cpu_ids = khost_machine->cpus;
	__num_possible_cpus = khost_machine->cpus;
	set_cpu_online(0, true);
	cpumask_set_cpu(0, &__cpu_active_mask);
}

/* The idle thread of the first CPU, like start_kernel() and rest_init(). */
static int first_thread(void *unused)
{
	local_irq_disable();
	khost_setup_topology();
	update_siblings_masks(0);
	khost_parse_command_line();
	sched_init();
	housekeeping_init();
	rcu_init();
	tick_init();
	rcu_init_nohz();
#ifdef KHOST_HAS_TIMERS_INIT
	timers_init();
#else
	init_timers();
#endif
	srcu_init();
	hrtimers_init();
	softirq_init();
	timekeeping_init();
	khost_start_clock_event(0);
	call_function_init();
	local_irq_enable();
	sched_clock_init();
	rcu_scheduler_starting();

	struct task_struct *init = khost_new_thread(init_thread, NULL, "init");

	init->flags |= PF_NO_SETAFFINITY;
	set_cpus_allowed_ptr(init, cpumask_of(0));
	kthreadd_task = khost_new_thread(kthreadd, NULL, "kthreadd");
	system_state = SYSTEM_SCHEDULING;
	complete(&kthreadd_done);
	schedule_preempt_disabled();
	cpu_startup_entry(CPUHP_ONLINE);
	return 0;
}

static int interrupt(void *unused, unsigned long cpu)
{
	return khost_call(cpu, khost_resume_or_serve, NULL);
}

/* Delivers each IPI at once, wakes CPUs that poll for work, and advances time when all CPUs sleep. */
static int settle(void)
{
	int result = 0;
	bool any;

	do {
		any = false;
		for (unsigned int cpu = 0; !result && cpu < khost_machine->cpus; cpu++) {
			struct khost_cpu *it = &khost_cpus[cpu];

			if (!it->sent && !it->raised && !khost_sees_work(cpu))
				continue;
			it->raised |= it->sent;
			it->sent = 0;
			any = true;
			result = interrupt(NULL, cpu);
		}
	} while (any && !result);
	return result;
}

static void pass_time(void)
{
	u64 next = ~0ULL;

	for (unsigned int cpu = 0; cpu < khost_machine->cpus; cpu++)
		next = min_t(u64, next, khost_cpus[cpu].timer_ns);
	if (next == ~0ULL)
		khost_trouble(KHOST_PANIC, "the kernel does not start: it waits for nothing");
	khost_now_ns = max(khost_now_ns, next);
	for (unsigned int cpu = 0; cpu < khost_machine->cpus; cpu++) {
		struct khost_cpu *it = &khost_cpus[cpu];

		if (it->timer_ns <= khost_now_ns) {
			it->timer_ns = ~0ULL;
			it->raised |= KHOST_IRQ_TIMER;
		}
	}
}

static int boot(const struct khost_host *host, const struct khost_machine *machine)
{
	int result;

	khost_host = host;
	khost_machine = machine;
	khost_setup_percpu(machine->cpus);
	init_cpu_masks();
	khost_init_groups();
	khost_init_task();
	khost_give_stack(&init_task, first_thread, NULL);
	result = khost_call(0, khost_resume_or_serve, NULL);
	while (!result && !is_up) {
		result = settle();
		if (!result && !is_up)
			pass_time();
	}
	return result ?: settle();
}

__attribute__((visibility("default"))) const struct khost_calls khost_calls = {
	.abi = KHOST_ABI,
	.cpu_size = sizeof(struct khost_cpu),
	.machine_size = sizeof(struct khost_machine),
	.cluster_size = sizeof(struct khost_cluster),
	.task_setup_size = sizeof(struct khost_task_setup),
	.host_size = sizeof(struct khost_host),
	.hz = HZ,
	.now_ns = &khost_now_ns,
	.cpus = khost_cpus,
	.touched = khost_touched,
	.acting_cpu = &khost_cpu_number,
	.boot = boot,
	.interrupt = interrupt,
	.task_new = khost_task_new,
	.block = khost_block,
	.block_io = khost_block_io,
	.sleep = khost_sleep,
	.yield = khost_yield,
	.exit = khost_exit,
	.wake = khost_wake,
	.wake_sync = khost_wake_sync,
	.change = khost_change,
	.completes = khost_completes,
	.idle_usage = khost_idle_usage,
	.known_argument = khost_known_argument,
	.group_stat = khost_group_stat,
	.files_generation = &khost_files_generation,
	.list_files = khost_list_files,
	.write = khost_write,
	.shell_cpu = khost_shell_cpu,
};
