// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Checks what stands for BPF in its init(), then leaves all tasks to the class's own queue. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

void scx_bpf_error_bstr(char *fmt, unsigned long long *data, u32 size) __ksym;
struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
void bpf_task_release(struct task_struct *task) __ksym;
struct bpf_cpumask *bpf_cpumask_create(void) __ksym;
void bpf_cpumask_release(struct bpf_cpumask *mask) __ksym;
void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *mask) __ksym;
u32 bpf_cpumask_first(const struct cpumask *mask) __ksym;
int of_no_kernel(void) __ksym __weak;
extern unsigned int CONFIG_HZ __kconfig;

char _license[] SEC("license") = "MIT OR GPL";

#define CHECK(condition)							\
	do {									\
		if (!(condition)) {						\
			static char fmt[] = "line %d: %s";			\
			unsigned long long args[] = { __LINE__,			\
						      (unsigned long)#condition };	\
			scx_bpf_error_bstr(fmt, args, sizeof(args));		\
			return -22;						\
		}								\
	} while (0)

const volatile bool fails;
const volatile s32 number = -7;
const volatile u16 numbers[4];
u32 loaded;
const volatile s32 divisor;
volatile s32 quotient = 1, remainder;
const volatile u64 __SCX_DSQ_LOCAL __weak;

struct pair {
	u64 a, b;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 3);
	__type(key, u32);
	__type(value, struct pair);
} array SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 2);
	__uint(key_size, sizeof(u64));
	__uint(value_size, sizeof(u32));
} recent SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} of_cpus SEC(".maps");

struct fifo {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 2);
	__type(value, u32);
} first SEC(".maps"), second SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, u32);
	__array(values, struct fifo);
} fifos SEC(".maps") = { .values = { &first, &second } };

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pair);
} of_tasks SEC(".maps");

struct reminder {
	u64 count;
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, struct reminder);
} reminders SEC(".maps");

static int expired(void *map, u32 *key, struct reminder *reminder)
{
	if (*key == 5 && ++reminder->count < 3)
		bpf_timer_start(&reminder->timer, 1000000, 0);
	return 0;
}

static int maps(void)
{
	struct pair pair = { 1, 2 }, *found;
	u32 key = 2, value = 8, out = 0, last = 3;
	u64 long_key;
	void *fifo;

	CHECK(!bpf_map_update_elem(&array, &key, &pair, 0));
	found = bpf_map_lookup_elem(&array, &key);
	CHECK(found && found->a == 1 && found->b == 2 && !bpf_map_lookup_elem(&array, &last));
	for (long_key = 1; long_key <= 3; long_key++)
		CHECK(!bpf_map_update_elem(&recent, &long_key, &value, BPF_NOEXIST));
	long_key = 1;
	CHECK(!bpf_map_lookup_elem(&recent, &long_key) && bpf_map_delete_elem(&recent, &long_key));
	long_key = 3;
	CHECK(*(u32 *)bpf_map_lookup_elem(&recent, &long_key) == 8);
	key = 0;
	*(u64 *)bpf_map_lookup_percpu_elem(&of_cpus, &key, 1) = 9;
	CHECK(*(u64 *)bpf_map_lookup_percpu_elem(&of_cpus, &key, 1) == 9);
	CHECK(!*(u64 *)bpf_map_lookup_percpu_elem(&of_cpus, &key, 0));
	key = 1;
	fifo = bpf_map_lookup_elem(&fifos, &key);
	CHECK(fifo == &second && !bpf_map_push_elem(fifo, &value, 0));
	CHECK(!bpf_map_push_elem(fifo, &key, 0) && bpf_map_push_elem(fifo, &key, 0) == -7);
	CHECK(!bpf_map_pop_elem(fifo, &out) && out == 8 && bpf_map_pop_elem(&first, &out) == -2);
	return 0;
}

static int others(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_cpumask *mask = bpf_cpumask_create();
	struct reminder none = {}, *reminder;
	struct pair *pair;
	u32 key = 5, sum = 0, i;
	char name[8];

	CHECK(!bpf_task_storage_get(&of_tasks, task, NULL, 0));
	pair = bpf_task_storage_get(&of_tasks, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	CHECK(pair && !pair->a && bpf_task_storage_get(&of_tasks, task, NULL, 0) == pair);
	CHECK(bpf_task_from_pid(task->pid) == task && !bpf_task_from_pid(1 << 20));
	bpf_task_release(task);
	bpf_cpumask_set_cpu(1, mask);
	CHECK(bpf_cpumask_first((const struct cpumask *)mask) == 1);
	bpf_cpumask_release(mask);
	bpf_map_update_elem(&reminders, &key, &none, 0);
	reminder = bpf_map_lookup_elem(&reminders, &key);
	CHECK(!bpf_timer_init(&reminder->timer, &reminders, 1));
	CHECK(!bpf_timer_set_callback(&reminder->timer, expired));
	CHECK(!bpf_timer_start(&reminder->timer, 1000000, 0));
	bpf_for(i, 2, 5)
		sum += i;
	CHECK(sum == 9 && !bpf_ksym_exists(of_no_kernel) && CONFIG_HZ == 250);
	CHECK(__SCX_DSQ_LOCAL == SCX_DSQ_LOCAL && number == -7);
	CHECK(bpf_probe_read_kernel_str(name, sizeof(name), "a longer text") == sizeof(name));
	CHECK(BPF_CORE_READ(task, group_leader, pid) == task->group_leader->pid);
	CHECK(bpf_core_field_exists(task->scx) && bpf_get_prandom_u32() != bpf_get_prandom_u32());
	return 0;
}

SEC("struct_ops.s/helpers_init")
s32 BPF_PROG(helpers_init)
{
	int result = maps();

	if (!result)
		result = others();
	CHECK(!fails);
	quotient = number / divisor;
	remainder = number % divisor;
	CHECK(quotient == 0 && remainder == -7);
	CHECK(loaded == numbers[0] + numbers[1]);
	return result;
}

SEC(".struct_ops.link")
struct sched_ext_ops helpers_ops = {
	.init = (void *)helpers_init,
	.name = "helpers",
};
