/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_ATOMIC_H
#define KHOST_ASM_ATOMIC_H

/*
 * One host thread runs all CPUs of a hosted kernel in turn: an operation is atomic because nothing
 * else runs.
 */
#include <linux/types.h>
#include <asm/cmpxchg.h>
#include <asm/barrier.h>

#define ATOMIC64_INIT(i) { (i) }
#define arch_atomic_read(v) READ_ONCE((v)->counter)
#define arch_atomic_set(v, i) WRITE_ONCE((v)->counter, (i))
#define arch_atomic_xchg(v, n) arch_xchg(&(v)->counter, n)
#define arch_atomic_cmpxchg(v, o, n) arch_cmpxchg(&(v)->counter, o, n)
#define arch_atomic64_xchg(v, n) arch_xchg(&(v)->counter, n)
#define arch_atomic64_cmpxchg(v, o, n) arch_cmpxchg(&(v)->counter, o, n)
#define arch_atomic64_read(v) READ_ONCE((v)->counter)
#define arch_atomic64_set(v, i) WRITE_ONCE((v)->counter, (i))

#define KHOST_ATOMIC_OP(prefix, type, op, sign)						\
static __always_inline void arch_##prefix##_##op(type i, prefix##_t *v)			\
{											\
	v->counter = v->counter sign i;							\
}											\
static __always_inline type arch_##prefix##_fetch_##op(type i, prefix##_t *v)		\
{											\
	type old = v->counter;								\
											\
	v->counter = old sign i;							\
	return old;									\
}
#define KHOST_ATOMIC_RETURN(prefix, type, op, sign)					\
static __always_inline type arch_##prefix##_##op##_return(type i, prefix##_t *v)	\
{											\
	return v->counter = v->counter sign i;						\
}
#define KHOST_ATOMIC(prefix, type)			\
	KHOST_ATOMIC_OP(prefix, type, add, +)		\
	KHOST_ATOMIC_OP(prefix, type, sub, -)		\
	KHOST_ATOMIC_OP(prefix, type, and, &)		\
	KHOST_ATOMIC_OP(prefix, type, or, |)		\
	KHOST_ATOMIC_OP(prefix, type, xor, ^)		\
	KHOST_ATOMIC_RETURN(prefix, type, add, +)	\
	KHOST_ATOMIC_RETURN(prefix, type, sub, -)

KHOST_ATOMIC(atomic, int)
KHOST_ATOMIC(atomic64, s64)

/* The generic layer builds the operations missing here from cmpxchg. */
#define arch_atomic_add_return arch_atomic_add_return
#define arch_atomic_sub_return arch_atomic_sub_return
#define arch_atomic_fetch_add arch_atomic_fetch_add
#define arch_atomic_fetch_sub arch_atomic_fetch_sub
#define arch_atomic_fetch_and arch_atomic_fetch_and
#define arch_atomic_fetch_or arch_atomic_fetch_or
#define arch_atomic_fetch_xor arch_atomic_fetch_xor
#define arch_atomic64_add_return arch_atomic64_add_return
#define arch_atomic64_sub_return arch_atomic64_sub_return
#define arch_atomic64_fetch_add arch_atomic64_fetch_add
#define arch_atomic64_fetch_sub arch_atomic64_fetch_sub
#define arch_atomic64_fetch_and arch_atomic64_fetch_and
#define arch_atomic64_fetch_or arch_atomic64_fetch_or
#define arch_atomic64_fetch_xor arch_atomic64_fetch_xor

#endif
