// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Functions of the slab and of per-CPU allocation, under all names since release 6.1. It does not
 * use the kernel's headers, which declare those of one release.
 */
typedef unsigned long size_t;
typedef unsigned int gfp_t;

#define KEPT __attribute__((weak))

void *khost_alloc(unsigned long size);
void khost_free(const void *memory);
void *khost_alloc_percpu(size_t size, size_t align);

struct kmem_cache {
	size_t size;
	void (*make)(void *object);
};

/* Indexed by the inline forms of kmalloc(), which only pass the entry on. */
KEPT void *kmalloc_caches[32][32];

KEPT void *__kmalloc(size_t size, gfp_t gfp) { return khost_alloc(size); }
KEPT void *__kmalloc_noprof(size_t size, gfp_t gfp) { return khost_alloc(size); }
KEPT void *kmalloc_large(size_t size, gfp_t gfp) { return khost_alloc(size); }
KEPT void *kmalloc_large_noprof(size_t size, gfp_t gfp) { return khost_alloc(size); }
KEPT void *__kmalloc_large_noprof(size_t size, gfp_t gfp) { return khost_alloc(size); }
KEPT void *__kmalloc_node(size_t size, gfp_t gfp, int node) { return khost_alloc(size); }
KEPT void *kmalloc_trace(void *cache, gfp_t gfp, size_t size) { return khost_alloc(size); }
KEPT void *__kmalloc_cache_noprof(void *cache, gfp_t gfp, size_t size) { return khost_alloc(size); }

KEPT void *__kmalloc_node_noprof(size_t size, gfp_t gfp, int node)
{
	return khost_alloc(size);
}

KEPT void *__kmalloc_node_track_caller_noprof(size_t size, gfp_t gfp, int node, size_t caller)
{
	return khost_alloc(size);
}

KEPT void *__kmalloc_node_track_caller(size_t size, gfp_t gfp, int node, size_t caller)
{
	return khost_alloc(size);
}

KEPT void *kmalloc_node_trace(void *cache, gfp_t gfp, int node, size_t size)
{
	return khost_alloc(size);
}

KEPT void *__kmalloc_cache_node_noprof(void *cache, gfp_t gfp, int node, size_t size)
{
	return khost_alloc(size);
}

KEPT void *__kvmalloc_node_noprof(size_t size, gfp_t gfp, int node)
{
	return khost_alloc(size);
}

KEPT void kfree(const void *memory) { khost_free(memory); }
KEPT void kvfree(const void *memory) { khost_free(memory); }
KEPT void kvfree_atomic(const void *memory) { khost_free(memory); }
KEPT void vfree(const void *memory) { khost_free(memory); }
KEPT void free_pages(void *pages, unsigned int order) { khost_free(pages); }

KEPT void *__get_free_pages(gfp_t gfp, unsigned int order) { return khost_alloc(4096 << order); }
KEPT void *get_free_pages_noprof(gfp_t gfp, unsigned int order)
{
	return khost_alloc(4096 << order);
}

/* Shrinkers, and workqueues; all share the thread of work.c. */
KEPT void *shrinker_alloc(unsigned int flags, const char *fmt, ...) { return khost_alloc(1024); }
KEPT void *alloc_workqueue(const char *fmt, unsigned int flags, int most, ...)
{
	return khost_alloc(1);
}
KEPT void *alloc_workqueue_noprof(const char *fmt, unsigned int flags, int most, ...)
{
	return khost_alloc(1);
}

/* One for all ID allocators: numbers are never reused. */
KEPT int ida_alloc_range(void *allocator, unsigned int least, unsigned int most, gfp_t gfp)
{
	static unsigned int given;

	return least + given++;
}

/* After a grace period. Older releases pass the offset of the head in the object. */
KEPT void kvfree_call_rcu(void *head, void *memory)
{
	khost_free((size_t)memory < 4096 ? (char *)head - (size_t)memory : memory);
}

static struct kmem_cache *cache_of(size_t size, void (*make)(void *object))
{
	struct kmem_cache *cache = khost_alloc(sizeof(*cache));

	cache->size = size;
	cache->make = make;
	return cache;
}

KEPT struct kmem_cache *__kmem_cache_create_args(const char *name, unsigned int size, void *args,
						 unsigned int flags)
{
	return cache_of(size, 0);
}

KEPT struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align,
					  unsigned int flags, void (*make)(void *object))
{
	return cache_of(size, make);
}

static void *cache_alloc(struct kmem_cache *cache)
{
	void *object = khost_alloc(cache->size);

	if (cache->make)
		cache->make(object);
	return object;
}

KEPT void *kmem_cache_alloc(struct kmem_cache *cache, gfp_t gfp)
{
	return cache_alloc(cache);
}

KEPT void *kmem_cache_alloc_noprof(struct kmem_cache *cache, gfp_t gfp)
{
	return cache_alloc(cache);
}

KEPT void *kmem_cache_alloc_node(struct kmem_cache *cache, gfp_t gfp, int node)
{
	return cache_alloc(cache);
}

KEPT void *kmem_cache_alloc_node_noprof(struct kmem_cache *cache, gfp_t gfp, int node)
{
	return cache_alloc(cache);
}

KEPT void kmem_cache_free(struct kmem_cache *cache, void *object) { khost_free(object); }

KEPT void kmem_cache_free_bulk(struct kmem_cache *cache, size_t count, void **objects)
{
	while (count--)
		khost_free(objects[count]);
}

KEPT void *__alloc_percpu(size_t size, size_t align)
{
	return khost_alloc_percpu(size, align);
}

KEPT void *pcpu_alloc_noprof(size_t size, size_t align, _Bool reserved, gfp_t gfp)
{
	return khost_alloc_percpu(size, align);
}

KEPT void free_percpu(void *data) {}
