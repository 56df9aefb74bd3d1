/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_MATH64_H
#define _KAPI_LINUX_MATH64_H

#include <linux/math.h>

static inline u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}

static inline u64 div_u64_rem(u64 dividend, u32 divisor, u32 *remainder)
{
	*remainder = dividend % divisor;
	return dividend / divisor;
}

static inline s64 div_s64(s64 dividend, s32 divisor)
{
	return dividend / divisor;
}

static inline s64 div_s64_rem(s64 dividend, s32 divisor, s32 *remainder)
{
	*remainder = dividend % divisor;
	return dividend / divisor;
}

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}

static inline u64 div64_u64_rem(u64 dividend, u64 divisor, u64 *remainder)
{
	*remainder = dividend % divisor;
	return dividend / divisor;
}

static inline s64 div64_s64(s64 dividend, s64 divisor)
{
	return dividend / divisor;
}

#define div64_ul(x, y)	div64_u64((x), (y))
#define div64_long(x, y) div64_s64((x), (y))

/* Divides in place; returns the remainder. */
#define do_div(n, base) ({			\
	u32 _do_div_base = (base);		\
	u32 _do_div_rem = (u64)(n) % _do_div_base; \
	(n) = (u64)(n) / _do_div_base;		\
	_do_div_rem; })

#define DIV64_U64_ROUND_UP(n, d) ({		\
	u64 _dru_d = (d);			\
	div64_u64((n) + _dru_d - 1, _dru_d); })
#define DIV64_U64_ROUND_CLOSEST(n, d) ({	\
	u64 _drc64_d = (d);			\
	div64_u64((n) + _drc64_d / 2, _drc64_d); })
#define DIV_U64_ROUND_CLOSEST(n, d) ({		\
	u32 _drcu_d = (d);			\
	div_u64((n) + _drcu_d / 2, _drcu_d); })

static inline u64 mul_u32_u32(u32 a, u32 b)
{
	return (u64)a * b;
}

static inline u64 mul_u64_u32_shr(u64 a, u32 mul, unsigned int shift)
{
	return (u64)(((unsigned __int128)a * mul) >> shift);
}

static inline u64 mul_u64_u64_shr(u64 a, u64 mul, unsigned int shift)
{
	return (u64)(((unsigned __int128)a * mul) >> shift);
}

#endif /* _KAPI_LINUX_MATH64_H */
