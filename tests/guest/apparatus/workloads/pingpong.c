// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * pingpong ROUNDS [THINK_US]: two processes, on CPUs 0 and 1 if there are two, send a byte to and
 * fro over pipes. With THINK_US, each works for as long before it answers, while the other sleeps.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void think(long long ns)
{
	long long until_ns = now_ns() + ns;

	while (now_ns() < until_ns)
		;
}

static int play(int in, int out, long rounds, long long think_ns)
{
	char ball;

	for (long i = 0; i < rounds; i++) {
		if (read(in, &ball, 1) != 1)
			return 1;
		think(think_ns);
		if (write(out, &ball, 1) != 1)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 0;
	long long begin_ns, think_ns = argc > 2 ? atol(argv[2]) * 1000LL : 0;
	int to[2], fro[2], failed, status;
	pid_t child;

	if (rounds < 1) {
		fprintf(stderr, "usage: pingpong ROUNDS [THINK_US]\n");
		return 2;
	}
	if (pipe(to) || pipe(fro))
		return 1;
	child = fork();
	if (child < 0)
		return 1;
	run_on(child ? 0 : 1);
	if (!child)
		_exit(play(to[0], fro[1], rounds, think_ns));

	begin_ns = now_ns();
	failed = write(to[1], "o", 1) != 1 || play(fro[0], to[1], rounds - 1, think_ns) ||
		 read(fro[0], &(char){ 0 }, 1) != 1;
	printf("rounds %ld round_ns %lld\n", rounds, (now_ns() - begin_ns) / rounds);
	waitpid(child, &status, 0);
	return failed || status;
}
