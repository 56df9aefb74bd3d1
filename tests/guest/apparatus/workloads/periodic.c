// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * periodic HZ SECONDS: wakes up at a fixed rate and says how late it was.
 *
 * Wake-up times are absolute, so one late wake-up does not move the next ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NSEC_PER_SEC	1000000000LL

static int compare(const void *a, const void *b)
{
	long long x = *(const long long *)a, y = *(const long long *)b;

	return (x > y) - (x < y);
}

static long long to_ns(struct timespec t)
{
	return t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

int main(int argc, char **argv)
{
	double hz = argc == 3 ? atof(argv[1]) : 0, seconds = argc == 3 ? atof(argv[2]) : 0;
	long count = hz * seconds;
	long long start_ns, *late_ns;
	struct timespec now;

	if (count < 1) {
		fprintf(stderr, "usage: periodic HZ SECONDS\n");
		return 2;
	}
	late_ns = calloc(count, sizeof(*late_ns));
	if (!late_ns)
		return 1;

	clock_gettime(CLOCK_MONOTONIC, &now);
	start_ns = to_ns(now);
	for (long i = 0; i < count; i++) {
		long long due_ns = start_ns + (i + 1) * NSEC_PER_SEC / hz;
		struct timespec due = { due_ns / NSEC_PER_SEC, due_ns % NSEC_PER_SEC };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
		late_ns[i] = to_ns(now) - due_ns;
	}

	qsort(late_ns, count, sizeof(*late_ns), compare);
	printf("wakeups %ld late_min_ns %lld late_p50_ns %lld late_p99_ns %lld late_max_ns %lld\n",
	       count, late_ns[0], late_ns[count / 2], late_ns[count * 99 / 100],
	       late_ns[count - 1]);
	return 0;
}
