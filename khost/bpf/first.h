/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Included before a scheduler. Its tree's header comes first, since some of its macros are
 * instructions of BPF for the verifier's sake, which the last lines replace.
 */
#if __has_include(<scx/common.bpf.h>)
#include <scx/common.bpf.h>
#endif

#undef MEMBER_VPTR
#define MEMBER_VPTR(base, member)						\
({										\
	__typeof__(&((base) member)) ___member = &((base) member);		\
	(char *)___member - (char *)&(base) <= sizeof(base) - sizeof(*___member)	\
		? ___member : (void *)0;					\
})
#undef ARRAY_ELEM_PTR
#define ARRAY_ELEM_PTR(array, index, count)					\
	((u64)(index) < (u64)(count) ? &(array)[index] : (void *)0)
#undef can_loop
#define can_loop 1
#undef cond_break
#define cond_break do { } while (0)
#undef cond_break_label
#define cond_break_label(label) do { if (0) goto label; } while (0)

/* Sets any variable, also a constant, in a function of section torpor/load. */
#define torpor_set(variable, value)						\
	__builtin_memcpy((void *)&(variable), &(__typeof__(variable)){ value },	\
			 sizeof(variable))
