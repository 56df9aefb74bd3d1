/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_BITOPS_H
#define _KAPI_LINUX_BITOPS_H

#include <linux/bits.h>
#include <linux/compiler.h>

/* fls() counts from 1 and returns 0 for 0; the double-underscore forms count from 0. */
static __always_inline int fls(unsigned int x)
{
	return x ? 32 - __builtin_clz(x) : 0;
}

static __always_inline int fls64(u64 x)
{
	return x ? 64 - __builtin_clzll(x) : 0;
}

static __always_inline unsigned int fls_long(unsigned long x)
{
	return fls64(x);
}

static __always_inline int ffs(int x)
{
	return __builtin_ffs(x);
}

static __always_inline unsigned long __fls(unsigned long x)
{
	return 63 - __builtin_clzl(x);
}

static __always_inline unsigned long __ffs(unsigned long x)
{
	return __builtin_ctzl(x);
}

/* Portable: the compiler's builtin can call a helper that a kernel does not have. */
static inline unsigned int hweight64(u64 x)
{
	unsigned int count = 0;

	for (; x; x &= x - 1)
		count++;
	return count;
}

static inline unsigned int hweight32(u32 x)
{
	return hweight64(x);
}

static inline unsigned int hweight_long(unsigned long x)
{
	return hweight64(x);
}

static inline void __set_bit(unsigned int n, unsigned long *map)
{
	map[BIT_WORD(n)] |= BIT_MASK(n);
}

static inline void __clear_bit(unsigned int n, unsigned long *map)
{
	map[BIT_WORD(n)] &= ~BIT_MASK(n);
}

static inline bool test_bit(unsigned int n, const unsigned long *map)
{
	return map[BIT_WORD(n)] & BIT_MASK(n);
}

#define set_bit(n, map)		__set_bit(n, map)
#define clear_bit(n, map)	__clear_bit(n, map)

#endif /* _KAPI_LINUX_BITOPS_H */
