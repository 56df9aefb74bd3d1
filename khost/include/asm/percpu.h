/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_PERCPU_H
#define KHOST_ASM_PERCPU_H

/* Set whenever the host thread changes to another CPU. */
extern unsigned long khost_percpu_offset;

#define __my_cpu_offset khost_percpu_offset

#include <asm-generic/percpu.h>
#include <khost.h>

/* Looking up a CPU's data by its number is a step of the kernel's work: see clock.c. */
#undef per_cpu_offset
#define per_cpu_offset(cpu) (khost_step_of(cpu), __per_cpu_offset[cpu])

#endif
