// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * A governor as a program: answers each byte on stdin with one on stdout, after making the calls
 * that the shared block describes. The checker explains a crash of the program.
 */
#define _GNU_SOURCE
#include "block.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static unsigned long long clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

#ifdef __x86_64__
/* Finer than the system's clock, which moves in steps of ten or more on some machines. */
static double ns_per_tick;

static void calibrate(void)
{
	unsigned long long start_ns = clock_ns(), start = __builtin_ia32_rdtsc(), now_ns;

	do {
		now_ns = clock_ns();
	} while (now_ns - start_ns < 3000000);
	ns_per_tick = (double)(now_ns - start_ns) / (__builtin_ia32_rdtsc() - start);
}

unsigned long long driver_clock_ns(void)
{
	return __builtin_ia32_rdtsc() * ns_per_tick;
}
#else
static void calibrate(void)
{
}

unsigned long long driver_clock_ns(void)
{
	return clock_ns();
}
#endif

void *driver_memory(unsigned long size)
{
	void *memory = calloc(1, size);

	if (!memory) {
		fputs("no memory\n", stderr);
		_exit(2);
	}
	return memory;
}

void driver_exit(void)
{
	_exit(3);
}

/* CPU time, not wall time: a busy machine makes no governor endless. */
static void limit_cpu_ms(unsigned int ms)
{
	struct itimerval timer = { { 0, 0 }, { ms / 1000, ms % 1000 * 1000 } };

	setitimer(ITIMER_PROF, &timer, NULL);
}

/* Returns the least time between two readings of the clock. */
static unsigned int timer_ns(void)
{
	unsigned long long least_ns = ~0ULL;

	calibrate();
	for (int i = 0; i < 1000; i++) {
		unsigned long long start_ns = driver_clock_ns(), took_ns;

		took_ns = driver_clock_ns() - start_ns;
		if (took_ns < least_ns)
			least_ns = took_ns;
	}
	return least_ns;
}

/* AddressSanitizer calls this: its report may take the time it needs to find names for addresses. */
void __asan_on_error(void);
void __asan_on_error(void)
{
	limit_cpu_ms(0);
}

static void run_limited(struct block *block)
{
	limit_cpu_ms(block->cpu_limit_ms);
	calls_run(block);
	limit_cpu_ms(0);
}

static void run(struct block *block)
{
	pid_t child;

	block->wait_status = 0;
	if (!block->is_isolated) {
		run_limited(block);
		return;
	}
	child = fork();
	if (child < 0) {
		perror("fork");
		_exit(2);
	}
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_limited(block);
		_exit(0);
	}
	while (waitpid(child, &block->wait_status, 0) < 0)
		;
}

int main(int argc, char **argv)
{
	struct block *block;
	char byte;

	if (argc != 3)
		return 2;
	block = mmap(NULL, sizeof(*block), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[1]), 0);
	if (block == MAP_FAILED) {
		perror("mmap");
		return 2;
	}
	if (block->abi != BLOCK_ABI || block->size != sizeof(*block)) {
		fprintf(stderr, "the driver's block has %zu bytes\n", sizeof(*block));
		return 2;
	}
	limit_cpu_ms(block->cpu_limit_ms);
	if (calls_start(block, argv[2]) != 0)
		return 4;
	limit_cpu_ms(0);
	block->timer_ns = timer_ns();
	do {
		if (write(1, "", 1) != 1)
			return 2;
	} while (read(0, &byte, 1) == 1 && (run(block), 1));
	/* Memory that statics still point to is no leak. */
	_exit(0);
}
