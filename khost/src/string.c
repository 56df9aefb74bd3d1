// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The compiler calls these if it does not copy or clear inline. */
#include <linux/types.h>

void *khost_alloc(unsigned long size);
void khost_free(const void *memory);
size_t strlen(const char *text);

#ifdef __x86_64__
void *memcpy(void *to, const void *from, size_t len)
{
	void *at = to;

	asm volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(len) : : "memory");
	return to;
}

void *memset(void *memory, int value, size_t len)
{
	void *at = memory;

	asm volatile("rep stosb" : "+D"(at), "+c"(len) : "a"(value) : "memory");
	return memory;
}
#endif

char *kstrdup(const char *text, gfp_t flags)
{
	size_t size = strlen(text) + 1;

	return memcpy(khost_alloc(size), text, size);
}

const char *kstrdup_const(const char *text, gfp_t flags)
{
	return kstrdup(text, flags);
}

void kfree_const(const void *text)
{
	khost_free(text);
}
