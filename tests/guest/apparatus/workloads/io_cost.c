// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * io_cost ENGINE direct|buffered|cached|read-ahead read|write KIB DEPTH DEVICE REQUESTS: requests, random
 * but for read-ahead, as fio makes them with this ioengine, and the CPU time of its own that one takes to submit, and to get its
 * result. psync does both in one call: all of it is submission. With a depth of 1 it sleeps until
 * the result is there. Deeper, it submits as many, sleeps elsewhere until all results are there,
 * and then takes them: no interrupt is counted, and no sleep.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WARM_UP		64
#define DEPTH_MAX	64

static int device;
static char *block;
static long block_bytes, blocks;
static bool is_write, in_order;

static long long cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void psync_submit(long offset, long slot)
{
	(void)slot;
	if ((is_write ? pwrite(device, block, block_bytes, offset) :
	     pread(device, block, block_bytes, offset)) != block_bytes)
		die("pread or pwrite");
}

static void psync_complete(void)
{
}

static aio_context_t aio;

static void libaio_submit(long offset, long slot)
{
	static struct iocb all[DEPTH_MAX];
	struct iocb *requests[] = { &all[slot] };

	all[slot] = (struct iocb){ .aio_lio_opcode = is_write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
				 .aio_fildes = device,
				 .aio_buf = (uintptr_t)block, .aio_nbytes = block_bytes,
				 .aio_offset = offset };
	if (syscall(SYS_io_submit, aio, 1, requests) != 1)
		die("io_submit");
}

static void libaio_complete(void)
{
	struct io_event event;

	if (syscall(SYS_io_getevents, aio, 1, 1, &event, NULL) != 1 || event.res != block_bytes)
		die("io_getevents");
}

static int ring;
static unsigned int *sq_tail, *sq_array, *sq_mask, *cq_head, *cq_tail, *cq_mask;
static struct io_uring_sqe *sqes;
static struct io_uring_cqe *cqes;

static void uring_open(void)
{
	/* fio's flags if the kernel has them: work for the task waits for its next call. */
	struct io_uring_params p = { .flags = IORING_SETUP_SINGLE_ISSUER |
					      IORING_SETUP_DEFER_TASKRUN };
	char *sq, *cq;

	ring = syscall(SYS_io_uring_setup, DEPTH_MAX, &p);
	if (ring < 0)
		die("io_uring_setup");
	sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
	cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(*cqes), PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
	sqes = mmap(NULL, p.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || sqes == MAP_FAILED)
		die("mmap");
	sq_tail = (void *)(sq + p.sq_off.tail);
	sq_mask = (void *)(sq + p.sq_off.ring_mask);
	sq_array = (void *)(sq + p.sq_off.array);
	cq_head = (void *)(cq + p.cq_off.head);
	cq_tail = (void *)(cq + p.cq_off.tail);
	cq_mask = (void *)(cq + p.cq_off.ring_mask);
	cqes = (void *)(cq + p.cq_off.cqes);
}

static void uring_submit(long offset, long slot)
{
	unsigned int at = *sq_tail & *sq_mask;

	(void)slot;
	sqes[at] = (struct io_uring_sqe){ .opcode = is_write ? IORING_OP_WRITE : IORING_OP_READ,
					  .fd = device,
					  .addr = (uintptr_t)block, .len = block_bytes,
					  .off = offset };
	sq_array[at] = at;
	__atomic_store_n(sq_tail, *sq_tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) != 1)
		die("io_uring_enter");
}

static void uring_complete(void)
{
	if (__atomic_load_n(cq_tail, __ATOMIC_ACQUIRE) == *cq_head &&
	    syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		die("io_uring_enter");
	if (cqes[*cq_head & *cq_mask].res != block_bytes)
		die("a result of io_uring");
	__atomic_store_n(cq_head, *cq_head + 1, __ATOMIC_RELEASE);
}

static const struct engine {
	const char *name;
	void (*submit)(long offset, long slot);
	void (*complete)(void);
} engines[] = {
	{ "psync", psync_submit, psync_complete },
	{ "libaio", libaio_submit, libaio_complete },
	{ "io_uring", uring_submit, uring_complete },
};

/* Asking for the time takes time, too. */
static long long time_of_clock_ns(void)
{
	long long begin = cpu_ns();

	for (int i = 0; i < 1000; i++)
		cpu_ns();
	return (cpu_ns() - begin) / 1001;
}

/* Each block once: in order, or in steps that share no factor with their number. */
static long offset_of(long i)
{
	return i * (in_order ? 1 : 7919) % blocks * block_bytes;
}

int main(int argc, char **argv)
{
	const struct engine *engine = NULL;
	long long submit_ns = 0, complete_ns = 0, clock_ns;
	long requests, depth;
	bool is_direct, is_hit;

	if (argc != 8)
		goto usage;
	for (size_t i = 0; i < sizeof(engines) / sizeof(*engines); i++)
		if (!strcmp(argv[1], engines[i].name))
			engine = &engines[i];
	is_direct = !strcmp(argv[2], "direct");
	is_hit = !strcmp(argv[2], "cached");
	in_order = !strcmp(argv[2], "read-ahead");
	is_write = !strcmp(argv[3], "write");
	block_bytes = atol(argv[4]) << 10;
	depth = atol(argv[5]);
	requests = atol(argv[7]);
	if (!engine || block_bytes < 4096 || depth < 1 || depth > DEPTH_MAX || requests < depth)
		goto usage;
	/* 256 MiB of the device, and a step that is prime. */
	blocks = (256L << 20) / block_bytes;
	device = open(argv[6], (is_write ? O_WRONLY : O_RDONLY) | (is_direct ? O_DIRECT : 0));
	if (device < 0 || posix_memalign((void **)&block, 4096, block_bytes))
		die(argv[6]);
	memset(block, 1, block_bytes);
	/* As fio does: no read-ahead where it reads at random. */
	posix_fadvise(device, 0, 0, in_order ? POSIX_FADV_SEQUENTIAL : POSIX_FADV_RANDOM);
	if (!strcmp(engine->name, "libaio") && syscall(SYS_io_setup, DEPTH_MAX, &aio))
		die("io_setup");
	if (!strcmp(engine->name, "io_uring"))
		uring_open();
	for (long i = 0; is_hit && i < requests + WARM_UP; i++)
		if (pread(device, block, block_bytes, offset_of(i)) != block_bytes)
			die("pread");
	clock_ns = time_of_clock_ns();
	for (long i = -WARM_UP; i < requests; i += depth) {
		struct timespec until_all_are_there = { .tv_nsec = depth > 1 ? 30000000 : 0 };
		long long begin = cpu_ns(), submitted, completed;

		for (long j = 0; j < depth; j++)
			engine->submit(offset_of(i + WARM_UP + j), j);
		submitted = cpu_ns();
		submit_ns += i < 0 ? 0 : submitted - begin - clock_ns;
		if (until_all_are_there.tv_nsec)
			nanosleep(&until_all_are_there, NULL);
		begin = cpu_ns();
		for (long j = 0; j < depth; j++)
			engine->complete();
		completed = cpu_ns();
		complete_ns += i < 0 ? 0 : completed - begin - clock_ns;
	}
	requests = (requests + depth - 1) / depth * depth;
	printf("%s %s %s %s %s %lld %lld\n", argv[1], argv[2], argv[3], argv[4], argv[5],
	       submit_ns / requests, complete_ns / requests);
	return 0;
usage:
	fprintf(stderr, "usage: io_cost ENGINE direct|buffered|cached|read-ahead read|write KIB DEPTH "
			"DEVICE REQUESTS\n");
	return 2;
}
