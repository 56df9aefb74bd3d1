/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_ASM_PROCESSOR_H
#define _KAPI_ASM_PROCESSOR_H

#include <asm/cpufeature.h>
#include <linux/compiler.h>

static inline void cpu_relax(void)
{
	barrier();
}

#endif /* _KAPI_ASM_PROCESSOR_H */
