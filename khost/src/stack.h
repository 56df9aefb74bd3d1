/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The switch from one stack to another. It keeps what a function keeps for its caller; no header of
 * the kernel is needed here.
 */
#ifndef KHOST_STACK_H
#define KHOST_STACK_H

/* Goes on at @load, on another stack; @save is where a later switch returns to here. */
void khost_swap(void **save, void *load);

/* Called on a new stack. */
void khost_thread_main(int (*body)(void *), void *argument);

/*
 * Hidden, so that its address is no load from the GOT: GNU as 2.40 for aarch64 resolves that of a
 * symbol without a visibility to the start of the section.
 */
void khost_thread_entry(void) __attribute__((visibility("hidden")));

#if defined(__x86_64__)
/* Lowest address first, as khost_swap() leaves it. */
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
 * Returns what a first switch to a new stack loads. The frame pointer is 0: a backtrace ends there.
 * @top is aligned to 16 bytes, and so is the stack where the entry makes its call.
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
