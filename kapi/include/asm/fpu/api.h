/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_ASM_FPU_API_H
#define _KAPI_ASM_FPU_API_H

#include <linux/fpu.h>

#endif /* _KAPI_ASM_FPU_API_H */
