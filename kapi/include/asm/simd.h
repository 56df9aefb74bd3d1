/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_ASM_SIMD_H
#define _KAPI_ASM_SIMD_H

#include <linux/compiler.h>
#include <linux/interrupt.h>

/* In userspace each thread has its own registers. */
static __always_inline bool may_use_simd(void)
{
	return 1;
}

#endif /* _KAPI_ASM_SIMD_H */
