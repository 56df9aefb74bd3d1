/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_ELF_H
#define KHOST_ASM_ELF_H

/* No program is loaded. */

#endif
