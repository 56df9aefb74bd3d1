/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#include <asm-generic/errno.h>

/* As C libraries have it. */
#define ENOTSUP EOPNOTSUPP
