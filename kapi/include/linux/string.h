/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_STRING_H
#define _KAPI_LINUX_STRING_H

#include <linux/array_size.h>
#include <linux/errno.h>
#include <linux/stddef.h>
#include <linux/types.h>

void *memset(void *dst, int byte, size_t count);
void *memcpy(void *dst, const void *src, size_t count);
void *memmove(void *dst, const void *src, size_t count);
int memcmp(const void *a, const void *b, size_t count);
size_t strlen(const char *s);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t count);

/* Compares texts without a final newline, which `echo` writes. */
static inline bool sysfs_streq(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	if (*a == '\n' && !a[1])
		a++;
	if (*b == '\n' && !b[1])
		b++;
	return !*a && !*b;
}

/* Returns the index of the text in @array; @n is the length, or -1 for one that ends with NULL. */
static inline int __sysfs_match_string(const char * const *array, size_t n, const char *text)
{
	for (size_t i = 0; i < n && array[i]; i++) {
		if (sysfs_streq(array[i], text))
			return i;
	}
	return -EINVAL;
}

#define sysfs_match_string(array, text)	__sysfs_match_string(array, ARRAY_SIZE(array), text)

#endif /* _KAPI_LINUX_STRING_H */
