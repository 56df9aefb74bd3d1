/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#include <asm-generic/errno.h>
