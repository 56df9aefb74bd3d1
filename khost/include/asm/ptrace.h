/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_PTRACE_H
#define KHOST_ASM_PTRACE_H

struct pt_regs {
	unsigned long ip, sp;
	/* The interrupted context. */
	unsigned long from_user;
};

#define user_mode(regs) ((regs)->from_user)
#define instruction_pointer(regs) ((regs)->ip)
#define user_stack_pointer(regs) ((regs)->sp)
#define profile_pc(regs) ((regs)->ip)
#define arch_has_single_step() 0

#endif
