/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_KSTRTOX_H
#define _KAPI_LINUX_KSTRTOX_H

#include <linux/errno.h>
#include <linux/limits.h>
#include <linux/types.h>

/*
 * The whole text must be the number, except a newline at its end; with base 0 the prefix decides.
 */
static inline int kstrtoull(const char *text, unsigned int base, unsigned long long *result)
{
	unsigned long long value = 0;
	const char *start;

	text += *text == '+';
	if ((base == 0 || base == 16) && text[0] == '0' && (text[1] | 32) == 'x') {
		base = 16;
		text += 2;
	} else if (base == 0) {
		base = *text == '0' ? 8 : 10;
	}
	for (start = text; *text && *text != '\n'; text++) {
		unsigned int digit = *text - '0';

		if (digit > 9) {
			digit = (*text | 32) - 'a';
			digit = digit < 26 ? digit + 10 : 36;
		}
		if (digit >= base)
			return -EINVAL;
		if (__builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return -ERANGE;
	}
	if (text == start || (*text == '\n' && text[1]))
		return -EINVAL;
	*result = value;
	return 0;
}

static inline int kstrtou64(const char *text, unsigned int base, u64 *result)
{
	return kstrtoull(text, base, result);
}

static inline int kstrtouint(const char *text, unsigned int base, unsigned int *result)
{
	unsigned long long value;
	int ret = kstrtoull(text, base, &value);

	if (ret)
		return ret;
	if (value > UINT_MAX)
		return -ERANGE;
	*result = value;
	return 0;
}

#endif /* _KAPI_LINUX_KSTRTOX_H */
