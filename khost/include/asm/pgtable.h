/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_PGTABLE_H
#define KHOST_ASM_PGTABLE_H

#include <asm-generic/pgtable-nopmd.h>

#endif
