// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * idle_predict [-n THREADS] [-l LOOPS] [-t SLEEP_US] [-s SECONDS]: sleeps alike, then one unlike.
 *
 * Each thread sleeps for SLEEP_US, LOOPS - 1 times, and then for a second: what "x86,idle: Enhance
 * menu governor C-state prediction" (linux-pm, 18 October 2012) was measured with. A governor that
 * sees a pattern in the short sleeps will be wrong about the long one.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PAUSE_US	1000000
#define THREADS_MAX	256

static atomic_int is_over;
static atomic_long sleeps;
static int loops = 20, sleep_us = 500;

static void *sleeper(void *unused)
{
	(void)unused;
	while (!is_over) {
		for (int i = 1; i < loops && !is_over; i++) {
			usleep(sleep_us);
			sleeps++;
		}
		if (!is_over)
			usleep(PAUSE_US);
		sleeps++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int option, threads = 8, seconds = 10;
	pthread_t thread[THREADS_MAX];

	while ((option = getopt(argc, argv, "n:l:t:s:")) != -1) {
		switch (option) {
		case 'n':
			threads = atoi(optarg);
			break;
		case 'l':
			loops = atoi(optarg);
			break;
		case 't':
			sleep_us = atoi(optarg);
			break;
		case 's':
			seconds = atoi(optarg);
			break;
		default:
			return 2;
		}
	}
	if (threads < 1 || threads > THREADS_MAX || loops < 1 || sleep_us < 0 || seconds < 1)
		return 2;

	for (int i = 0; i < threads; i++) {
		if (pthread_create(&thread[i], NULL, sleeper, NULL))
			return 1;
	}
	sleep(seconds);
	is_over = 1;
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	printf("sleeps %ld\n", (long)sleeps);
	return 0;
}
