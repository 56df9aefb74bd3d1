// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * What a sched_ext scheduler's program calls that is not of the scheduler's class: maps, storage of
 * tasks, timers, time, random numbers, printing. The kernel's own need its BPF: a verifier, a
 * compiler, and a process that loads.
 *
 * FIDELITY(bpf): a program is compiled C. No verifier refuses it, nothing limits it, its work takes no
 * simulated time beyond that of the kernel's functions that it calls.
 */
#include <linux/types.h>
#include "host.h"

#ifdef CONFIG_SCHED_CLASS_EXT
#include <linux/bpf.h>
#include <linux/cgroup.h>
#include <linux/hrtimer.h>
#include <linux/jhash.h>
#include <linux/jiffies.h>
#include <linux/prandom.h>
#include <linux/printk.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/timekeeping.h>
#include <khost/bpf.h>

#define BUCKETS 1024

/* An element of a hash table; its key and its value follow. */
struct element {
	struct hlist_node node;
	struct list_head age;
	char key[] __aligned(8);
};

static struct khost_bpf_map *map_of(const void *variable)
{
	return *(struct khost_bpf_map *const *)variable;
}

static bool is_hash(const struct khost_bpf_map *map)
{
	switch (map->type) {
	case BPF_MAP_TYPE_HASH:
	case BPF_MAP_TYPE_PERCPU_HASH:
	case BPF_MAP_TYPE_LRU_HASH:
	case BPF_MAP_TYPE_LRU_PERCPU_HASH:
	case BPF_MAP_TYPE_CGRP_STORAGE:
		return true;
	}
	return false;
}

static bool is_percpu(const struct khost_bpf_map *map)
{
	return map->type == BPF_MAP_TYPE_PERCPU_ARRAY || map->type == BPF_MAP_TYPE_PERCPU_HASH ||
	       map->type == BPF_MAP_TYPE_LRU_PERCPU_HASH;
}

static bool is_evicting(const struct khost_bpf_map *map)
{
	return map->type == BPF_MAP_TYPE_LRU_HASH || map->type == BPF_MAP_TYPE_LRU_PERCPU_HASH;
}

/* Bytes of an element's value: one a CPU, if each has its own. */
static size_t value_bytes(const struct khost_bpf_map *map)
{
	return (size_t)map->stride * (is_percpu(map) ? nr_cpu_ids : 1);
}

static void make_map(struct khost_bpf_map *map, unsigned int number)
{
	/* As the compiler's alignment of any value. */
	map->stride = ALIGN(map->value_size, 8);
	map->number = number;
	INIT_LIST_HEAD(&map->elements);
	if (is_hash(map))
		map->buckets = khost_alloc(BUCKETS * sizeof(*map->buckets));
	switch (map->type) {
	case BPF_MAP_TYPE_ARRAY:
	case BPF_MAP_TYPE_PERCPU_ARRAY:
	case BPF_MAP_TYPE_QUEUE:
	case BPF_MAP_TYPE_STACK:
		map->values = khost_alloc(value_bytes(map) * max(map->max_entries, 1u));
		break;
	case BPF_MAP_TYPE_ARRAY_OF_MAPS:
	case BPF_MAP_TYPE_TASK_STORAGE:
	case BPF_MAP_TYPE_RINGBUF:
		break;
	default:
		if (!is_hash(map))
			khost_trouble(KHOST_REFUSED, "map %s has type %u, which is not hosted",
				      map->name, map->type);
	}
	*(struct khost_bpf_map **)map->variable = map;
}

static unsigned int map_count;

void khost_make_maps(struct khost_bpf_map *maps, unsigned int count)
{
	map_count = count;
	for (unsigned int i = 0; i < count; i++)
		make_map(&maps[i], i);
}

/* Hash tables. */

static struct hlist_head *bucket_of(const struct khost_bpf_map *map, const void *key)
{
	return &map->buckets[jhash(key, map->key_size, 0) % BUCKETS];
}

static char *value_of(const struct khost_bpf_map *map, struct element *element)
{
	return element->key + ALIGN(map->key_size, 8);
}

static struct element *find(const struct khost_bpf_map *map, const void *key)
{
	struct element *element;

	hlist_for_each_entry(element, bucket_of(map, key), node) {
		if (!memcmp(element->key, key, map->key_size))
			return element;
	}
	return NULL;
}

static void drop(struct khost_bpf_map *map, struct element *element)
{
	hlist_del(&element->node);
	list_del(&element->age);
	map->used--;
	khost_free(element);
}

static struct element *insert(struct khost_bpf_map *map, const void *key)
{
	struct element *element;

	/* A map of storage has no limit. */
	if (map->max_entries && map->used >= map->max_entries) {
		if (!is_evicting(map))
			return NULL;
		drop(map, list_first_entry(&map->elements, struct element, age));
	}
	element = khost_alloc(sizeof(*element) + ALIGN(map->key_size, 8) + value_bytes(map));
	memcpy(element->key, key, map->key_size);
	hlist_add_head(&element->node, bucket_of(map, key));
	list_add_tail(&element->age, &map->elements);
	map->used++;
	return element;
}

/* Maps. */

static char *lookup(struct khost_bpf_map *map, const void *key)
{
	u32 index;

	if (is_hash(map)) {
		struct element *element = find(map, key);

		if (!element)
			return NULL;
		if (is_evicting(map))
			list_move_tail(&element->age, &map->elements);
		return value_of(map, element);
	}
	index = *(const u32 *)key;
	if (map->type == BPF_MAP_TYPE_ARRAY_OF_MAPS)
		return index < map->inner_count ? map->inner[index] : NULL;
	if (!map->values || index >= map->max_entries)
		return NULL;
	return map->values + index * value_bytes(map);
}

void *bpf_map_lookup_percpu_elem(void *variable, const void *key, u32 cpu)
{
	struct khost_bpf_map *map = map_of(variable);
	char *values = lookup(map, key);

	if (!values || !is_percpu(map))
		return values;
	return cpu < nr_cpu_ids ? values + (size_t)cpu * map->stride : NULL;
}

void *bpf_map_lookup_elem(void *variable, const void *key)
{
	return bpf_map_lookup_percpu_elem(variable, key, khost_cpu_number);
}

long bpf_map_update_elem(void *variable, const void *key, const void *value, u64 flags)
{
	struct khost_bpf_map *map = map_of(variable);
	char *to = bpf_map_lookup_elem(variable, key);

	if (to && flags == BPF_NOEXIST)
		return -EEXIST;
	if (!to && (flags == BPF_EXIST || !is_hash(map)))
		return is_hash(map) ? -ENOENT : -E2BIG;
	if (!to) {
		if (!insert(map, key))
			return -E2BIG;
		to = bpf_map_lookup_elem(variable, key);
	}
	memcpy(to, value, map->value_size);
	return 0;
}

long bpf_map_delete_elem(void *variable, const void *key)
{
	struct khost_bpf_map *map = map_of(variable);
	struct element *element = is_hash(map) ? find(map, key) : NULL;

	if (!element)
		return is_hash(map) ? -ENOENT : -EINVAL;
	drop(map, element);
	return 0;
}

/* Queues and stacks: @at is the oldest value. */

static char *nth(const struct khost_bpf_map *map, unsigned int n)
{
	return map->values + (size_t)((map->at + n) % map->max_entries) * map->stride;
}

long bpf_map_push_elem(void *variable, const void *value, u64 flags)
{
	struct khost_bpf_map *map = map_of(variable);

	if (map->used == map->max_entries) {
		if (flags != BPF_EXIST)
			return -E2BIG;
		map->at = (map->at + 1) % map->max_entries;
		map->used--;
	}
	memcpy(nth(map, map->used++), value, map->value_size);
	return 0;
}

long bpf_map_peek_elem(void *variable, void *value)
{
	struct khost_bpf_map *map = map_of(variable);

	if (!map->used) {
		memset(value, 0, map->value_size);
		return -ENOENT;
	}
	memcpy(value, nth(map, map->type == BPF_MAP_TYPE_STACK ? map->used - 1 : 0),
	       map->value_size);
	return 0;
}

long bpf_map_pop_elem(void *variable, void *value)
{
	struct khost_bpf_map *map = map_of(variable);
	long result = bpf_map_peek_elem(variable, value);

	if (result)
		return result;
	map->used--;
	if (map->type == BPF_MAP_TYPE_QUEUE)
		map->at = (map->at + 1) % map->max_entries;
	return 0;
}

typedef long (*each_t)(void *map, const void *key, void *value, void *context);

long bpf_for_each_map_elem(void *variable, void *callback, void *context, u64 flags)
{
	struct khost_bpf_map *map = map_of(variable);
	struct element *element, *next;
	long count = 0;

	if (is_hash(map)) {
		list_for_each_entry_safe(element, next, &map->elements, age) {
			count++;
			if (((each_t)callback)(variable, element->key, value_of(map, element),
					       context))
				break;
		}
		return count;
	}
	for (u32 index = 0; index < map->max_entries; index++) {
		count++;
		if (((each_t)callback)(variable, &index, bpf_map_lookup_elem(variable, &index),
				       context))
			break;
	}
	return count;
}

/* Storage of tasks and cgroups. */

void *bpf_task_storage_get(void *variable, struct task_struct *task, void *value, u64 flags)
{
	struct khost_bpf_map *map = map_of(variable);
	void **all;

	if (!task)
		return NULL;
	all = task->thread.storage;
	if (all && all[map->number])
		return all[map->number];
	if (!(flags & BPF_LOCAL_STORAGE_GET_F_CREATE))
		return NULL;
	if (!all)
		all = task->thread.storage = khost_alloc(map_count * sizeof(*all));
	all[map->number] = khost_alloc(max(map->stride, 8u));
	if (value)
		memcpy(all[map->number], value, map->value_size);
	return all[map->number];
}

long bpf_task_storage_delete(void *variable, struct task_struct *task)
{
	void **all = task->thread.storage;
	unsigned int number = map_of(variable)->number;

	if (!all || !all[number])
		return -ENOENT;
	khost_free(all[number]);
	all[number] = NULL;
	return 0;
}

void khost_free_task_storage(struct task_struct *task)
{
	void **all = task->thread.storage;

	task->thread.storage = NULL;
	for (unsigned int i = 0; all && i < map_count; i++)
		khost_free(all[i]);
	khost_free(all);
}

/* A table by the cgroup's address: its key has no place in the program. */
void *bpf_cgrp_storage_get(void *variable, struct cgroup *cgroup, void *value, u64 flags)
{
	struct khost_bpf_map *map = map_of(variable);
	struct element *element;

	map->key_size = sizeof(cgroup);
	element = find(map, &cgroup);
	if (!element && flags & BPF_LOCAL_STORAGE_GET_F_CREATE) {
		element = insert(map, &cgroup);
		if (value)
			memcpy(value_of(map, element), value, map->value_size);
	}
	return element ? value_of(map, element) : NULL;
}

long bpf_cgrp_storage_delete(void *variable, struct cgroup *cgroup)
{
	map_of(variable)->key_size = sizeof(cgroup);
	return bpf_map_delete_elem(variable, &cgroup);
}

/* Ring buffers: nobody reads them. */

void *bpf_ringbuf_reserve(void *variable, u64 size, u64 flags)
{
	return khost_alloc(size);
}

void bpf_ringbuf_submit(void *record, u64 flags)
{
	khost_free(record);
}

void bpf_ringbuf_discard(void *record, u64 flags)
{
	khost_free(record);
}

long bpf_ringbuf_output(void *variable, void *record, u64 size, u64 flags)
{
	return 0;
}

/* Timers: the kernel's, in the modes of its own helpers. */

struct timer {
	struct hrtimer timer;
	void *map, *value;
	int (*callback)(void *map, const void *key, void *value);
	u32 index;
	const void *key;
};

static struct timer *timer_of(struct bpf_timer *timer)
{
	return *(struct timer **)timer;
}

static enum hrtimer_restart expire(struct hrtimer *timer)
{
	struct timer *it = container_of(timer, struct timer, timer);

	if (it->callback)
		it->callback(it->map, it->key, it->value);
	return HRTIMER_NORESTART;
}

/* Finds the element that a timer is in. */
static void find_owner(struct timer *it, const void *within)
{
	struct khost_bpf_map *map = map_of(it->map);
	struct element *element;

	if (map->values) {
		it->index = ((const char *)within - map->values) / map->stride;
		it->key = &it->index;
		it->value = map->values + (size_t)it->index * map->stride;
		return;
	}
	list_for_each_entry(element, &map->elements, age) {
		const char *value = value_of(map, element);

		if ((const char *)within >= value && (const char *)within < value + map->stride) {
			it->key = element->key;
			it->value = (void *)value;
		}
	}
}

long bpf_timer_init(struct bpf_timer *timer, void *map, u64 flags)
{
	struct timer *it;

	if (timer_of(timer))
		return -EBUSY;
	it = khost_alloc(sizeof(*it));
	it->map = map;
	find_owner(it, timer);
#ifdef KHOST_HAS_HRTIMER_SETUP
	hrtimer_setup(&it->timer, expire, flags & 15, HRTIMER_MODE_REL_SOFT);
#else
	hrtimer_init(&it->timer, flags & 15, HRTIMER_MODE_REL_SOFT);
	it->timer.function = expire;
#endif
	*(struct timer **)timer = it;
	return 0;
}

long bpf_timer_set_callback(struct bpf_timer *timer, void *callback)
{
	if (!timer_of(timer))
		return -EINVAL;
	timer_of(timer)->callback = callback;
	return 0;
}

long bpf_timer_start(struct bpf_timer *timer, u64 ns, u64 flags)
{
	enum hrtimer_mode mode = HRTIMER_MODE_REL_SOFT;

	if (!timer_of(timer))
		return -EINVAL;
	if (flags & BPF_F_TIMER_ABS)
		mode = HRTIMER_MODE_ABS_SOFT;
	if (flags & BPF_F_TIMER_CPU_PIN)
		mode |= HRTIMER_MODE_PINNED;
	hrtimer_start(&timer_of(timer)->timer, ns_to_ktime(ns), mode);
	return 0;
}

long bpf_timer_cancel(struct bpf_timer *timer)
{
	if (!timer_of(timer))
		return -EINVAL;
	return hrtimer_try_to_cancel(&timer_of(timer)->timer);
}

/* Time, CPUs, tasks. */

u64 bpf_ktime_get_ns(void)
{
	return ktime_get_mono_fast_ns();
}

u64 bpf_ktime_get_boot_ns(void)
{
	return ktime_get_boot_fast_ns();
}

u64 bpf_ktime_get_coarse_ns(void)
{
	return ktime_get_coarse_ns();
}

u64 bpf_jiffies64(void)
{
	return get_jiffies_64();
}

u32 bpf_get_smp_processor_id(void)
{
	return khost_cpu_number;
}

long bpf_get_numa_node_id(void)
{
	return 0;
}

struct task_struct *bpf_get_current_task_btf(void)
{
	return current;
}

u64 bpf_get_current_task(void)
{
	return (unsigned long)current;
}

u64 bpf_get_current_pid_tgid(void)
{
	return (u64)current->tgid << 32 | current->pid;
}

long bpf_get_current_comm(void *to, u32 size)
{
	return strscpy_pad(to, current->comm, size) < 0 ? -EINVAL : 0;
}

void *bpf_per_cpu_ptr(const void *data, u32 cpu)
{
	return cpu < nr_cpu_ids ? (void *)data + __per_cpu_offset[cpu] : NULL;
}

void *bpf_this_cpu_ptr(const void *data)
{
	return bpf_per_cpu_ptr(data, khost_cpu_number);
}

struct task_struct *bpf_task_acquire(struct task_struct *task)
{
	return refcount_inc_not_zero(&task->rcu_users) ? task : NULL;
}

void bpf_task_release(struct task_struct *task)
{
	put_task_struct_rcu_user(task);
}

struct task_struct *bpf_task_from_pid(s32 pid)
{
	struct task_struct *task = khost_task_of_pid(pid);

	return task ? bpf_task_acquire(task) : NULL;
}

void bpf_rcu_read_lock(void)
{
	rcu_read_lock();
}

void bpf_rcu_read_unlock(void)
{
	rcu_read_unlock();
}

void bpf_preempt_disable(void)
{
	preempt_disable();
}

void bpf_preempt_enable(void)
{
	preempt_enable();
}

/* One host thread acts for all CPUs. */
void bpf_spin_lock(struct bpf_spin_lock *lock)
{
}

void bpf_spin_unlock(struct bpf_spin_lock *lock)
{
}

/* Memory and text. */

long bpf_probe_read_kernel(void *to, u32 size, const void *from)
{
	memcpy(to, from, size);
	return 0;
}

long bpf_probe_read_kernel_str(void *to, u32 size, const void *from)
{
	ssize_t len = size && from ? strscpy(to, from, size) : -1;

	return len < 0 ? size : len + 1;
}

long bpf_strncmp(const char *text, u32 size, const char *other)
{
	return strncmp(text, other, size);
}

long bpf_loop(u32 times, void *callback, void *context, u64 flags)
{
	for (u32 index = 0; index < times; index++) {
		if (((long (*)(u64, void *))callback)(index, context))
			return index + 1;
	}
	return times;
}

long khost_bpf_printk(const char *format, ...)
{
	struct va_format text = { .fmt = format };
	va_list args;

	va_start(args, format);
	text.va = &args;
	_printk("%pV", &text);
	va_end(args);
	return 0;
}

/* Random numbers of programs have a stream of their own. */
u32 bpf_get_prandom_u32(void)
{
	static struct rnd_state state;
	static bool is_seeded;

	if (!is_seeded)
		prandom_seed_state(&state, khost_machine->seed ^ 0x6270665f72616e64);
	is_seeded = true;
	return prandom_u32_state(&state);
}
#endif
