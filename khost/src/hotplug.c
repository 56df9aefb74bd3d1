// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * CPUs go off and on again, by /sys/devices/system/cpu/cpuN/online. This replaces the part of
 * kernel/cpu.c for a running kernel: the hosted files' own callbacks run in the order of their
 * states, on a thread of that CPU, in stop_machine(), and on the CPU of the writer.
 *
 * FIDELITY(sim-hotplug): callbacks of files that are not hosted take no time, and a CPU starts at
 * once.
 */
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpuidle.h>
#include <linux/device.h>
#include <linux/hrtimer.h>
#include <linux/kstrtox.h>
#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/rcuwait.h>
#include <linux/sched.h>
#include <linux/sched/hotplug.h>
#include <linux/sched/isolation.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/stop_machine.h>
#include <linux/tick.h>
#include <linux/timer.h>
#include "smpboot.h"
#include "sched.h"
#include "host.h"

/* The scheduler waits with these until only one thread is left on a CPU. */

int rcuwait_wake_up(struct rcuwait *wait)
{
	struct task_struct *task = rcu_dereference(wait->task);

	return task ? wake_up_process(task) : 0;
}

void finish_rcuwait(struct rcuwait *wait)
{
	rcu_assign_pointer(wait->task, NULL);
	__set_current_state(TASK_RUNNING);
}

static DECLARE_COMPLETION(done);
static int (*work)(unsigned int cpu);
static int work_result;

static int run_work(void *cpu)
{
	work_result = work((unsigned long)cpu);
	complete(&done);
	return 0;
}

/* Does it on a thread of the CPU, which may wait. */
static int run_on(unsigned int cpu, int (*what)(unsigned int cpu))
{
	struct task_struct *thread;

	work = what;
	thread = kthread_create(run_work, (void *)(unsigned long)cpu, "cpuhp/%u", cpu);
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	get_task_struct(thread);
	kthread_bind(thread, cpu);
	kthread_set_per_cpu(thread, cpu);
	wake_up_process(thread);
	wait_for_completion(&done);
	/* Until it has left the CPU, which it could not leave any more later. */
	while (READ_ONCE(thread->on_rq))
		schedule_timeout_uninterruptible(1);
	put_task_struct(thread);
	return work_result;
}

/* Registered steps between two of the kernel's own states, the last one first. */
static void tear_down(unsigned int cpu, enum cpuhp_state above, enum cpuhp_state below)
{
	int count;
	const struct khost_step *steps = khost_steps(&count);

	while (count-- > 0) {
		if (steps[count].state > above && steps[count].state < below &&
		    steps[count].teardown)
			steps[count].teardown(cpu);
	}
}

static void start_up(unsigned int cpu, enum cpuhp_state above, enum cpuhp_state below)
{
	int count;
	const struct khost_step *steps = khost_steps(&count);

	for (int at = 0; at < count; at++) {
		if (steps[at].state > above && steps[at].state < below && steps[at].startup)
			steps[at].startup(cpu);
	}
}

static int leave(unsigned int cpu)
{
	int result = sched_cpu_deactivate(cpu);

	if (result)
		return result;
	tear_down(cpu, CPUHP_AP_RCUTREE_ONLINE, CPUHP_AP_ACTIVE);
	rcutree_offline_cpu(cpu);
	tear_down(cpu, CPUHP_AP_SMPBOOT_THREADS, CPUHP_AP_RCUTREE_ONLINE);
	smpboot_park_threads(cpu);
	tear_down(cpu, CPUHP_TEARDOWN_CPU, CPUHP_AP_SMPBOOT_THREADS);
	sched_cpu_wait_empty(cpu);
	return 0;
}

/* With interrupts off on all CPUs. */
static int die(void *unused)
{
	unsigned int cpu = khost_cpu_number;

	set_cpu_online(cpu, false);
	remove_cpu_topology(cpu);
#ifdef KHOST_HAS_TICK_CPU_DYING
	tick_cpu_dying(cpu);
#endif
	hrtimers_cpu_dying(cpu);
	smpcfd_dying_cpu(cpu);
	rcutree_dying_cpu(cpu);
	sched_cpu_dying(cpu);
#ifndef KHOST_HAS_TICK_CPU_DYING
	tick_handover_do_timer();
	tick_offline_cpu(cpu);
#endif
	stop_machine_park(cpu);
	return 0;
}

static bool is_dead[NR_CPUS];

/* The idle thread has seen that its CPU is off. */
void cpuhp_report_idle_dead(void)
{
#ifdef KHOST_HAS_RCUTREE_REPORT_CPU_STARTING
	rcutree_report_cpu_dead();
#else
	rcu_report_dead(khost_cpu_number);
#endif
	is_dead[khost_cpu_number] = true;
}

static void put_to_sleep(unsigned int cpu)
{
	while (!is_dead[cpu])
		schedule_timeout_uninterruptible(1);
#ifdef KHOST_HAS_TICK_CLEANUP_DEAD_CPU
	tick_cleanup_dead_cpu(cpu);
#endif
	rcutree_migrate_callbacks(cpu);
	tear_down(cpu, CPUHP_OFFLINE, CPUHP_BRINGUP_CPU);
	timers_dead_cpu(cpu);
	rcutree_dead_cpu(cpu);
	smpcfd_dead_cpu(cpu);
}

/* The scheduler's domains need one CPU that is not isolated. */
static bool is_last_housekeeper(unsigned int cpu)
{
	unsigned int other;

	for_each_cpu_and(other, cpu_online_mask, housekeeping_cpumask(HK_TYPE_DOMAIN)) {
		if (other != cpu)
			return false;
	}
	return true;
}

static int take_down(unsigned int cpu)
{
	int result;

	if (!cpu || !cpu_online(cpu) || num_online_cpus() == 1 || is_last_housekeeper(cpu))
		return -EBUSY;
	/* From now on no thread of the kernel is placed there that is not this CPU's own. */
	set_cpu_dying(cpu, true);
	result = run_on(cpu, leave);
	if (result) {
		set_cpu_dying(cpu, false);
		return result;
	}
	is_dead[cpu] = false;
	khost_cpus[cpu].is_offline = 1;
	stop_machine(die, NULL, cpumask_of(cpu));
	put_to_sleep(cpu);
	return 0;
}

static int join(unsigned int cpu)
{
	start_up(cpu, CPUHP_TEARDOWN_CPU, CPUHP_AP_SMPBOOT_THREADS);
	smpboot_unpark_threads(cpu);
	start_up(cpu, CPUHP_AP_SMPBOOT_THREADS, CPUHP_AP_RCUTREE_ONLINE);
	rcutree_online_cpu(cpu);
	start_up(cpu, CPUHP_AP_RCUTREE_ONLINE, CPUHP_AP_ACTIVE);
	return sched_cpu_activate(cpu);
}

static int bring_up(unsigned int cpu)
{
	set_cpu_dying(cpu, false);
	khost_prepare_cpu(cpu, idle_task(cpu));
	khost_cpus[cpu].is_offline = 0;
	/* Starts its idle loop. */
	arch_smp_send_reschedule(cpu);
	return run_on(cpu, join);
}

static ssize_t online_store(struct device *device, struct device_attribute *attr, const char *text,
			    size_t len)
{
	bool online;
	int result = kstrtobool(text, &online);

	if (!result && online != cpu_online(device->id))
		result = online ? bring_up(device->id) : take_down(device->id);
	return result ?: len;
}

static DEVICE_ATTR_WO(online);

/* Of CPUs that were there at the start; the first cannot be off. */
void khost_add_online_files(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		if (cpu)
			device_create_file(get_cpu_device(cpu), &dev_attr_online);
	}
}
