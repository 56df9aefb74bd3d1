/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_SIGCONTEXT_H
#define KHOST_ASM_SIGCONTEXT_H

/* No signal is delivered. */

#endif
