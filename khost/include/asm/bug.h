/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_BUG_H
#define KHOST_ASM_BUG_H

#define HAVE_ARCH_BUG
#define BUG() khost_bug(__FILE__, __LINE__)

void khost_bug(const char *file, int line) __attribute__((noreturn));

#include <asm-generic/bug.h>

#endif
