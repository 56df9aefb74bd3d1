/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_LINUX_BPF_H
#define KHOST_LINUX_BPF_H

#include_next <linux/bpf.h>

/* The scheduler's class registers here for programs; there is no BPF that would look for it. */
#ifdef CONFIG_SCHED_CLASS_EXT
int khost_register_struct_ops(struct bpf_struct_ops *ops, size_t size);

#undef register_bpf_struct_ops
#define register_bpf_struct_ops(ops, type) khost_register_struct_ops(ops, sizeof(struct type))

/* Since 7.0 several files of the class know such a list, which is static without BTF. */
#undef BTF_KFUNCS_START
#define BTF_KFUNCS_START(name)							\
	struct btf_id_set8 __maybe_unused name = { .flags = BTF_SET8_KFUNCS };
#endif

#endif
