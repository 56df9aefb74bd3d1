/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_THREAD_INFO_H
#define KHOST_ASM_THREAD_INFO_H

/* <linux/sched.h> uses it, but relies on the architecture's headers to include it. */
#include <linux/log2.h>

#define THREAD_SIZE_ORDER 2
#define THREAD_SIZE (4096UL << THREAD_SIZE_ORDER)

struct thread_info {
	unsigned long flags;
	unsigned long syscall_work;
	int preempt_count;
	u32 cpu;
};

#define INIT_THREAD_INFO(task) { .flags = 0 }

#define TIF_SYSCALL_TRACE 0
#define TIF_NOTIFY_RESUME 1
#define TIF_SIGPENDING 2
#define TIF_NEED_RESCHED 3
#define TIF_NOTIFY_SIGNAL 4
#ifdef CONFIG_ARCH_HAS_PREEMPT_LAZY
#define TIF_NEED_RESCHED_LAZY 6
#define _TIF_NEED_RESCHED_LAZY (1 << TIF_NEED_RESCHED_LAZY)
#endif
#define TIF_MEMDIE 5
#define TIF_RESTORE_SIGMASK 9
#define TIF_POLLING_NRFLAG 16
#define _TIF_NOTIFY_RESUME (1 << TIF_NOTIFY_RESUME)
#define _TIF_SIGPENDING (1 << TIF_SIGPENDING)
#define _TIF_NEED_RESCHED (1 << TIF_NEED_RESCHED)
#define _TIF_NOTIFY_SIGNAL (1 << TIF_NOTIFY_SIGNAL)
#define _TIF_POLLING_NRFLAG (1 << TIF_POLLING_NRFLAG)

#endif
