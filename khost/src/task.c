// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Tasks: the part of fork and exit that concerns the scheduler. */
#include <linux/cgroup.h>
#include <linux/hrtimer.h>
#include <linux/init_task.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/sched/rt.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/wait.h>
#include <uapi/linux/sched/types.h>
#include "sched.h"
#include "host.h"

/* A task with the host's data. */
struct host_task {
	struct task_struct task;
	unsigned int number;
	struct hrtimer_sleeper sleeper;
	/* As requested. */
	unsigned int uclamp_min, uclamp_max;
	/* The next task that an interrupt on the same CPU wakes. */
	struct host_task *next_completed;
	struct signal_struct signal;
	struct sighand_struct sighand;
};

/* No memory is mapped, so all tasks share this. */
struct mm_struct init_mm;
static int last_pid;

struct task_struct init_task;
rwlock_t tasklist_lock;

static struct host_task *host_of(struct task_struct *task)
{
	return container_of(task, struct host_task, task);
}

unsigned int khost_number(struct task_struct *task)
{
	return task == &init_task ? 0 : host_of(task)->number;
}

static void init_lists(struct task_struct *task)
{
	INIT_LIST_HEAD(&task->tasks);
	INIT_LIST_HEAD(&task->children);
	INIT_LIST_HEAD(&task->sibling);
	INIT_LIST_HEAD(&task->thread_node);
	INIT_LIST_HEAD(&task->se.group_node);
	INIT_LIST_HEAD(&task->rt.run_list);
#ifdef CONFIG_PREEMPT_RCU
	INIT_LIST_HEAD(&task->rcu_node_entry);
#endif
	plist_node_init(&task->pushable_tasks, MAX_PRIO);
	RB_CLEAR_NODE(&task->pushable_dl_tasks);
}

static void init_fields(struct task_struct *task, const char *name)
{
	init_lists(task);
	refcount_set(&task->usage, 2);
	refcount_set(&task->rcu_users, 1);
	refcount_set(&task->stack_refcount, 1);
	task->prio = task->static_prio = task->normal_prio = DEFAULT_PRIO;
	task->policy = SCHED_NORMAL;
	task->rt.time_slice = RR_TIMESLICE;
	cpumask_setall(&task->cpus_mask);
	task->cpus_ptr = &task->cpus_mask;
	task->nr_cpus_allowed = NR_CPUS;
#ifdef KHOST_HAS_MAX_ALLOWED_CAPACITY
	task->max_allowed_capacity = SCHED_CAPACITY_SCALE;
#endif
	task->active_mm = &init_mm;
	task->group_leader = task->real_parent = task->parent = task;
	task->pid = task->tgid = last_pid++;
	task->timer_slack_ns = task->default_timer_slack_ns = 50 * NSEC_PER_USEC;
#ifdef CONFIG_VIRT_CPU_ACCOUNTING_GEN
	task->vtime = (struct vtime) { .state = VTIME_INACTIVE };
#endif
	strscpy(task->comm, name, sizeof(task->comm));
	khost_init_scheduler_entity(task);
}

static struct host_task *new_task(const char *name)
{
	struct host_task *host = khost_alloc(sizeof(*host));

	/* Like fork; the scheduler has set up the first task. */
	host->task = init_task;
	host->task.flags = 0;
	host->task.stack = NULL;
	host->task.thread.stack_pointer = NULL;
	host->task.worker_private = NULL;
	init_fields(&host->task, name);
	host->task.signal = &host->signal;
	host->task.sighand = &host->sighand;
	return host;
}

void khost_init_task(void)
{
	static struct signal_struct signal;
	static struct sighand_struct sighand;

	init_fields(&init_task, "swapper");
	init_task.flags = PF_KTHREAD;
	init_task.thread_info.preempt_count = INIT_PREEMPT_COUNT;
	init_task.signal = &signal;
	init_task.sighand = &sighand;
	init_task.sched_task_group = &root_task_group;
	khost_group_join(&init_task, khost_group(0));
	atomic_set(&init_mm.mm_count, 1 << 30);
	khost_set_first_task(0, &init_task);
}

struct task_struct *khost_fork_idle(int cpu)
{
	struct task_struct *idle = &new_task("swapper")->task;

	idle->pid = idle->tgid = 0;
	idle->flags = PF_KTHREAD;
	if (!set_kthread_struct(idle) || sched_fork(0, idle))
		khost_trouble(KHOST_PANIC, "no idle task for CPU %d", cpu);
	return idle;
}

static void start(struct task_struct *task, struct css_set *set)
{
	struct kernel_clone_args args = { .cset = set };

	khost_keep_task(task);
	khost_group_join(task, set);
	sched_cgroup_fork(task, &args);
	sched_post_fork(task);
}

struct task_struct *khost_new_thread(int (*body)(void *), void *argument, const char *name)
{
	struct task_struct *task = &new_task(name ?: "kthread")->task;

	task->flags = PF_KTHREAD;
	task->timer_slack_ns = current->timer_slack_ns;
	cpumask_copy(&task->cpus_mask, &current->cpus_mask);
	task->nr_cpus_allowed = current->nr_cpus_allowed;
	if (!set_kthread_struct(task) || sched_fork(0, task))
		khost_trouble(KHOST_PANIC, "no kernel thread %s", task->comm);
	khost_give_stack(task, body, argument);
	start(task, khost_group(0));
	wake_up_new_task(task);
	return task;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
pid_t kernel_thread(int (*body)(void *), void *argument, const char *name, unsigned long flags)
{
	return khost_new_thread(body, argument, name)->pid;
}
#else
pid_t kernel_thread(int (*body)(void *), void *argument, unsigned long flags)
{
	return khost_new_thread(body, argument, NULL)->pid;
}
#endif

void khost_exit_current(void)
{
	current->flags |= PF_EXITING;
	khost_group_leave(current);
	preempt_disable();
	exit_rcu();
	do_task_dead();
}

/* Also tells kthread_stop() that a thread has ended. */
void do_exit(long code)
{
	struct completion *ended = current->vfork_done;

	current->vfork_done = NULL;
	if (ended)
		complete(ended);
	khost_exit_current();
}

/* A task is freed with its last reference, after a grace period. */

void __put_task_struct(struct task_struct *task)
{
	khost_free_scheduler_entity(task);
	if (!(task->flags & PF_KTHREAD))
		khost_free(host_of(task));
}

void __put_task_struct_rcu_cb(struct rcu_head *head)
{
	__put_task_struct(container_of(head, struct task_struct, rcu));
}

static void put_after_grace_period(struct rcu_head *head)
{
	put_task_struct(container_of(head, struct task_struct, rcu));
}

void put_task_struct_rcu_user(struct task_struct *task)
{
	if (refcount_dec_and_test(&task->rcu_users))
		call_rcu(&task->rcu, put_after_grace_period);
}

void __set_task_comm(struct task_struct *task, const char *name, bool exec)
{
	strscpy(task->comm, name, sizeof(task->comm));
}

pid_t __task_pid_nr_ns(struct task_struct *task, enum pid_type type, struct pid_namespace *ns)
{
	return task->pid;
}

/* Calls from the simulator. */

struct fork {
	const struct khost_task_setup *setup;
	struct host_task *made;
};

static void allowed_by(const struct khost_attributes *attributes, struct cpumask *allowed)
{
	cpumask_clear(allowed);
	for (unsigned int cpu = 0; cpu < khost_machine->cpus; cpu++) {
		if (attributes->affinity[cpu / 64] >> (cpu % 64) & 1)
			cpumask_set_cpu(cpu, allowed);
	}
	if (cpumask_empty(allowed))
		cpumask_copy(allowed, cpu_possible_mask);
}

/* The values that sched_setattr() sets. */
static void set_attributes(struct host_task *host, const struct khost_attributes *attributes)
{
	struct task_struct *task = &host->task;
	struct sched_attr attr = {
		.size = sizeof(attr),
		.sched_policy = attributes->policy,
		.sched_priority = attributes->priority,
		.sched_nice = attributes->nice,
		.sched_runtime = attributes->slice_ns,
	};

	/* A kernel without any clamp request does not use clamps, and has its own for realtime. */
	if (attributes->uclamp_min != host->uclamp_min ||
	    attributes->uclamp_max != host->uclamp_max) {
		if (!IS_ENABLED(CONFIG_UCLAMP_TASK))
			khost_trouble(KHOST_REFUSED, "%s has clamps, which need CONFIG_UCLAMP_TASK",
				      task->comm);
		attr.sched_flags = SCHED_FLAG_UTIL_CLAMP;
		attr.sched_util_min = host->uclamp_min = attributes->uclamp_min;
		attr.sched_util_max = host->uclamp_max = attributes->uclamp_max;
	}
	if (sched_setattr_nocheck(task, &attr))
		khost_trouble(KHOST_PANIC,
			      "%s: no policy %u, priority %u, nice %d, clamps %u and %u", task->comm,
			      attributes->policy, attributes->priority, attributes->nice,
			      attributes->uclamp_min, attributes->uclamp_max);
}

void khost_waking(struct task_struct *task)
{
	if (khost_machine->records)
		khost_traced_task(KHOST_SCHED_WAKING, khost_number(task), task_cpu(task));
}

void khost_wakeup(struct task_struct *task)
{
	if (khost_machine->records)
		khost_traced_task(KHOST_SCHED_WAKEUP, khost_number(task), task_cpu(task));
}

void khost_wakeup_new(struct task_struct *task)
{
	if (khost_machine->records)
		khost_traced_task(KHOST_SCHED_WAKEUP_NEW, khost_number(task), task_cpu(task));
}

static void fork_task(void *argument)
{
	struct fork *fork = argument;
	const struct khost_task_setup *setup = fork->setup;
	struct host_task *host = new_task(setup->name);
	struct task_struct *task = &host->task;

	host->number = setup->number;
	/* Only tasks with memory enter user mode. */
	if (IS_ENABLED(CONFIG_CONTEXT_TRACKING_USER))
		task->mm = &init_mm;
	task->timer_slack_ns = task->default_timer_slack_ns = setup->timer_slack_ns;
	allowed_by(&setup->attributes, &task->cpus_mask);
	task->nr_cpus_allowed = cpumask_weight(&task->cpus_mask);
	/* The scheduler's reference is the last one. */
	refcount_set(&task->usage, 1);
	if (sched_fork(0, task))
		khost_trouble(KHOST_PANIC, "no task %s", task->comm);
	start(task, khost_group(setup->group));
	host->uclamp_max = SCHED_CAPACITY_SCALE;
	/* sysctl_sched_uclamp_util_min_rt_default */
	if (rt_policy(setup->attributes.policy))
		host->uclamp_min = SCHED_CAPACITY_SCALE;
	set_attributes(host, &setup->attributes);
	fork->made = host;
	wake_up_new_task(task);
}

int khost_task_new(const struct khost_task_setup *setup, void **task)
{
	struct fork fork = { .setup = setup };
	int result = khost_call(setup->forked_on, fork_task, &fork);

	*task = fork.made;
	return result;
}

static void block(void *in_iowait)
{
	if (in_iowait)
		io_schedule_prepare();
	set_current_state(TASK_INTERRUPTIBLE);
	schedule();
}

int khost_block(void *unused, unsigned long cpu)
{
	return khost_call(cpu, block, NULL);
}

int khost_block_io(void *unused, unsigned long cpu)
{
	return khost_call(cpu, block, (void *)1);
}

static void sleep(void *until_ns)
{
	struct hrtimer_sleeper *sleeper = &host_of(current)->sleeper;

#ifdef KHOST_HAS_HRTIMER_SETUP_SLEEPER_ON_STACK
	hrtimer_setup_sleeper_on_stack(sleeper, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#else
	hrtimer_init_sleeper(sleeper, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#endif
	hrtimer_set_expires_range_ns(&sleeper->timer, *(u64 *)until_ns, current->timer_slack_ns);
	/* It was set up for the CPU's current task, which is this one. */
	set_current_state(TASK_INTERRUPTIBLE);
	hrtimer_sleeper_start_expires(sleeper, HRTIMER_MODE_ABS);
	schedule();
}

int khost_sleep(void *until_ns, unsigned long cpu)
{
	return khost_call(cpu, sleep, until_ns);
}

static void yield_cpu(void *unused)
{
	yield();
}

int khost_yield(void *unused, unsigned long cpu)
{
	return khost_call(cpu, yield_cpu, NULL);
}

static int exit_task(void *unused)
{
	khost_exit_current();
}

/* On a stack that the next call reuses, which must not return into the end of this one. */
int khost_exit(void *unused, unsigned long cpu)
{
	return khost_call_on_stack(cpu, exit_task, NULL);
}

int khost_change_task(void *argument)
{
	struct khost_change change = *(const struct khost_change *)argument;
	struct task_struct *task = &((struct host_task *)change.task)->task;
	struct cpumask allowed;

	set_attributes(change.task, &change.attributes);
	allowed_by(&change.attributes, &allowed);
	if (!cpumask_equal(&allowed, &task->cpus_mask) && set_cpus_allowed_ptr(task, &allowed))
		khost_trouble(KHOST_PANIC, "%s: no such affinity", task->comm);
	return 0;
}

int khost_change(const struct khost_change *given, unsigned long cpu)
{
	return khost_call_on_stack(cpu, khost_change_task, (void *)given);
}

static struct host_task *completed[NR_CPUS];

int khost_completes(void *task, unsigned long cpu)
{
	struct host_task **last = &completed[cpu];

	while (*last)
		last = &(*last)->next_completed;
	*last = task;
	return 0;
}

/* From a device's interrupt. */
void khost_wake_completed(int cpu)
{
	while (completed[cpu]) {
		struct host_task *task = completed[cpu];

		completed[cpu] = task->next_completed;
		task->next_completed = NULL;
		wake_up_process(&task->task);
	}
}

static void wake(void *task)
{
	wake_up_process(&((struct host_task *)task)->task);
}

int khost_wake(void *task, unsigned long cpu)
{
	return khost_call(cpu, wake, task);
}

static void wake_sync(void *task)
{
	struct wait_queue_entry entry = { .private = &((struct host_task *)task)->task };

	default_wake_function(&entry, TASK_NORMAL, WF_SYNC, NULL);
}

int khost_wake_sync(void *task, unsigned long cpu)
{
	return khost_call(cpu, wake_sync, task);
}
