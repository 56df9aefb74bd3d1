/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_ASM_CPUFEATURE_H
#define _KAPI_ASM_CPUFEATURE_H

#include <linux/types.h>

/* A CPU feature: word times 32, plus the bit, as x86 numbers them. */
#define X86_FEATURE_XMM		(0 * 32 + 25)
#define X86_FEATURE_XMM2	(0 * 32 + 26)
#define X86_FEATURE_XMM3	(4 * 32 + 0)
#define X86_FEATURE_SSSE3	(4 * 32 + 9)
#define X86_FEATURE_FMA		(4 * 32 + 12)
#define X86_FEATURE_XMM4_1	(4 * 32 + 19)
#define X86_FEATURE_XMM4_2	(4 * 32 + 20)
#define X86_FEATURE_POPCNT	(4 * 32 + 23)
#define X86_FEATURE_AVX		(4 * 32 + 28)
#define X86_FEATURE_BMI1	(9 * 32 + 3)
#define X86_FEATURE_AVX2	(9 * 32 + 5)
#define X86_FEATURE_BMI2	(9 * 32 + 8)
#define X86_FEATURE_AVX512F	(9 * 32 + 16)

/* Only features that every x86-64 CPU has, so that a run gives the same numbers everywhere. */
static inline bool boot_cpu_has(unsigned int feature)
{
	return feature == X86_FEATURE_XMM || feature == X86_FEATURE_XMM2;
}

#define cpu_feature_enabled(feature)	boot_cpu_has(feature)
#define static_cpu_has(feature)		boot_cpu_has(feature)

#endif /* _KAPI_ASM_CPUFEATURE_H */
