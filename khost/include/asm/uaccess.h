/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_UACCESS_H
#define KHOST_ASM_UACCESS_H

/* There is no user memory: see files.c for what is written to files. */
unsigned long raw_copy_from_user(void *to, const void __user *from, unsigned long len);
unsigned long raw_copy_to_user(void __user *to, const void *from, unsigned long len);

#include <asm-generic/uaccess.h>

#endif
