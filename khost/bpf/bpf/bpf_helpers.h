/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What a BPF program finds in libbpf's header of this name. khost/src/bpf.c has the functions. */
#ifndef KHOST_BPF_HELPERS_H
#define KHOST_BPF_HELPERS_H

#ifndef NULL
#define NULL ((void *)0)
#endif
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
#ifndef container_of
#define container_of(at, type, member)						\
	((type *)((char *)(at) - offsetof(type, member)))
#endif
#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + ((c) > 255 ? 255 : (c)))

#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __weak __attribute__((weak))
#define __hidden __attribute__((visibility("hidden")))
#define __used __attribute__((used))
#define __ksym
#define __kconfig
#define __kptr
#define __kptr_untrusted
#define __percpu_kptr
#define __uptr
#define __arg_ctx
#define __arg_nonnull
#define __arg_nullable
#define __arg_trusted
#define __arg_untrusted
#define __arg_arena
#define barrier() __asm__ volatile("" ::: "memory")
#define barrier_var(variable) __asm__ volatile("" : "+r"(variable))
#define bpf_unreachable() __builtin_trap()

/* The name of a section says what a loader does with a program; here maps alone need it. */
#define SEC(name) __attribute__((used, section(name)))

#define __uint(name, value) int (*name)[value]
#define __type(name, value) __typeof__(value) *name
#define __array(name, value) __typeof__(value) *name[]
#define __ulong(name, value) enum { __ulong_##name = value } name

enum libbpf_tristate { TRI_NO, TRI_YES, TRI_MODULE };
enum libbpf_pin_type { LIBBPF_PIN_NONE, LIBBPF_PIN_BY_NAME };

#define bpf_ksym_exists(name) (!!(name))

void *bpf_map_lookup_elem(void *map, const void *key);
void *bpf_map_lookup_percpu_elem(void *map, const void *key, u32 cpu);
long bpf_map_update_elem(void *map, const void *key, const void *value, u64 flags);
long bpf_map_delete_elem(void *map, const void *key);
long bpf_map_push_elem(void *map, const void *value, u64 flags);
long bpf_map_pop_elem(void *map, void *value);
long bpf_map_peek_elem(void *map, void *value);
long bpf_for_each_map_elem(void *map, void *callback, void *context, u64 flags);
void *bpf_task_storage_get(void *map, struct task_struct *task, void *value, u64 flags);
long bpf_task_storage_delete(void *map, struct task_struct *task);
void *bpf_cgrp_storage_get(void *map, struct cgroup *cgroup, void *value, u64 flags);
long bpf_cgrp_storage_delete(void *map, struct cgroup *cgroup);
void *bpf_ringbuf_reserve(void *map, u64 size, u64 flags);
void bpf_ringbuf_submit(void *record, u64 flags);
void bpf_ringbuf_discard(void *record, u64 flags);
long bpf_ringbuf_output(void *map, void *record, u64 size, u64 flags);

long bpf_timer_init(struct bpf_timer *timer, void *map, u64 flags);
long bpf_timer_set_callback(struct bpf_timer *timer, void *callback);
long bpf_timer_start(struct bpf_timer *timer, u64 ns, u64 flags);
long bpf_timer_cancel(struct bpf_timer *timer);

u64 bpf_ktime_get_ns(void);
u64 bpf_ktime_get_boot_ns(void);
u64 bpf_ktime_get_coarse_ns(void);
u64 bpf_jiffies64(void);
u32 bpf_get_prandom_u32(void);
u32 bpf_get_smp_processor_id(void);
long bpf_get_numa_node_id(void);
u64 bpf_get_current_pid_tgid(void);
u64 bpf_get_current_task(void);
struct task_struct *bpf_get_current_task_btf(void);
long bpf_get_current_comm(void *to, u32 size);
void *bpf_per_cpu_ptr(const void *data, u32 cpu);
void *bpf_this_cpu_ptr(const void *data);
long bpf_probe_read_kernel(void *to, u32 size, const void *from);
long bpf_probe_read_kernel_str(void *to, u32 size, const void *from);
long bpf_strncmp(const char *text, u32 size, const char *other);
long bpf_loop(u32 times, void *callback, void *context, u64 flags);
void bpf_spin_lock(struct bpf_spin_lock *lock);
void bpf_spin_unlock(struct bpf_spin_lock *lock);
long khost_bpf_printk(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define bpf_printk(format, args...) khost_bpf_printk(format, ##args)
#define bpf_kptr_xchg(at, pointer)						\
	__atomic_exchange_n(at, (__typeof__(*(at)))(pointer), __ATOMIC_SEQ_CST)

#define BPF_MAX_LOOPS (8 << 20)

/* The body may change the counter, as that of a BPF iterator may. */
#define bpf_for(counter, from, end)						\
	for (int ___at = (from), ___end = (end);				\
	     ___at < ___end && ((counter) = ___at, 1); ___at++)
#define bpf_repeat(times) for (int ___at = 0, ___end = (times); ___at < ___end; ___at++)
/* Programs know the iterator by this name. */
#define bpf_for_each(type, at, args...)						\
	for (struct bpf_iter_##type ___it					\
	     __attribute__((cleanup(bpf_iter_##type##_destroy))),		\
	     *___begin __attribute__((unused)) =				\
		     (bpf_iter_##type##_new(&___it, ##args), &___it);		\
	     (at = bpf_iter_##type##_next(&___it)); )

/* The macros by which scx hands over the arguments of a message: their number, and an array of them. */
#define ___bpf_narg(args...)							\
	KHOST_BPF_14TH(_, ##args, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define KHOST_BPF_14TH(_, a, b, c, d, e, f, g, h, i, j, k, l, n, ...) n
#define ___bpf_fill(to, args...)						\
	do {									\
		unsigned long long ___from[] = { KHOST_BPF_EACH(args) };	\
		__builtin_memcpy(to, ___from, sizeof(___from));			\
	} while (0)
#define KHOST_BPF_EACH(args...)							\
	KHOST_BPF_JOIN(KHOST_BPF_EACH_, ___bpf_narg(args))(args)
#define KHOST_BPF_JOIN(a, b) KHOST_BPF_JOINED(a, b)
#define KHOST_BPF_JOINED(a, b) a##b
#define KHOST_BPF_EACH_0()
#define KHOST_BPF_EACH_1(a) (unsigned long long)(a)
#define KHOST_BPF_EACH_2(a, r...) (unsigned long long)(a), KHOST_BPF_EACH_1(r)
#define KHOST_BPF_EACH_3(a, r...) (unsigned long long)(a), KHOST_BPF_EACH_2(r)
#define KHOST_BPF_EACH_4(a, r...) (unsigned long long)(a), KHOST_BPF_EACH_3(r)
#define KHOST_BPF_EACH_5(a, r...) (unsigned long long)(a), KHOST_BPF_EACH_4(r)
#define KHOST_BPF_EACH_6(a, r...) (unsigned long long)(a), KHOST_BPF_EACH_5(r)
#define KHOST_BPF_EACH_7(a, r...) (unsigned long long)(a), KHOST_BPF_EACH_6(r)
#define KHOST_BPF_EACH_8(a, r...) (unsigned long long)(a), KHOST_BPF_EACH_7(r)
#define KHOST_BPF_EACH_9(a, r...) (unsigned long long)(a), KHOST_BPF_EACH_8(r)
#define KHOST_BPF_EACH_10(a, r...) (unsigned long long)(a), KHOST_BPF_EACH_9(r)
#define KHOST_BPF_EACH_11(a, r...) (unsigned long long)(a), KHOST_BPF_EACH_10(r)
#define KHOST_BPF_EACH_12(a, r...) (unsigned long long)(a), KHOST_BPF_EACH_11(r)

#endif
