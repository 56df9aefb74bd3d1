// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Memory: blocks of whole cache lines from the simulator, with a free list for each size. It is
 * zeroed, so that no run depends on earlier contents. It does not use the slab's headers, whose
 * functions change names between releases.
 */
#include <linux/sched.h>
#include <linux/percpu.h>
#include <linux/string.h>
#include "host.h"

#define LINE 64UL
#define LINES_MAX 1024
#define CHUNK_SIZE (256UL << 10)

/* Header of each block; 16 bytes, so that the block is aligned for any type. */
struct piece {
	unsigned long lines;
	struct piece *next;
};

static struct piece *freed[LINES_MAX];
static char *chunk, *chunk_end;

/*
 * Round up to an odd number of lines, so that one member of many objects does not always use the
 * same set of the host's caches. With even numbers, thousands of tasks would share a few sets.
 */
static unsigned long lines_of(unsigned long size)
{
	return DIV_ROUND_UP(size, LINE) | 1;
}

void *khost_alloc_pages(unsigned long size)
{
	void *pages = khost_host->allocate(khost_host->context, size);

	if (!pages)
		khost_trouble(KHOST_PANIC, "no memory: %lu bytes are not to be had", size);
	return pages;
}

void *khost_alloc_stack(void)
{
	void *stack = khost_host->allocate_stack(khost_host->context, KHOST_STACK_SIZE);

	if (!stack)
		khost_trouble(KHOST_PANIC, "no memory for a stack");
	return stack;
}

void *khost_alloc(unsigned long size)
{
	unsigned long lines = lines_of(size + sizeof(struct piece));
	struct piece *piece;

	if (lines >= LINES_MAX) {
		piece = khost_alloc_pages(lines * LINE);
	} else if (freed[lines]) {
		piece = freed[lines];
		freed[lines] = piece->next;
		memset(piece + 1, 0, lines * LINE - sizeof(*piece));
	} else {
		if (chunk_end - chunk < lines * LINE) {
			chunk = khost_alloc_pages(CHUNK_SIZE);
			chunk_end = chunk + CHUNK_SIZE;
		}
		piece = (struct piece *)chunk;
		chunk += lines * LINE;
	}
	piece->lines = lines;
	return piece + 1;
}

void khost_free(const void *memory)
{
	struct piece *piece = (struct piece *)memory - 1;

	if ((unsigned long)memory <= 16)
		return;
	/* Larger blocks are allocated during the start and are never freed. */
	if (piece->lines >= LINES_MAX)
		return;
	piece->next = freed[piece->lines];
	freed[piece->lines] = piece;
}

/* Per-CPU data: a copy of the image's section, and space for later allocations. */

/* Some is needed for each other CPU: the kernel has a call_single_data_t for every pair. */
#define DYNAMIC_SIZE (16UL << 10)
#define DYNAMIC_SIZE_PER_CPU 48UL

extern char __per_cpu_start[], __per_cpu_end[];

unsigned long __per_cpu_offset[NR_CPUS];
static unsigned long dynamic_size, dynamic_used;

static unsigned long static_size(void)
{
	return ALIGN(__per_cpu_end - __per_cpu_start, SMP_CACHE_BYTES);
}

void khost_setup_percpu(unsigned int cpus)
{
	unsigned long size;
	char *areas;

	dynamic_size = DYNAMIC_SIZE + DYNAMIC_SIZE_PER_CPU * cpus;
	size = lines_of(static_size() + dynamic_size) * LINE;
	areas = khost_alloc_pages(size * cpus);
	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		char *area = areas + size * cpu;

		memcpy(area, __per_cpu_start, __per_cpu_end - __per_cpu_start);
		__per_cpu_offset[cpu] = area - __per_cpu_start;
	}
	khost_percpu_offset = __per_cpu_offset[0];
}

void *khost_alloc_percpu(size_t size, size_t align)
{
	unsigned long at = ALIGN(dynamic_used, max(align, (size_t)8));

	if (at + size > dynamic_size)
		khost_trouble(KHOST_PANIC, "no memory: more than %lu bytes for each CPU",
			      dynamic_size);
	dynamic_used = at + size;
	return __per_cpu_start + static_size() + at;
}
