/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_MATH_H
#define _KAPI_LINUX_MATH_H

#include <linux/types.h>

#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define DIV_ROUND_DOWN_ULL(n, d) ((unsigned long long)(n) / (d))
#define DIV_ROUND_UP_ULL(n, d)	DIV_ROUND_DOWN_ULL((unsigned long long)(n) + (d) - 1, (d))
#define round_up(x, y)		((((x) - 1) | ((__typeof__(x))((y) - 1))) + 1)
#define round_down(x, y)	((x) & ~((__typeof__(x))((y) - 1)))
#define roundup(x, y)		(DIV_ROUND_UP(x, y) * (y))
#define rounddown(x, y)		((x) - (x) % (y))

/* Rounds half away from zero for signed operands, half up for unsigned ones. */
#define DIV_ROUND_CLOSEST(x, d) ({					\
	__typeof__(x) _drc_x = (x);					\
	__typeof__(d) _drc_d = (d);					\
	((__typeof__(x))-1 > 0 || (__typeof__(d))-1 > 0 ||		\
	 (_drc_x > 0) == (_drc_d > 0)) ?				\
		(_drc_x + _drc_d / 2) / _drc_d :			\
		(_drc_x - _drc_d / 2) / _drc_d; })

#define DIV_ROUND_CLOSEST_ULL(x, d) ({					\
	__typeof__(d) _drcu_d = (d);					\
	((unsigned long long)(x) + _drcu_d / 2) / _drcu_d; })

#define abs(x) ({				\
	__typeof__(x) _abs_x = (x);		\
	_abs_x < 0 ? -_abs_x : _abs_x; })
#define abs_diff(a, b) ({			\
	__typeof__(a) _ad_a = (a);		\
	__typeof__(b) _ad_b = (b);		\
	_ad_a > _ad_b ? _ad_a - _ad_b : _ad_b - _ad_a; })

/* Returns the largest r with r * r <= x. */
static inline unsigned long int_sqrt(unsigned long x)
{
	unsigned long root = 0, bit = 1UL << 62;

	while (bit > x)
		bit >>= 2;
	for (; bit; bit >>= 2) {
		unsigned long trial = root + bit;

		root >>= 1;
		if (x >= trial) {
			x -= trial;
			root += bit;
		}
	}
	return root;
}

static inline u32 int_sqrt64(u64 x)
{
	return int_sqrt(x);
}

#endif /* _KAPI_LINUX_MATH_H */
