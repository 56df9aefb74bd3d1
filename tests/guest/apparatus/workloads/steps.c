// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * DOC: steps - a workload of the simulator's as threads of a guest
 *
 *     steps SECONDS THREAD|CHANGE...
 *
 * A thread is NAME:STEP:STEP..., and repeats its steps: rUS computes, sUS sleeps, pUS sleeps until
 * its next period begins, b blocks until somebody wakes it, wNAME wakes another. A thread with cN or
 * cN-M runs on these CPUs alone. NAME@GROUP is in a control group, which is there and threaded.
 *
 * A change is +US:PATH=VALUE, a write to that file so many microseconds after the start, or
 * +US:NAME,MIN,MAX, new clamps of a thread. Changes are in the order of their times.
 * /dev/cpu_dma_latency stays open.
 *
 * An emulator's CPUs are all equally fast at every frequency. So a thread computes until it has had
 * its CPU for long enough, where time on a CPU counts by its capacity and its frequency: as on a
 * machine whose CPUs are as fast as its kernel takes them to be. What it takes to sleep and to wake
 * others is part of that.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SCHED_FLAG_KEEP_ALL
#define SCHED_FLAG_KEEP_ALL 0x18
#define SCHED_FLAG_UTIL_CLAMP 0x60
#endif

#define CPUS_MAX 64
#define STEPS_MAX 16
#define THREADS_MAX 32
#define CHANGES_MAX 16
/* Rounds of the loop between two looks at the clock, and looks between two at the speed. */
#define ROUNDS 500
#define LOOKS 32

struct step {
	char kind;
	double us;
	int other;
};

struct thread {
	char name[16], group[64];
	struct step steps[STEPS_MAX];
	int step_count;
	/* CPUs on which it runs; the first is -1 for all. */
	int first_cpu, last_cpu;
	/* Wake-ups since it last blocked. */
	_Atomic unsigned int woken;
	pid_t tid;
};

struct change {
	double us;
	const char *text;
};

static struct thread threads[THREADS_MAX];
static int thread_count;
static struct change changes[CHANGES_MAX];
static int change_count;
static double end_us;

static struct {
	double capacity, khz_max;
	int khz_file;
} cpus[CPUS_MAX];

static double number_in(const char *format, int cpu, double otherwise)
{
	char path[128];
	double number = otherwise;
	FILE *file;

	snprintf(path, sizeof(path), format, cpu);
	file = fopen(path, "r");
	if (!file)
		return otherwise;
	if (fscanf(file, "%lf", &number) != 1)
		number = otherwise;
	fclose(file);
	return number;
}

static void look_at_cpus(void)
{
	char path[128];

	for (int cpu = 0; cpu < CPUS_MAX; cpu++) {
		cpus[cpu].capacity =
			number_in("/sys/devices/system/cpu/cpu%d/cpu_capacity", cpu, 1024) / 1024;
		cpus[cpu].khz_max =
			number_in("/sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", cpu, 1);
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", cpu);
		cpus[cpu].khz_file = open(path, O_RDONLY);
	}
}

/* Speed of the thread's CPU relative to the fastest. */
static double speed(void)
{
	int cpu = sched_getcpu();
	char text[32] = "";

	if (cpus[cpu].khz_file < 0 || pread(cpus[cpu].khz_file, text, sizeof(text) - 1, 0) <= 0)
		return cpus[cpu].capacity;
	return cpus[cpu].capacity * atof(text) / cpus[cpu].khz_max;
}

static double now_us(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return 1e6 * time.tv_sec + time.tv_nsec / 1e3;
}

/* CPU time as of the last switch or tick, and how often the thread was switched out. */
struct usage {
	double cpu_us;
	long switches;
};

/*
 * Unlike a look at the CPU clock, this does not make the scheduler account the thread's time. That
 * would end its slice, or throttle its group, to the microsecond instead of at the next tick.
 */
static struct usage used(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (struct usage) {
		.cpu_us = 1e6 * (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
			  usage.ru_utime.tv_usec + usage.ru_stime.tv_usec,
		.switches = usage.ru_nvcsw + usage.ru_nivcsw,
	};
}

/*
 * Counts the time between two switches by the clock. What that misses, such as the kernel's and this
 * program's own work since the last call, counts at the first call after a switch.
 */
static void compute(double us)
{
	static _Thread_local double counted_us;
	static _Thread_local long switches;
	struct usage before = used();
	double rate = speed(), last_us = now_us(CLOCK_MONOTONIC);

	if (before.switches != switches) {
		us -= rate * (before.cpu_us - counted_us);
		counted_us = before.cpu_us;
	}
	for (int looks = 1; us > 0; looks++) {
		double time_us;

		if (looks % LOOKS == 0)
			rate = speed();
		for (volatile int rounds = ROUNDS; rounds > 0; rounds--)
			;
		time_us = now_us(CLOCK_MONOTONIC);
		switches = used().switches;
		if (switches == before.switches) {
			us -= rate * (time_us - last_us);
			counted_us += time_us - last_us;
			last_us = time_us;
		} else {
			before.switches = switches;
			last_us = now_us(CLOCK_MONOTONIC);
		}
	}
	switches = before.switches;
}

static void sleep_until(double us)
{
	struct timespec until = { us / 1e6, 0 };

	until.tv_nsec = (us - 1e6 * until.tv_sec) * 1e3;
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static void block(struct thread *self)
{
	while (!atomic_load(&self->woken))
		syscall(SYS_futex, &self->woken, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	atomic_fetch_sub(&self->woken, 1);
}

static void wake(struct thread *other)
{
	atomic_fetch_add(&other->woken, 1);
	syscall(SYS_futex, &other->woken, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void join(const char *group)
{
	char path[128];
	int file;

	snprintf(path, sizeof(path), "/sys/fs/cgroup/%s/cgroup.threads", group);
	file = open(path, O_WRONLY);
	if (file < 0 || write(file, "0", 1) != 1) {
		fprintf(stderr, "steps: %s cannot be written\n", path);
		exit(1);
	}
	close(file);
}

static void *body(void *argument)
{
	struct thread *self = argument;
	double due_us;

	self->tid = gettid();
	if (*self->group)
		join(self->group);
	due_us = now_us(CLOCK_MONOTONIC);
	prctl(PR_SET_NAME, self->name);
	if (self->first_cpu >= 0) {
		cpu_set_t cpus;

		CPU_ZERO(&cpus);
		for (int cpu = self->first_cpu; cpu <= self->last_cpu; cpu++)
			CPU_SET(cpu, &cpus);
		sched_setaffinity(0, sizeof(cpus), &cpus);
	}
	for (int at = 0; now_us(CLOCK_MONOTONIC) < end_us; at = (at + 1) % self->step_count) {
		const struct step *step = &self->steps[at];

		switch (step->kind) {
		case 'r':
			compute(step->us);
			break;
		case 's':
			sleep_until(now_us(CLOCK_MONOTONIC) + step->us);
			break;
		case 'p':
			due_us += step->us;
			sleep_until(due_us);
			break;
		case 'b':
			block(self);
			break;
		case 'w':
			wake(&threads[step->other]);
			break;
		}
	}
	return NULL;
}

static int by_name(const char *name)
{
	for (int n = 0; n < thread_count; n++) {
		if (!strcmp(threads[n].name, name))
			return n;
	}
	fprintf(stderr, "steps: no thread %s\n", name);
	exit(2);
}

static void read_steps(struct thread *thread, char *text)
{
	char *word;

	strsep(&text, ":");
	thread->first_cpu = -1;
	while ((word = strsep(&text, ":"))) {
		struct step *step;

		if (*word == 'c') {
			if (sscanf(word + 1, "%d-%d", &thread->first_cpu, &thread->last_cpu) == 1)
				thread->last_cpu = thread->first_cpu;
			continue;
		}
		step = &thread->steps[thread->step_count++];
		if (thread->step_count > STEPS_MAX || !strchr("rspbw", *word)) {
			fprintf(stderr, "steps: %s: no step, or one too many\n", word);
			exit(2);
		}
		step->kind = *word;
		if (*word == 'w')
			step->other = by_name(word + 1);
		else
			step->us = atof(word + 1);
	}
}

static void clamp(const char *text)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
		uint32_t util_min, util_max;
	} attr = {
		.size = sizeof(attr),
		.flags = SCHED_FLAG_KEEP_ALL | SCHED_FLAG_UTIL_CLAMP,
	};
	char name[16];

	if (sscanf(text, "%15[^,],%u,%u", name, &attr.util_min, &attr.util_max) != 3 ||
	    syscall(SYS_sched_setattr, threads[by_name(name)].tid, &attr, 0)) {
		fprintf(stderr, "steps: %s: no clamps\n", text);
		exit(1);
	}
}

static void make(const struct change *change)
{
	static int latency_file = -1;
	const char *value = strchr(change->text, '=');
	char path[128];
	int latency_us, file, written;

	if (!value) {
		clamp(change->text);
		return;
	}
	snprintf(path, sizeof(path), "%.*s", (int)(value++ - change->text), change->text);
	if (!strcmp(path, "/dev/cpu_dma_latency")) {
		if (latency_file < 0)
			latency_file = open(path, O_WRONLY);
		latency_us = atoi(value);
		written = write(latency_file, &latency_us, sizeof(latency_us));
	} else {
		file = open(path, O_WRONLY);
		written = write(file, value, strlen(value));
		close(file);
	}
	if (written < 0) {
		fprintf(stderr, "steps: %s: %m\n", change->text);
		exit(1);
	}
}

static void read_changes(int count, char **words)
{
	change_count = count;
	if (count > CHANGES_MAX) {
		fprintf(stderr, "steps: too many changes\n");
		exit(2);
	}
	for (int n = 0; n < count; n++) {
		const char *text = strchr(words[n], ':');

		if (!text) {
			fprintf(stderr, "steps: %s: no change\n", words[n]);
			exit(2);
		}
		changes[n] = (struct change) { .us = atof(words[n] + 1), .text = text + 1 };
	}
}

int main(int count, char **words)
{
	pthread_t started[THREADS_MAX];
	double begin_us;

	while (thread_count < count - 2 && *words[thread_count + 2] != '+')
		thread_count++;
	if (thread_count < 1 || thread_count > THREADS_MAX) {
		fprintf(stderr, "steps SECONDS THREAD|CHANGE...\n");
		return 2;
	}
	for (int n = 0; n < thread_count; n++)
		sscanf(words[n + 2], "%15[^:@]@%63[^:]", threads[n].name, threads[n].group);
	for (int n = 0; n < thread_count; n++)
		read_steps(&threads[n], words[n + 2]);
	read_changes(count - 2 - thread_count, words + 2 + thread_count);
	look_at_cpus();
	/* Utilization is forgotten, and frequencies are down. */
	sleep(1);
	begin_us = now_us(CLOCK_MONOTONIC);
	end_us = begin_us + 1e6 * atof(words[1]);
	for (int n = 0; n < thread_count; n++)
		pthread_create(&started[n], NULL, body, &threads[n]);
	for (int n = 0; n < change_count; n++) {
		sleep_until(begin_us + changes[n].us);
		make(&changes[n]);
	}
	/* One that waits for another may wait for ever now. */
	sleep_until(end_us);
	return 0;
}
