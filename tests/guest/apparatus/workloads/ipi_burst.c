// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * ipi_burst BURSTS LENGTH GAP_US PAUSE_US: wakes up a thread on each other CPU, LENGTH times with
 * GAP_US between, BURSTS times with PAUSE_US between. Each waking is an interrupt from CPU 0 to a
 * CPU that sleeps, and no timer of that CPU's own says when the next one comes.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CPUS_MAX	256

static sem_t waiting[CPUS_MAX];
static atomic_int is_over;
static atomic_long wakeups;

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *sleeper(void *cpu)
{
	run_on((long)cpu);
	for (;;) {
		sem_wait(&waiting[(long)cpu]);
		if (is_over)
			return NULL;
		wakeups++;
	}
}

int main(int argc, char **argv)
{
	long cpu, cpus = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t thread[CPUS_MAX];
	long n[4] = { };

	for (int i = 0; argc == 5 && i < 4; i++)
		n[i] = atol(argv[i + 1]);
	if (n[0] < 1 || n[1] < 1 || n[2] < 0 || n[3] < 0) {
		fprintf(stderr, "usage: ipi_burst BURSTS LENGTH GAP_US PAUSE_US\n");
		return 2;
	}

	run_on(0);
	for (cpu = 1; cpu < cpus && cpu < CPUS_MAX; cpu++) {
		sem_init(&waiting[cpu], 0, 0);
		if (pthread_create(&thread[cpu], NULL, sleeper, (void *)cpu))
			return 1;
	}
	for (long i = 0; i < n[0] * n[1]; i++) {
		for (cpu = 1; cpu < cpus; cpu++)
			sem_post(&waiting[cpu]);
		usleep((i + 1) % n[1] ? n[2] : n[3]);
	}
	is_over = 1;
	for (cpu = 1; cpu < cpus; cpu++) {
		sem_post(&waiting[cpu]);
		pthread_join(thread[cpu], NULL);
	}
	printf("wakeups %ld\n", (long)wakeups);
	return 0;
}
