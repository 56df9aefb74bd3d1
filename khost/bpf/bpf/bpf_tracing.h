/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_BPF_TRACING_H
#define KHOST_BPF_TRACING_H

/* The kernel calls a program as it calls any function: with its arguments. */
#define BPF_PROG(name, args...) name(args)
#define BPF_PROG2(name, args...) name(args)
#define BPF_KPROBE(name, args...) name(args)

#endif
