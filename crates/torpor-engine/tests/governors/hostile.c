// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Idea: attacks its own process.
 *
 * @how selects the attack, @from the first decision that makes it; 0 is the initcall. No attack
 * touches a process that it has not started itself.
 */
#include <linux/cpuidle.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/string.h>

static unsigned int how;
module_param(how, uint, 0444);
static unsigned int from = 100;
module_param(from, uint, 0444);

static unsigned int decisions;
static char big[1 << 20];

#ifdef __x86_64__
#define SYS(x86, arm)	(x86)

static noinline long call(long number, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall" : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}
#else
#define SYS(x86, arm)	(arm)

static noinline long call(long number, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c, x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}
#endif

static long self(void)
{
	return call(SYS(39, 172), 0, 0, 0, 0);
}

static void raise(int signal)
{
	call(SYS(62, 129), self(), signal, 0, 0);
}

/* Writes past its frame, as a buffer overflow on the stack does. */
static noinline int smash(long bytes)
{
	volatile char buffer[16];

	for (long i = 0; i < bytes; i++)
		buffer[i] = 0x5a;
	return buffer[3] & 1;
}

static noinline int recurse(volatile int *depth)
{
	volatile int deeper = *depth + 1;

	return recurse(&deeper) + deeper;
}

static long fork_here(void)
{
	/* clone(SIGCHLD): fork() on every architecture. */
	return call(SYS(56, 220), 17, 0, 0, 0);
}

static int misbehave(void)
{
	volatile int zero = 0;
	long all = ~0L;

	switch (how) {
	case 1:
		*(volatile int *)(long)zero = 1;
		break;
	case 2:
		for (;;)
			barrier();
	case 3:
		return recurse(&zero);
	case 4:
		return smash(300);
	case 5:
		return smash(64 << 10);
	case 6:
		call(SYS(231, 94), 0, 0, 0, 0);
		break;
	case 7:
		call(SYS(231, 94), 7, 0, 0, 0);
		break;
	case 8:
		raise(9);
		break;
	case 9:
		raise(6);
		break;
	case 10:
		raise(19);
		break;
	case 11:
		raise(15);
		break;
	case 12:
		for (int fd = 0; fd < 4096 && decisions == from; fd++)
			call(SYS(3, 57), fd, 0, 0, 0);
		break;
	case 13:
		if (decisions == from && fork_here() == 0)
			for (;;)
				barrier();
		break;
	case 14:
		call(SYS(1, 64), 1, (long)"\nNOISE\n", 7, 0);
		call(SYS(1, 64), 2, (long)"\nNOISE\n", 7, 0);
		break;
	case 15:
		/* Blocks every signal and never returns. */
		call(SYS(14, 135), 0, (long)&all, 0, 8);
		for (;;)
			barrier();
	case 16:
		/* Sleeps for ever: it uses no CPU time. */
		for (;;)
			call(SYS(270, 72), 0, 0, 0, 0);
	case 17: {
		void *place[5] = { (void *)&zero, (void *)&zero, (void *)&zero };

		__builtin_longjmp(place, 1);
	}
	case 18:
		/* Everything that is mapped. */
		call(SYS(11, 215), 1 << 16, (1L << 47) - (1 << 17), 0, 0);
		break;
	case 19: {
		const char *const argv[] = { "true", NULL };

		call(SYS(59, 221), (long)"/bin/true", (long)argv, 0, 0);
		break;
	}
	case 20: {
		unsigned long limit[2] = { 0, 0 };

		call(SYS(160, 164), 0, (long)limit, 0, 0);
		for (;;)
			barrier();
	}
	case 21:
		return 100 / zero;
	case 22:
		__builtin_trap();
	case 23:
		return 1000;
	case 24:
		return -1;
	case 25:
		BUG();
	case 26:
		WARN_ON(1);
		break;
	case 27:
		*(volatile char *)(void *)smash = 0;
		break;
	case 28:
		((void (*)(void))(long)zero)();
		break;
	case 29: {
		/* Removes its handler. */
		unsigned long action[4] = { 0, 0, 0, 0 };

		call(SYS(13, 134), 11, (long)action, 0, 8);
		*(volatile int *)(long)zero = 1;
		break;
	}
	case 30: {
		/* Removes the stack for handlers. */
		struct { void *sp; int flags; size_t size; } none = { NULL, 2, 0 };

		call(SYS(131, 132), (long)&none, 0, 0, 0);
		return recurse(&zero);
	}
	case 31:
		for (unsigned long i = 0; i < sizeof(big) && decisions == from; i += 64)
			((volatile char *)big)[i] = i;
		break;
	case 32:
		((volatile char *)big)[64L << 20] = 1;
		break;
	case 33:
		return smash(40);
	case 34:
		/* Ends only the thread. */
		call(SYS(60, 93), 0, 0, 0, 0);
		break;
	case 35:
		/* Each decision starts a process; none ends. */
		if (decisions < from + 20 && fork_here() == 0)
			for (;;)
				call(SYS(270, 72), 0, 0, 0, 0);
		break;
	case 36:
		raise(17);
		break;
	}
	return 0;
}

static int hostile_select(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop_tick)
{
	*stop_tick = false;
	return ++decisions >= from ? misbehave() : 0;
}

static struct cpuidle_governor hostile_governor = {
	.name = "hostile",
	.rating = 1,
	.select = hostile_select,
};

static int __init hostile_init(void)
{
	if (!from)
		misbehave();
	return cpuidle_register_governor(&hostile_governor);
}
postcore_initcall(hostile_init);
