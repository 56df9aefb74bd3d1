/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_COMPILER_H
#define _KAPI_LINUX_COMPILER_H

#include <linux/types.h>

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

#define barrier()	__asm__ __volatile__("" : : : "memory")
#define unreachable()	__builtin_unreachable()

#define READ_ONCE(x)	(*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v) do { *(volatile __typeof__(x) *)&(x) = (v); } while (0)
#define data_race(x)	(x)

#define __always_inline	inline __attribute__((__always_inline__))
#define noinline	__attribute__((__noinline__))
#define __maybe_unused	__attribute__((__unused__))
#define __always_unused	__attribute__((__unused__))
#define __used		__attribute__((__used__))
#define __must_check	__attribute__((__warn_unused_result__))
#define __packed	__attribute__((__packed__))
#define __aligned(x)	__attribute__((__aligned__(x)))
#define __printf(a, b)	__attribute__((__format__(printf, a, b)))
#define __pure		__attribute__((__pure__))
#define __attribute_const__ __attribute__((__const__))
#define __cold		__attribute__((__cold__))
#define __cacheline_aligned __aligned(64)
#define ____cacheline_aligned __aligned(64)
#define ____cacheline_aligned_in_smp __aligned(64)
#define fallthrough	__attribute__((__fallthrough__))

/* Sections for speed, or to be freed after boot. */
#define __read_mostly
#define __ro_after_init
#define __cpuidle
#define notrace
#define __sched
#define __user
#define __kernel
#define __iomem
#define __percpu
#define __rcu
#define __force
#define __must_hold(x)
#define __acquires(x)
#define __releases(x)

#ifndef __has_attribute
#define __has_attribute(x) 0
#endif
#define __same_type(a, b) __builtin_types_compatible_p(__typeof__(a), __typeof__(b))

#endif /* _KAPI_LINUX_COMPILER_H */
