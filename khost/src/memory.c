// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Memory: powers of two out of what the simulator gives, back to a list for each size. Zeroed, so
 * that no run depends on what was there before. Without the slab's headers: its functions change
 * their names from release to release.
 */
#include <linux/log2.h>
#include <linux/sched.h>
#include <linux/percpu.h>
#include <linux/string.h>
#include "host.h"

#define SMALLEST 5
#define CHUNK_SIZE (256UL << 10)

/* Before each piece; 16 bytes, so that what follows is aligned for anything. */
struct piece {
	unsigned long order;
	struct piece *next;
};

static struct piece *freed[BITS_PER_LONG];
static char *chunk, *chunk_end;

void *khost_alloc_pages(unsigned long size)
{
	void *pages = khost_host->allocate(khost_host->context, size);

	if (!pages)
		khost_trouble(KHOST_PANIC, "no memory: %lu bytes are not to be had", size);
	return pages;
}

void *khost_alloc(unsigned long size)
{
	unsigned long whole = max(size + sizeof(struct piece), 1UL << SMALLEST);
	unsigned int order = order_base_2(whole);
	struct piece *piece = freed[order];

	if (piece) {
		freed[order] = piece->next;
		memset(piece + 1, 0, (1UL << order) - sizeof(*piece));
	} else if (1UL << order > CHUNK_SIZE) {
		piece = khost_alloc_pages(1UL << order);
	} else {
		if (chunk_end - chunk < 1L << order) {
			chunk = khost_alloc_pages(CHUNK_SIZE);
			chunk_end = chunk + CHUNK_SIZE;
		}
		piece = (struct piece *)chunk;
		chunk += 1UL << order;
	}
	piece->order = order;
	return piece + 1;
}

void khost_free(const void *memory)
{
	struct piece *piece = (struct piece *)memory - 1;

	if ((unsigned long)memory <= 16)
		return;
	piece->next = freed[piece->order];
	freed[piece->order] = piece;
}

/* Data of each CPU: a copy of the image's section, and room for what is allocated later. */

#define DYNAMIC_SIZE (64UL << 10)

extern char __per_cpu_start[], __per_cpu_end[];

unsigned long __per_cpu_offset[NR_CPUS];
static unsigned long dynamic_used;

static unsigned long static_size(void)
{
	return ALIGN(__per_cpu_end - __per_cpu_start, SMP_CACHE_BYTES);
}

void khost_setup_percpu(unsigned int cpus)
{
	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		char *area = khost_alloc_pages(static_size() + DYNAMIC_SIZE);

		memcpy(area, __per_cpu_start, __per_cpu_end - __per_cpu_start);
		__per_cpu_offset[cpu] = area - __per_cpu_start;
	}
	khost_percpu_offset = __per_cpu_offset[0];
}

void *khost_alloc_percpu(size_t size, size_t align)
{
	unsigned long at = ALIGN(dynamic_used, max(align, (size_t)8));

	if (at + size > DYNAMIC_SIZE)
		khost_trouble(KHOST_PANIC, "no memory: more than %lu bytes for each CPU",
			      DYNAMIC_SIZE);
	dynamic_used = at + size;
	return __per_cpu_start + static_size() + at;
}
