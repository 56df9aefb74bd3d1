/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_PREEMPT_H
#define KHOST_ASM_PREEMPT_H

#include <asm-generic/preempt.h>

#ifdef CONFIG_PREEMPT_DYNAMIC
#include <linux/jump_label.h>

DECLARE_STATIC_KEY_TRUE(sk_dynamic_irqentry_exit_cond_resched);
#endif

#ifdef CONFIG_PREEMPTION
static inline void khost_preempt_thread(void)
{
	__preempt_schedule();
}

/*
 * A simulated task has no stack on which its work in the kernel could wait. It is preempted at the
 * end of its call, at the same instant.
 */
void khost_preempt(void);
#undef __preempt_schedule
#undef __preempt_schedule_notrace
#define __preempt_schedule() khost_preempt()
#define __preempt_schedule_notrace() khost_preempt()
#endif

#endif
