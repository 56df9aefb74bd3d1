/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_CURRENT_H
#define KHOST_ASM_CURRENT_H

struct task_struct;

extern struct task_struct *khost_current;

#define get_current() khost_current
#define current get_current()

#endif
