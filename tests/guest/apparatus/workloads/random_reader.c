// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * random_reader DEVICE THREADS SECONDS: in each thread reads random blocks past the page cache, one
 * at a time, as fio does with ioengine=psync, rw=randread and direct=1. Says how many a second, and
 * how long each kept a CPU at full speed.
 *
 * An emulated CPU is always as fast. Where CPUs have frequencies and capacities each thread makes
 * up for it: after a read it keeps its CPU for as much longer as the CPU that it is on would have
 * taken longer, at the frequency asked for, for all that the thread has done since the last read.
 * Interrupt handlers are not made to last longer.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_BYTES	4096
/* Stay within even a small device. */
#define BLOCKS		1024
#define CPUS_MAX	64
#define THREADS_MAX	64
#define CAPACITY_FULL	1024

/* Capacity of a CPU, and the file of its frequency; 0 and -1 without them. */
static struct cpu {
	long capacity, khz_max;
	int khz_now;
} cpus[CPUS_MAX];

struct reader {
	pthread_t thread;
	uint64_t random;
	long reads;
	long long cpu_ns;
};

static int device;
static long long end_ns;

static long long clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int open_of_cpu(int cpu, const char *name)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/%s", cpu, name);
	return open(path, O_RDONLY);
}

/* The number in a file of sysfs, or 0. */
static long number(int file)
{
	char text[32];
	ssize_t length = file < 0 ? -1 : pread(file, text, sizeof(text) - 1, 0);

	if (length < 0)
		return 0;
	text[length] = 0;
	return atol(text);
}

static void look_at_cpus(void)
{
	for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
		int capacity = open_of_cpu(cpu, "cpu_capacity");
		int khz_max = open_of_cpu(cpu, "cpufreq/cpuinfo_max_freq");

		cpus[cpu].capacity = number(capacity);
		cpus[cpu].khz_max = number(khz_max);
		cpus[cpu].khz_now = open_of_cpu(cpu, "cpufreq/scaling_cur_freq");
		close(capacity);
		close(khz_max);
	}
}

/* Slowdown of the CPU relative to the fastest one at its highest frequency. */
static double slowness(const struct cpu *cpu)
{
	long khz = number(cpu->khz_now);

	if (!khz || !cpu->khz_max || !cpu->capacity)
		return 1;
	return (double)CAPACITY_FULL / cpu->capacity * cpu->khz_max / khz;
}

static void *read_blocks(void *argument)
{
	struct reader *reader = argument;
	long long begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID), took_ns, until_ns;
	void *block;

	if (posix_memalign(&block, BLOCK_BYTES, BLOCK_BYTES))
		exit(1);
	while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
		double times;

		/* xorshift64 */
		reader->random ^= reader->random << 13;
		reader->random ^= reader->random >> 7;
		reader->random ^= reader->random << 17;
		if (pread(device, block, BLOCK_BYTES, reader->random % BLOCKS * BLOCK_BYTES) !=
		    BLOCK_BYTES) {
			perror("pread");
			exit(1);
		}
		reader->reads++;
		times = slowness(&cpus[sched_getcpu()]);
		took_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
		reader->cpu_ns += took_ns;
		until_ns = begin_ns + took_ns * times;
		do
			begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		while (begin_ns < until_ns);
	}
	free(block);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct reader readers[THREADS_MAX];
	int threads = argc == 4 ? atoi(argv[2]) : 0;
	double seconds = argc == 4 ? atof(argv[3]) : 0;
	long long reads = 0, cpu_ns = 0;

	if (threads < 1 || threads > THREADS_MAX || seconds <= 0) {
		fprintf(stderr, "usage: random_reader DEVICE THREADS SECONDS\n");
		return 2;
	}
	device = open(argv[1], O_RDONLY | O_DIRECT);
	if (device < 0) {
		perror(argv[1]);
		return 1;
	}
	look_at_cpus();
	end_ns = clock_ns(CLOCK_MONOTONIC) + seconds * 1e9;
	for (int i = 0; i < threads; i++) {
		readers[i].random = i + 1;
		if (pthread_create(&readers[i].thread, NULL, read_blocks, &readers[i])) {
			fprintf(stderr, "no thread\n");
			return 1;
		}
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(readers[i].thread, NULL);
		reads += readers[i].reads;
		cpu_ns += readers[i].cpu_ns;
	}
	printf("iops %.0f cpu_ns %lld\n", reads / seconds, cpu_ns / reads);
	return 0;
}
