// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The compiler calls these if it does not copy or clear inline. */
#include <linux/types.h>

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
