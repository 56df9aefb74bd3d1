/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_STRING_H
#define KHOST_ASM_STRING_H

#ifdef __x86_64__
#define __HAVE_ARCH_MEMCPY
#define __HAVE_ARCH_MEMSET

void *memcpy(void *to, const void *from, __kernel_size_t len);
void *memset(void *memory, int value, __kernel_size_t len);
#endif

#endif
