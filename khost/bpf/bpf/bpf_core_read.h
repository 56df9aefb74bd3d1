/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Reading of kernel data whose layout libbpf would find at load. Here the program is compiled for
 * the kernel that it runs in, so a name that compiles exists; one with a flavor (`___old`) is of
 * another kernel.
 */
#ifndef KHOST_BPF_CORE_READ_H
#define KHOST_BPF_CORE_READ_H

#define KHOST_BPF_HAS(text) (!__builtin_strstr(text, "___"))

#define bpf_core_field_exists(field...) KHOST_BPF_HAS(#field)
#define bpf_core_type_exists(type) KHOST_BPF_HAS(#type)
#define bpf_core_type_matches(type) KHOST_BPF_HAS(#type)
#define bpf_core_enum_value_exists(type, value) KHOST_BPF_HAS(#value)
#define bpf_core_enum_value(type, value) (value)
#define bpf_core_type_size(type) sizeof(type)
#define bpf_core_field_size(field...) sizeof(field)
#define bpf_core_field_offset(type, field) __builtin_offsetof(type, field)
#define bpf_core_type_id_local(type) 0
#define bpf_core_type_id_kernel(type) 0
#define bpf_core_cast(pointer, type) ((type *)(pointer))

#define bpf_core_read(to, size, from) bpf_probe_read_kernel(to, size, from)
#define bpf_core_read_str(to, size, from) bpf_probe_read_kernel_str(to, size, from)

#define KHOST_BPF_PATH_1(at) at
#define KHOST_BPF_PATH_2(at, a) at->a
#define KHOST_BPF_PATH_3(at, a, b) at->a->b
#define KHOST_BPF_PATH_4(at, a, b, c) at->a->b->c
#define KHOST_BPF_PATH_5(at, a, b, c, d) at->a->b->c->d
#define KHOST_BPF_PATH_6(at, a, b, c, d, e) at->a->b->c->d->e
#define KHOST_BPF_NTH(a, b, c, d, e, f, n, ...) n
#define BPF_CORE_READ(at, path...)						\
	(KHOST_BPF_NTH(at, ##path, KHOST_BPF_PATH_6, KHOST_BPF_PATH_5, KHOST_BPF_PATH_4,	\
		       KHOST_BPF_PATH_3, KHOST_BPF_PATH_2, KHOST_BPF_PATH_1)((at), ##path))
#define BPF_CORE_READ_INTO(to, at, path...) ({ *(to) = BPF_CORE_READ(at, ##path); 0; })
#define BPF_PROBE_READ(at, path...) BPF_CORE_READ(at, ##path)

#endif
