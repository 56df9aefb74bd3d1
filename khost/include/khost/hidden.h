/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* All of an image is linked into one object: no symbol is looked up when it is loaded. */
#pragma GCC visibility push(hidden)

/* Not every file that waits includes <asm/processor.h>. */
void khost_relax(void);
#define cpu_relax() khost_relax()
