// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * disk_reader DEVICE READS [THINK_US]: reads blocks past the page cache, one at a time, and sleeps
 * in IO wait for each.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_BYTES	4096
/* Stay within even a small device. */
#define BLOCKS		1024

static long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	long reads = argc > 2 ? atol(argv[2]) : 0, think_us = argc > 3 ? atol(argv[3]) : 0;
	long long begin_ns, waited_ns = 0;
	void *block;
	int device;

	if (reads < 1) {
		fprintf(stderr, "usage: disk_reader DEVICE READS [THINK_US]\n");
		return 2;
	}
	device = open(argv[1], O_RDONLY | O_DIRECT);
	if (device < 0 || posix_memalign(&block, BLOCK_BYTES, BLOCK_BYTES)) {
		perror(argv[1]);
		return 1;
	}
	for (long i = 0; i < reads; i++) {
		begin_ns = now_ns();
		/* A stride that is prime to their number visits all blocks, out of order. */
		if (pread(device, block, BLOCK_BYTES, i * 37 % BLOCKS * BLOCK_BYTES) != BLOCK_BYTES) {
			perror(argv[1]);
			return 1;
		}
		waited_ns += now_ns() - begin_ns;
		if (think_us)
			usleep(think_us);
	}
	printf("reads %ld read_ns %lld\n", reads, waited_ns / reads);
	return 0;
}
