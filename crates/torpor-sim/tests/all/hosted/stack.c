// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Two stacks take turns, each with values of its own in all registers that a function keeps for its
 * caller. Prints what is wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include "stack.h"

#define SIZE (16UL << 10)
#define ROUNDS 1000

static char stack[SIZE] __attribute__((aligned(16)));
static void *here, *there;
static long turns;

static void fail(const char *what)
{
	printf("%s\n", what);
	exit(1);
}

/* More values than there are registers: the compiler has all of these in use across the switch. */
#define VALUES(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

static void take_turns(void **save, void **load, volatile long *seed)
{
	for (long round = 0; round < ROUNDS; round++) {
#define SET(n) long whole##n = *seed + n; double real##n = *seed + 0.5 * n;
#define CHECK(n) \
		if (whole##n != *seed + n || real##n != *seed + 0.5 * n) \
			fail("a register is lost: " #n);
		VALUES(SET)
		khost_swap(save, *load);
		VALUES(CHECK)
		turns++;
		*seed += 12345;
	}
}

static int body(void *argument)
{
	char local __attribute__((aligned(16)));

	if ((unsigned long)&local % 16 || &local < stack || &local >= stack + SIZE)
		fail("the new stack is not where it should be, or not aligned");
	if (argument != &here)
		fail("the argument is another");
	if (*(void **)__builtin_frame_address(0) && **(void ***)__builtin_frame_address(0))
		fail("a backtrace does not end at the entry");
	volatile long seed = 1000000;

	take_turns(&there, &here, &seed);
	khost_swap(&there, here);
	fail("a thread that has ended goes on");
	return 0;
}

void khost_thread_main(int (*body)(void *), void *argument)
{
	body(argument);
}

int main(void)
{
	volatile long seed = 1;

	there = khost_first_frame(stack + SIZE, body, &here);
	take_turns(&here, &there, &seed);
	khost_swap(&here, there);
	if (turns != 2 * ROUNDS)
		fail("turns are missing");
	printf("%ld\n", turns);
	return 0;
}
