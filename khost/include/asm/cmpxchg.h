/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_CMPXCHG_H
#define KHOST_ASM_CMPXCHG_H

/* See <asm/atomic.h> for why plain C is enough. */
#define arch_xchg(p, n)					\
({							\
	__typeof__(p) __khost_at = (p);			\
	__typeof__(*__khost_at) __khost_old = *__khost_at;			\
							\
	*__khost_at = (__typeof__(*__khost_at))(n);			\
	__khost_old;						\
})
#define arch_cmpxchg(p, o, n)				\
({							\
	__typeof__(p) __khost_at = (p);			\
	__typeof__(*__khost_at) __khost_old = *__khost_at;			\
							\
	if (__khost_old == (__typeof__(*__khost_at))(o))		\
		*__khost_at = (__typeof__(*__khost_at))(n);		\
	__khost_old;						\
})
#define arch_cmpxchg_local arch_cmpxchg
#define arch_cmpxchg64 arch_cmpxchg
#define arch_cmpxchg64_local arch_cmpxchg

#endif
