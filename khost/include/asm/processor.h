/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_PROCESSOR_H
#define KHOST_ASM_PROCESSOR_H

struct task_struct;

/* Saved context of a kernel thread; unused in tasks that the simulator runs. */
struct thread_struct {
	void *stack_pointer;
#ifdef CONFIG_SCHED_CLASS_EXT
	/* What a scheduler stores for a task, an entry for each of its maps. */
	void **storage;
#endif
};

#define INIT_THREAD { }
#define TASK_SIZE (1UL << 47)
#define STACK_TOP TASK_SIZE
#define STACK_TOP_MAX TASK_SIZE
#define TASK_UNMAPPED_BASE 0
#define KSTK_EIP(task) 0
#define KSTK_ESP(task) 0
#define task_pt_regs(task) ((struct pt_regs *)NULL)

unsigned long __get_wchan(struct task_struct *task);

#endif
