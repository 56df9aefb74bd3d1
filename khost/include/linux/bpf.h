/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_LINUX_BPF_H
#define KHOST_LINUX_BPF_H

#include_next <linux/bpf.h>

/* The scheduler's class registers here for programs; there is no BPF that would look for it. */
#ifdef CONFIG_SCHED_CLASS_EXT
int khost_register_struct_ops(struct bpf_struct_ops *ops, size_t size);

#undef register_bpf_struct_ops
#define register_bpf_struct_ops(ops, type) khost_register_struct_ops(ops, sizeof(struct type))

/* Whether the format is constant differs between trees. */
struct bpf_bprintf_data;
int khost_bprintf_prepare(const char *fmt, u32 fmt_size, const u64 *args, u32 count,
			  struct bpf_bprintf_data *data);

#define bpf_bprintf_prepare khost_bprintf_prepare

/* Since 7.0 several files of the class know such a list, which is static without BTF. */
#undef BTF_KFUNCS_START
#define BTF_KFUNCS_START(name)							\
	struct btf_id_set8 __maybe_unused name = { .flags = BTF_SET8_KFUNCS };
#endif

#endif
