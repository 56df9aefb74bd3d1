// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Workqueues: one kernel thread does all queued work in order. The kernel's timers implement
 * delays.
 */
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/workqueue.h>
#include "host.h"

/* Each release has some of them. */
struct workqueue_struct *system_wq, *system_percpu_wq, *system_unbound_wq, *system_dfl_wq;
struct workqueue_struct *system_highpri_wq, *system_long_wq, *system_dfl_long_wq;
struct workqueue_struct *system_power_efficient_wq, *system_freezable_wq;

static LIST_HEAD(queued);
static struct task_struct *worker;

static int work(void *unused)
{
	for (;;) {
		set_current_state(TASK_IDLE);
		if (list_empty(&queued))
			schedule();
		__set_current_state(TASK_RUNNING);
		while (!list_empty(&queued)) {
			struct work_struct *item =
				list_first_entry(&queued, struct work_struct, entry);
			work_func_t function = item->func;

			list_del_init(&item->entry);
			clear_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(item));
			function(item);
		}
	}
	return 0;
}

void khost_start_workers(void)
{
	worker = kthread_run(work, NULL, "kworker");
}

bool queue_work_on(int cpu, struct workqueue_struct *queue, struct work_struct *item)
{
	if (test_and_set_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(item)))
		return false;
	list_add_tail(&item->entry, &queued);
	if (worker)
		wake_up_process(worker);
	return true;
}

void delayed_work_timer_fn(struct timer_list *timer)
{
	struct delayed_work *delayed = container_of(timer, struct delayed_work, timer);

	clear_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(&delayed->work));
	queue_work_on(delayed->cpu, delayed->wq, &delayed->work);
}

bool queue_delayed_work_on(int cpu, struct workqueue_struct *queue, struct delayed_work *delayed,
			   unsigned long delay)
{
	if (test_and_set_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(&delayed->work)))
		return false;
	delayed->wq = queue;
	delayed->cpu = cpu;
	delayed->timer.expires = jiffies + delay;
	add_timer(&delayed->timer);
	return true;
}

bool mod_delayed_work_on(int cpu, struct workqueue_struct *queue, struct delayed_work *delayed,
			 unsigned long delay)
{
	if (!timer_pending(&delayed->timer))
		return !queue_delayed_work_on(cpu, queue, delayed, delay);
	mod_timer(&delayed->timer, jiffies + delay);
	return true;
}

static bool stop_timer(struct timer_list *timer)
{
#ifdef KHOST_HAS_TIMER_DELETE
	return timer_delete(timer);
#else
	return del_timer(timer);
#endif
}

bool cancel_delayed_work(struct delayed_work *delayed)
{
	if (!stop_timer(&delayed->timer)) {
		if (!work_pending(&delayed->work))
			return false;
		list_del_init(&delayed->work.entry);
	}
	clear_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(&delayed->work));
	return true;
}

/* Queued work never runs while another kernel thread does. */
bool cancel_delayed_work_sync(struct delayed_work *delayed)
{
	return cancel_delayed_work(delayed);
}

static void queue_after_grace_period(struct rcu_head *head)
{
	struct rcu_work *work = container_of(head, struct rcu_work, rcu);

	clear_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(&work->work));
	queue_work(work->wq, &work->work);
}

bool queue_rcu_work(struct workqueue_struct *queue, struct rcu_work *work)
{
	if (test_and_set_bit(WORK_STRUCT_PENDING_BIT, work_data_bits(&work->work)))
		return false;
	work->wq = queue;
	call_rcu(&work->rcu, queue_after_grace_period);
	return true;
}

bool flush_work(struct work_struct *item)
{
	while (work_pending(item))
		schedule_timeout_uninterruptible(1);
	return true;
}
