// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Loading of a sched_ext scheduler: what kernel/bpf/ does between a program and the scheduler's class.
 * bpf.c has what the program calls.
 */
#include <linux/types.h>
#include "host.h"

#ifdef CONFIG_SCHED_CLASS_EXT
#include <linux/bpf.h>
#include <linux/bpf_mem_alloc.h>
#include <linux/btf.h>
#include <linux/ctype.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <khost/bpf.h>
#include "sched.h"

static struct bpf_struct_ops *class_ops;
static size_t ops_size;
static const struct khost_scheduler *chosen;

int khost_register_struct_ops(struct bpf_struct_ops *ops, size_t size)
{
	/* Since 7.2 there is a second form, for programs with an arena. */
	if (!strcmp(ops->name, "sched_ext_ops")) {
		class_ops = ops;
		ops_size = size;
	}
	return 0;
}

int khost_load_scheduler(const struct khost_scheduler *scheduler)
{
	chosen = scheduler;
	return 0;
}

/* Lets the class take each member by its own rule; the others are copied as they are. */
static void *checked_ops(void)
{
	struct btf_type type = {};
	void *ops = khost_alloc(ops_size);

	memcpy(ops, chosen->ops, ops_size);
	for (u32 at = 0; at < ops_size; at += sizeof(u32)) {
		struct btf_member member = { .offset = at * BITS_PER_BYTE };
		int result = class_ops->init_member(&type, &member, ops, chosen->ops);

		if (result < 0)
			khost_trouble(KHOST_REFUSED,
				      "its struct sched_ext_ops is refused: error %d at byte %u",
				      result, at);
	}
	return ops;
}

/* Runs in the thread that starts the kernel, when all CPUs are up. */
void khost_start_scheduler(void)
{
	int result;

	if (!*khost_machine->linked[KHOST_SCHEDULER])
		return;
	if (!chosen || !class_ops)
		khost_trouble(KHOST_REFUSED, "the file has no scheduler for this kernel");
	khost_make_maps(chosen->maps, chosen->map_count);
	if (chosen->load)
		chosen->load();
	result = class_ops->reg(checked_ops(), NULL);
	/* A failure of its init() is no error of the call. */
	if (result)
		khost_trouble(KHOST_REFUSED, "the scheduler does not start (error %d)", -result);
	if (!scx_enabled()) {
		/* Some kernels say why only in a thread. */
		schedule_timeout_uninterruptible(HZ / 10);
		khost_trouble(KHOST_REFUSED, "the scheduler does not start");
	}
}

void khost_init_scheduler_entity(struct task_struct *task)
{
	init_scx_entity(&task->scx);
}

/* The tasks by their number, which no other ever gets. */
static struct task_struct **tasks;
static int task_max;

void khost_keep_task(struct task_struct *task)
{
	if (task->pid >= task_max) {
		int max = roundup_pow_of_two(task->pid + 64);
		struct task_struct **more = khost_alloc(max * sizeof(*more));

		if (tasks)
			memcpy(more, tasks, task_max * sizeof(*more));
		khost_free(tasks);
		tasks = more;
		task_max = max;
	}
	tasks[task->pid] = task;
}

struct task_struct *khost_task_of_pid(int pid)
{
	return pid > 0 && pid < task_max ? tasks[pid] : NULL;
}

void khost_free_scheduler_entity(struct task_struct *task)
{
	if (khost_task_of_pid(task->pid) == task)
		tasks[task->pid] = NULL;
	sched_ext_free(task);
	khost_free_task_storage(task);
}

/* What the class takes from kernel/bpf/. */

/* For a verifier. */
const struct bpf_func_proto bpf_task_storage_get_proto, bpf_task_storage_delete_proto;

int bpf_obj_name_cpy(char *to, const char *from, unsigned int size)
{
	unsigned int len = strnlen(from, size);

	if (len == size)
		return -EINVAL;
	for (unsigned int i = 0; i < len; i++) {
		if (!isalnum(from[i]) && !strchr("_.", from[i]))
			return -EINVAL;
	}
	strscpy_pad(to, from, size);
	return len;
}

int bpf_mem_alloc_init(struct bpf_mem_alloc *allocator, int size, bool percpu)
{
	/* The size is all that there is to know of it. */
	allocator->cache = (void *)(unsigned long)size;
	return 0;
}

void *bpf_mem_cache_alloc(struct bpf_mem_alloc *allocator)
{
	return khost_alloc((unsigned long)allocator->cache);
}

void bpf_mem_cache_free_rcu(struct bpf_mem_alloc *allocator, void *memory)
{
	khost_free(memory);
}

/* A message's arguments stay an array: bstr_printf() below reads it. */
int khost_bprintf_prepare(const char *fmt, u32 fmt_size, const u64 *args, u32 count,
			  struct bpf_bprintf_data *data)
{
	u64 *all = khost_alloc(MAX_BPRINTF_VARARGS * sizeof(*all));

	memcpy(all, args, min_t(u32, count, MAX_BPRINTF_VARARGS) * sizeof(*all));
	data->bin_args = (u32 *)all;
	return 0;
}

void bpf_bprintf_cleanup(struct bpf_bprintf_data *data)
{
	khost_free(data->bin_args);
}

/* On a 64-bit machine any argument that is not a floating-point number takes a word. */
int bstr_printf(char *to, size_t size, const char *fmt, const u32 *args)
{
	const u64 *a = (const u64 *)args;

	return snprintf(to, size, fmt, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9],
			a[10], a[11]);
}

long copy_from_kernel_nofault(void *to, const void *from, size_t size)
{
	memcpy(to, from, size);
	return 0;
}
#else
void khost_keep_task(struct task_struct *task)
{
}

void khost_start_scheduler(void)
{
	if (*khost_machine->linked[KHOST_SCHEDULER])
		khost_trouble(KHOST_REFUSED, "a scheduler needs CONFIG_SCHED_CLASS_EXT");
}

void khost_init_scheduler_entity(struct task_struct *task)
{
}

void khost_free_scheduler_entity(struct task_struct *task)
{
}
#endif
