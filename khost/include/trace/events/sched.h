/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The tree's own, with the tracepoints of wake-ups and of polling CPUs that need no interrupt. */
#include_next <trace/events/sched.h>

#ifndef KHOST_TRACE_SCHED_H
#define KHOST_TRACE_SCHED_H

struct task_struct;
void khost_waking(struct task_struct *task);
void khost_wakeup(struct task_struct *task);
void khost_wakeup_new(struct task_struct *task);
void khost_polling_has_work(int cpu);

#define trace_sched_waking(task) khost_waking(task)
#define trace_sched_wakeup(task) khost_wakeup(task)
#define trace_sched_wakeup_new(task) khost_wakeup_new(task)
#define trace_sched_wake_idle_without_ipi(cpu) khost_polling_has_work(cpu)

#endif
