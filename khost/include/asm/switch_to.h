/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_SWITCH_TO_H
#define KHOST_ASM_SWITCH_TO_H

struct task_struct;

struct task_struct *khost_switch_to(struct task_struct *prev, struct task_struct *next);

#define switch_to(prev, next, last) ((last) = khost_switch_to(prev, next))

#endif
