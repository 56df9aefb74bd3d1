/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_LINUX_FPU_H
#define _KAPI_LINUX_FPU_H

/* In userspace each thread has its own registers, so there is nothing to save. */
static inline void kernel_fpu_begin(void)
{
}

static inline void kernel_fpu_end(void)
{
}

#endif /* _KAPI_LINUX_FPU_H */
