/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_MINMAX_H
#define _KAPI_LINUX_MINMAX_H

/*
 * Each operand is evaluated once. Operands of different types are converted by C's rules; the
 * kernel rejects most of these, and what it accepts means the same here.
 */
#define min(x, y) ({				\
	__typeof__(x) _min_x = (x);		\
	__typeof__(y) _min_y = (y);		\
	_min_x < _min_y ? _min_x : _min_y; })

#define max(x, y) ({				\
	__typeof__(x) _max_x = (x);		\
	__typeof__(y) _max_y = (y);		\
	_max_x > _max_y ? _max_x : _max_y; })

#define min_t(type, x, y) ({			\
	type _min_t_x = (x);			\
	type _min_t_y = (y);			\
	_min_t_x < _min_t_y ? _min_t_x : _min_t_y; })

#define max_t(type, x, y) ({			\
	type _max_t_x = (x);			\
	type _max_t_y = (y);			\
	_max_t_x > _max_t_y ? _max_t_x : _max_t_y; })

#define min3(x, y, z)		min(min(x, y), z)
#define max3(x, y, z)		max(max(x, y), z)
#define clamp(val, lo, hi)	min((__typeof__(val))max(val, lo), hi)
#define clamp_t(type, val, lo, hi) min_t(type, max_t(type, val, lo), hi)
#define clamp_val(val, lo, hi)	clamp_t(__typeof__(val), val, lo, hi)

#define min_not_zero(x, y) ({			\
	__typeof__(x) _mnz_x = (x);		\
	__typeof__(y) _mnz_y = (y);		\
	!_mnz_x ? _mnz_y : !_mnz_y ? _mnz_x : min(_mnz_x, _mnz_y); })

#define swap(a, b) do {				\
	__typeof__(a) _swap = (a);		\
	(a) = (b);				\
	(b) = _swap;				\
} while (0)

#endif /* _KAPI_LINUX_MINMAX_H */
