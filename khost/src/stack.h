/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Switches stacks. It saves the registers that a function preserves for its caller, and needs no
 * header of the kernel.
 */
#ifndef KHOST_STACK_H
#define KHOST_STACK_H

/* Continues on the stack at @load; @save gets the point to which a later switch returns. */
void khost_swap(void **save, void *load);

/* The first function on a new stack. */
void khost_thread_main(int (*body)(void *), void *argument);

/*
 * Hidden visibility avoids a load of its address from the GOT: GNU as 2.40 for aarch64 resolves
 * that of a symbol with default visibility to the start of the section.
 */
void khost_thread_entry(void) __attribute__((visibility("hidden")));

#if defined(__x86_64__)
/* Lowest address first, as khost_swap() stores it. */
struct khost_frame {
	unsigned long r15, r14, r13, r12, rbx, rbp, rip;
};

asm(".text\n"
    ".type khost_swap, @function\n"
    "khost_swap:\n"
    "	push %rbp\n"
    "	push %rbx\n"
    "	push %r12\n"
    "	push %r13\n"
    "	push %r14\n"
    "	push %r15\n"
    "	mov %rsp, (%rdi)\n"
    "	mov %rsi, %rsp\n"
    "	pop %r15\n"
    "	pop %r14\n"
    "	pop %r13\n"
    "	pop %r12\n"
    "	pop %rbx\n"
    "	pop %rbp\n"
    "	ret\n"
    ".type khost_thread_entry, @function\n"
    "khost_thread_entry:\n"
    "	mov %rbx, %rdi\n"
    "	mov %r12, %rsi\n"
    "	call khost_thread_main\n"
    "	ud2\n");

#define KHOST_FIRST_FRAME(entry, body, argument) \
	{ .rip = (entry), .rbx = (body), .r12 = (argument) }
#elif defined(__aarch64__)
struct khost_frame {
	unsigned long x29, x30, x19, x20, x21, x22, x23, x24, x25, x26, x27, x28;
	unsigned long d8, d9, d10, d11, d12, d13, d14, d15;
};

asm(".text\n"
    ".type khost_swap, %function\n"
    "khost_swap:\n"
    "	stp x29, x30, [sp, #-160]!\n"
    "	stp x19, x20, [sp, #16]\n"
    "	stp x21, x22, [sp, #32]\n"
    "	stp x23, x24, [sp, #48]\n"
    "	stp x25, x26, [sp, #64]\n"
    "	stp x27, x28, [sp, #80]\n"
    "	stp d8, d9, [sp, #96]\n"
    "	stp d10, d11, [sp, #112]\n"
    "	stp d12, d13, [sp, #128]\n"
    "	stp d14, d15, [sp, #144]\n"
    "	mov x9, sp\n"
    "	str x9, [x0]\n"
    "	mov sp, x1\n"
    "	ldp x19, x20, [sp, #16]\n"
    "	ldp x21, x22, [sp, #32]\n"
    "	ldp x23, x24, [sp, #48]\n"
    "	ldp x25, x26, [sp, #64]\n"
    "	ldp x27, x28, [sp, #80]\n"
    "	ldp d8, d9, [sp, #96]\n"
    "	ldp d10, d11, [sp, #112]\n"
    "	ldp d12, d13, [sp, #128]\n"
    "	ldp d14, d15, [sp, #144]\n"
    "	ldp x29, x30, [sp], #160\n"
    "	ret\n"
    ".type khost_thread_entry, %function\n"
    "khost_thread_entry:\n"
    "	mov x0, x19\n"
    "	mov x1, x20\n"
    "	bl khost_thread_main\n"
    "	brk #0\n");

#define KHOST_FIRST_FRAME(entry, body, argument) \
	{ .x30 = (entry), .x19 = (body), .x20 = (argument) }
#else
#error "a hosted kernel needs x86-64 or aarch64: khost/src/stack.h switches stacks for no other"
#endif

/*
 * Returns the value to load for the first switch to a new stack. The frame pointer is 0, which ends
 * backtraces. @top is aligned to 16 bytes, and so is the stack at the entry's call.
 */
static inline void *khost_first_frame(void *top, int (*body)(void *), void *argument)
{
	struct khost_frame *frame = (struct khost_frame *)top - 1;

	*frame = (struct khost_frame)KHOST_FIRST_FRAME((unsigned long)khost_thread_entry,
						       (unsigned long)body,
						       (unsigned long)argument);
	return frame;
}

#endif
