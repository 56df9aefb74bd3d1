// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* What the kernel uses where it decides, for a simulator that asks to be shown. */
#include <linux/sched.h>
#include <linux/version.h>
#include "sched.h"
#include "pelt.h"
#include "host.h"

static struct khost_seen seen[NR_CPUS];

static unsigned int util_est_of(const struct sched_avg *avg)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
	return avg->util_est & ~UTIL_AVG_UNCHANGED;
#else
	return max(avg->util_est.ewma, avg->util_est.enqueued & ~UTIL_AVG_UNCHANGED);
#endif
}

/* As find_energy_efficient_cpu() and select_idle_sibling() bring it up to date. */
static struct sched_avg average_of(struct task_struct *task)
{
	struct sched_entity copy = task->se;

	__update_load_avg_blocked_se(task_rq(task)->cfs.avg.last_update_time, &copy);
	return copy.avg;
}

static void look(void)
{
	for (unsigned int cpu = 0; cpu < khost_machine->cpus; cpu++) {
		struct rq *rq = cpu_rq(cpu);

		seen[cpu] = (struct khost_seen) {
			.util_avg = rq->cfs.avg.util_avg,
			.runnable_avg = rq->cfs.avg.runnable_avg,
			.load_avg = rq->cfs.avg.load_avg,
			.util_est = util_est_of(&rq->cfs.avg),
			.nr_running = rq->nr_running,
			.is_idle = available_idle_cpu(cpu),
			.needs_resched = test_tsk_need_resched(rq->curr),
		};
	}
}

static void before_waking(struct task_struct *task, struct khost_decision *decision)
{
	struct sched_avg average = average_of(task);

	decision->is_queued = task->on_rq || task->on_cpu;
	decision->overutilized = READ_ONCE(task_rq(task)->rd->overutilized);
	decision->util_avg = average.util_avg;
	decision->runnable_avg = average.runnable_avg;
	decision->util_est = util_est_of(&average);
	decision->recent_cpu = task->recent_used_cpu;
	decision->cpus = seen;
	look();
}

static void look_at_queue(struct khost_decision *decision, struct cfs_rq *queue,
			  struct sched_entity *task, struct sched_entity *curr)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	struct sched_entity *first = __pick_first_entity(queue);

	if (first && first != task) {
		decision->first_vruntime = first->vruntime;
		decision->first_deadline = first->deadline;
		decision->first_weight = scale_load_down(first->load.weight);
	}
	decision->vruntime = task->vruntime;
	decision->deadline = task->deadline;
	decision->weight = scale_load_down(task->load.weight);
	decision->curr_vruntime = curr->vruntime;
	decision->curr_deadline = curr->deadline;
	decision->curr_weight = scale_load_down(curr->load.weight);
	decision->is_protected = curr->vlag == curr->deadline;
	decision->virtual_time = avg_vruntime(queue);
	decision->queue_weight = scale_load_down(queue->load.weight);
#endif
}

static void after_waking(struct task_struct *task, struct khost_decision *decision)
{
	struct rq *rq = task_rq(task);
	struct task_struct *curr = rq->curr;

	decision->is_contended = curr != task && curr->sched_class == task->sched_class;
	decision->preempts = test_tsk_need_resched(curr);
	look_at_queue(decision, &rq->cfs, &task->se, &curr->se);
}

/* Who looks on takes no time. Out of the way of those whom nobody watches. */
static noinline void tell(enum khost_decided kind, struct task_struct *task, unsigned int khz,
			  unsigned int target,
			  void (*fill)(struct task_struct *task, struct khost_decision *decision))
{
	unsigned long long counted_ps = khost_cpu->counted_ps;
	struct khost_decision decision = {
		.kind = kind,
		.task = task ? khost_number(task) : 0,
		.cpu = smp_processor_id(),
		.target = target,
		.khz = khz,
	};

	if (kind == KHOST_FREQUENCY || decision.task) {
		fill(task, &decision);
		khost_host->decided(khost_host->context, &decision);
	}
	khost_cpu->counted_ps = counted_ps;
}

void khost_waking(struct task_struct *task)
{
	if (khost_machine->records)
		khost_traced_task(KHOST_SCHED_WAKING, khost_number(task), task_cpu(task));
	if (khost_host->decided)
		tell(KHOST_WAKING, task, 0, task_cpu(task), before_waking);
}

void khost_woken(struct task_struct *task)
{
	if (khost_machine->records)
		khost_traced_task(KHOST_SCHED_WAKEUP, khost_number(task), task_cpu(task));
	if (khost_host->decided)
		tell(KHOST_WOKEN, task, 0, task_cpu(task), after_waking);
}

void khost_woken_new(struct task_struct *task)
{
	if (khost_machine->records)
		khost_traced_task(KHOST_SCHED_WAKEUP_NEW, khost_number(task), task_cpu(task));
}

static void before_switch(struct task_struct *none, struct khost_decision *decision)
{
	decision->cpus = seen;
	look();
}

void khost_sees_frequency(unsigned int cpu, unsigned int khz)
{
	if (khost_host->decided)
		tell(KHOST_FREQUENCY, NULL, khz, cpu, before_switch);
}
