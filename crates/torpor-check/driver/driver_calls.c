// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Runs the idle loop of the CPUs in a block. Every part of a sequence stays legal: the tick, the
 * clock and the end of a sleep follow from the governor's answers. Nothing is judged here.
 *
 * Compiled without the sanitizers. Memory that they guard must be copied byte by byte, as they
 * intercept memcpy().
 */
#include <linux/cpuidle.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/pm_qos.h>
#include <linux/sched.h>
#include <torpor/context.h>

#include "block.h"

/* Refers to the member of that name. */
#undef nr_cpu_ids

#define CPUIDLE_POLL_MIN_NS	10000
#define CPUIDLE_POLL_MAX_NS	(TICK_NSEC / 16)

/* Absent without AddressSanitizer. */
void __asan_poison_memory_region(const volatile void *start, size_t size) __attribute__((weak));
void __asan_unpoison_memory_region(const volatile void *start, size_t size) __attribute__((weak));

extern char torpor_data_begin[], torpor_data_end[], torpor_bss_begin[], torpor_bss_end[];
extern char __start_torpor_kapi[], __stop_torpor_kapi[];
extern char __start_torpor_percpu[], __stop_torpor_percpu[];

struct torpor_image {
	u32 numbers[8];
	struct kapi_host *host;
	const struct kapi_param *params_start, *params_end;
	int (*init)(void);
};

extern const struct torpor_image torpor_image;

/* A range of statics and its contents after init(). */
struct snapshot {
	char *start;
	size_t size;
	char *copy;
};

struct cpu {
	struct kapi_cpu *kapi;
	struct cpuidle_device *dev;
	char *percpu;
	u64 clock_ns;
	bool is_enabled;
};

static struct snapshot snapshots[4];
static struct cpu cpus[BLOCK_CPUS];
static struct cpuidle_driver *driver;
static struct kapi_governor *governor;
static struct kapi_cpu **cpu_by_id;
static struct block *block;

static void copy_bytes(volatile char *to, const volatile char *from, size_t size)
{
	while (size--)
		*to++ = *from++;
}

static void copy_text(char *to, const char *from)
{
	size_t i = 0;

	for (; from && from[i] && i < BLOCK_TEXT - 1; i++)
		to[i] = from[i];
	to[i] = 0;
}

void kapi_bug(const char *file, unsigned int line)
{
	copy_text(block->bug_file, file);
	block->bug_line = line;
	driver_exit();
}

static void enter(unsigned int phase, unsigned int cpu)
{
	block->phase = phase;
	block->phase_cpu = cpu;
}

static int refuse(const char *why)
{
	copy_text(block->error, why);
	return -1;
}

static int snapshot(int i, char *start, char *end)
{
	if (end < start)
		return refuse("the linker has not kept the order of the objects");
	snapshots[i].start = start;
	snapshots[i].size = end - start;
	snapshots[i].copy = driver_memory(end - start + 1);
	copy_bytes(snapshots[i].copy, start, end - start);
	return 0;
}

static bool names_equal(const char *a, const char *b)
{
	for (int i = 0; i < CPUIDLE_NAME_LEN; i++) {
		if (a[i] != b[i])
			return i == CPUIDLE_NAME_LEN - 1;
		if (!a[i])
			return true;
	}
	return true;
}

/* Returns the governor with the file's name, or else, as the kernel does, the highest rated. */
static struct kapi_governor *registered(const char *name)
{
	struct kapi_governor *best = NULL;

	for (unsigned int i = 0; i < kapi_host.nr_governors; i++) {
		struct kapi_governor *one = kapi_host.governors[i];

		if (names_equal(one->name, name))
			return one;
		if (!best || one->rating >= best->rating)
			best = one;
	}
	return best;
}

static void set_params(void)
{
	const struct kapi_param *param = torpor_image.params_start;

	for (; param < torpor_image.params_end; param++) {
		for (unsigned int i = 0; i < block->param_count; i++) {
			const struct block_param *given = &block->params[i];

			if (!param->name || !param->type || strcmp(param->name, given->name))
				continue;
			if (given->size) {
				copy_bytes(param->value, (const char *)&given->raw, given->size);
			} else {
				const struct kernel_param *own = param->value;

				own->ops->set(given->text, own);
			}
		}
	}
}

int calls_start(struct block *shared, const char *name)
{
	size_t percpu_size = __stop_torpor_percpu - __start_torpor_percpu;
	int ret;

	block = shared;
	driver = driver_memory(sizeof(*driver));
	cpu_by_id = driver_memory(sizeof(*cpu_by_id));
	for (int i = 0; i < BLOCK_CPUS; i++) {
		cpus[i].kapi = driver_memory(sizeof(*cpus[i].kapi));
		cpus[i].dev = driver_memory(sizeof(*cpus[i].dev));
		cpus[i].percpu = driver_memory(percpu_size);
		cpus[i].kapi->percpu_offset = cpus[i].percpu - __start_torpor_percpu;
	}
	kapi_host.cpu = cpus[0].kapi;
	cpu_by_id[0] = cpus[0].kapi;
	kapi_host.cpu_by_id = cpu_by_id;
	kapi_host.nr_cpu_ids = 1;
	set_params();
	enter(PHASE_INIT, 0);
	ret = torpor_image.init();
	if (ret)
		return refuse("init() fails");
	governor = registered(name);
	if (!governor)
		return refuse("it registers no governor");
	return snapshot(0, torpor_data_begin, torpor_data_end) ||
	       snapshot(1, torpor_bss_begin, torpor_bss_end) ||
	       snapshot(2, __start_torpor_kapi, __stop_torpor_kapi) ||
	       snapshot(3, __start_torpor_percpu, __stop_torpor_percpu);
}

/* States beyond the table are uninitialised memory. */
static void guard_unused(void)
{
	size_t count = block->state_count, unused = CPUIDLE_STATE_MAX - count;

	if (!__asan_poison_memory_region)
		return;
	__asan_unpoison_memory_region(driver->states, sizeof(driver->states));
	__asan_poison_memory_region(&driver->states[count], unused * sizeof(driver->states[0]));
	for (unsigned int i = 0; i < block->cpu_count; i++) {
		struct cpuidle_state_usage *usage = cpus[i].dev->states_usage;

		__asan_unpoison_memory_region(usage, CPUIDLE_STATE_MAX * sizeof(*usage));
		__asan_poison_memory_region(&usage[count], unused * sizeof(*usage));
	}
}

static void fill_driver(void)
{
	static const struct cpuidle_driver empty;

	copy_bytes((char *)driver, (const char *)&empty, sizeof(empty));
	driver->name = "torpor";
	driver->state_count = block->state_count;
	for (unsigned int i = 0; i < block->state_count; i++) {
		const struct block_state *from = &block->states[i];
		struct cpuidle_state *to = &driver->states[i];

		to->name[0] = to->desc[0] = 'S';
		to->name[1] = to->desc[1] = '0' + i;
		to->exit_latency_ns = from->exit_latency_ns;
		to->target_residency_ns = from->target_residency_ns;
		to->exit_latency = min((u64)from->exit_latency_ns / 1000, (u64)UINT_MAX);
		to->target_residency = min((u64)from->target_residency_ns / 1000, (u64)UINT_MAX);
		to->flags = from->is_polling ? CPUIDLE_FLAG_POLLING : 0;
	}
}

static void fill_cpu(struct cpu *cpu, const struct block_cpu *from)
{
	static const struct cpuidle_device empty;
	unsigned long offset = cpu->kapi->percpu_offset;

	copy_bytes((char *)cpu->dev, (const char *)&empty, sizeof(empty));
	copy_bytes(cpu->percpu, __start_torpor_percpu,
		   __stop_torpor_percpu - __start_torpor_percpu);
	*cpu->kapi = (struct kapi_cpu){ .percpu_offset = offset, .cpu_id = from->cpu_id,
					  .driver = driver };
	cpu->clock_ns = block->clock_ns;
	cpu->kapi->now_ns = cpu->clock_ns;
	cpu->kapi->capacity = SCHED_CAPACITY_SCALE;
	cpu->kapi->latency_req_ns = PM_QOS_CPU_LATENCY_DEFAULT_VALUE * NSEC_PER_USEC;
	cpu->dev->registered = 1;
	cpu->dev->enabled = 1;
	cpu->dev->cpu = from->cpu_id;
	for (unsigned int i = 0; i < block->state_count; i++)
		cpu->dev->states_usage[i].disable = from->disabled_mask >> i & 1;
}

static void enable(unsigned int place, unsigned int on)
{
	enter(PHASE_ENABLE, place);
	kapi_host.cpu = cpus[on].kapi;
	cpus[place].is_enabled =
		!governor->enable || governor->enable(driver, cpus[place].dev) == 0;
}

static void reset(void)
{
	static u32 ids;

	for (int i = 0; i < 4; i++)
		copy_bytes(snapshots[i].start, snapshots[i].copy, snapshots[i].size);
	if (__asan_unpoison_memory_region) {
		__asan_unpoison_memory_region(driver->states, sizeof(driver->states));
		for (int i = 0; i < BLOCK_CPUS; i++)
			__asan_unpoison_memory_region(cpus[i].dev->states_usage,
						      sizeof(cpus[i].dev->states_usage));
	}
	fill_driver();
	for (u32 i = 0; i < block->cpu_count; i++) {
		fill_cpu(&cpus[i], &block->cpus[i]);
		if (block->cpus[i].cpu_id >= ids) {
			/* Old tables are few and small; the governor may not keep a pointer to one. */
			ids = block->cpus[i].cpu_id + 1;
			cpu_by_id = driver_memory(ids * sizeof(*cpu_by_id));
		}
	}
	for (u32 i = 0; i < ids; i++)
		cpu_by_id[i] = NULL;
	kapi_host.cpu_by_id = cpu_by_id;
	kapi_host.nr_cpu_ids = 0;
	for (u32 i = 0; i < block->cpu_count; i++) {
		u32 id = block->cpus[i].cpu_id;

		cpu_by_id[id] = cpus[i].kapi;
		kapi_host.nr_cpu_ids = max(kapi_host.nr_cpu_ids, id + 1);
	}
	guard_unused();
}

/* The kernel's cpuidle_poll_time(). */
static u64 poll_limit_ns(struct cpuidle_device *dev)
{
	u64 limit_ns = CPUIDLE_POLL_MAX_NS;

	if (dev->poll_limit_ns)
		return dev->poll_limit_ns;
	for (int i = 1; i < driver->state_count; i++) {
		if (dev->states_usage[i].disable ||
		    driver->states[i].target_residency_ns < CPUIDLE_POLL_MIN_NS)
			continue;
		limit_ns = min((u64)driver->states[i].target_residency_ns, limit_ns);
		break;
	}
	dev->poll_limit_ns = limit_ns;
	return limit_ns;
}

/* Returns the length of a sleep in @state, as the kernel measures it. */
static u64 sleep_ns(struct cpu *cpu, const struct block_step *step, int state, s64 event_ns)
{
	u64 until_event_ns = max(event_ns, (s64)0) + (u64)step->late_ns;
	struct cpuidle_device *dev = cpu->dev;
	u64 limit_ns;

	if (!(driver->states[state].flags & CPUIDLE_FLAG_POLLING))
		return min((u64)step->residency_ns, until_event_ns);
	limit_ns = poll_limit_ns(dev);
	dev->poll_time_limit = !!(step->flags & FLAG_POLL_TIMEOUT);
	if (dev->poll_time_limit)
		return limit_ns + step->late_ns;
	return min((u64)step->residency_ns, limit_ns);
}

static int entered_state(struct cpu *cpu, const struct block_step *step, int state)
{
	if (!(step->flags & FLAG_SHALLOWER))
		return state;
	for (int i = state - 1; i >= 0; i--) {
		if (!cpu->dev->states_usage[i].disable && driver->states[i].exit_latency_ns > 0)
			return i;
	}
	return state;
}

static void ask(struct cpu *cpu, const struct block_step *step, struct block_answer *answer)
{
	struct kapi_cpu *kapi = cpu->kapi;
	s64 sleep_length_ns = step->sleep_length_ns;
	s64 event_ns = min(sleep_length_ns, (s64)step->event_ns);

	if (kapi->tick_stopped && !(step->flags & FLAG_EARLY_EVENT))
		event_ns = sleep_length_ns;
	if (step->flags & FLAG_TICK_HELD)
		sleep_length_ns = event_ns;
	kapi->now_ns = cpu->clock_ns;
	kapi->sleep_length_ns = sleep_length_ns;
	kapi->delta_next_ns = event_ns;
	kapi->latency_req_ns = step->latency_req_ns;
	kapi->nr_iowait = step->nr_iowait;
	kapi->util = step->util;
	kapi->capacity = step->capacity;
	kapi->stop_tick = true;
	kapi->asked_sleep_length = false;
	kapi_host.cpu = kapi;
	answer->now_ns = cpu->clock_ns;
	answer->sleep_length_ns = sleep_length_ns;
	answer->event_ns = event_ns;
	answer->tick_was_stopped = kapi->tick_stopped;
	enter(PHASE_SELECT, step->cpu);
	answer->state = governor->select(driver, cpu->dev, &kapi->stop_tick);
	answer->stop_tick = *(volatile unsigned char *)&kapi->stop_tick;
	answer->asked_sleep_length = kapi->asked_sleep_length;
}

/* Returns whether the governor can be called again: not after an invalid index. */
static bool idle(struct cpu *cpu, const struct block_step *step, struct block_answer *answer)
{
	struct kapi_cpu *kapi = cpu->kapi;
	u64 started_ns = 0;
	int state;

	if (block->is_timed)
		started_ns = driver_clock_ns();
	ask(cpu, step, answer);
	state = answer->state;
	if (state < 0 || state >= driver->state_count)
		return false;
	if (answer->stop_tick && answer->sleep_length_ns > answer->event_ns)
		kapi->tick_stopped = true;
	if (step->flags & FLAG_REJECT) {
		cpu->dev->last_residency_ns = 0;
	} else {
		state = entered_state(cpu, step, state);
		answer->entered = state;
		answer->slept_ns = sleep_ns(cpu, step, state, answer->event_ns);
		answer->got_tick = step->flags & FLAG_GOT_TICK && !kapi->tick_stopped &&
				   (s64)answer->slept_ns >= answer->event_ns;
		cpu->dev->last_residency_ns = answer->slept_ns;
		cpu->clock_ns += answer->slept_ns + step->lag_ns;
		kapi->now_ns = cpu->clock_ns;
		kapi->got_tick = answer->got_tick;
		enter(PHASE_REFLECT, step->cpu);
		if (governor->reflect)
			governor->reflect(cpu->dev, state);
	}
	if (block->is_timed)
		answer->time_ns = min(driver_clock_ns() - started_ns, (u64)UINT_MAX);
	if (step->flags & FLAG_BUSY_AFTER)
		kapi->tick_stopped = false;
	return true;
}

static void replug(struct cpu *cpu, const struct block_step *step)
{
	enter(PHASE_DISABLE, step->cpu);
	kapi_host.cpu = cpu->kapi;
	if (cpu->is_enabled && governor->disable)
		governor->disable(driver, cpu->dev);
	if (step->flags & FLAG_OTHER_GOVERNOR)
		cpu->dev->last_state_idx = min((step->arg & 15) - 1, driver->state_count - 1);
	cpu->kapi->tick_stopped = false;
	enable(step->cpu, step->arg >> 4);
}

static bool run_step(const struct block_step *step, struct block_answer *answer)
{
	struct cpu *cpu = &cpus[step->cpu];
	bool goes_on = true;

	*answer = (struct block_answer){ .entered = -1, .state = -1, .has_run = 1 };
	cpu->clock_ns += step->gap_ns;
	cpu->kapi->now_ns = cpu->clock_ns;
	switch (step->op) {
	case OP_IDLE:
		if (cpu->is_enabled)
			goes_on = idle(cpu, step, answer);
		else
			answer->has_run = 0;
		break;
	case OP_TOGGLE:
		cpu->dev->states_usage[step->arg].disable ^= 1;
		cpu->dev->poll_limit_ns = 0;
		break;
	case OP_REPLUG:
		replug(cpu, step);
		break;
	}
	for (int i = 0; i < driver->state_count; i++)
		answer->disabled_mask |= (cpu->dev->states_usage[i].disable & 1) << i;
	if (kapi_host.warn_count) {
		copy_text(block->warn_file, kapi_host.warn_file);
		block->warn_line = kapi_host.warn_line;
		kapi_host.warn_count = 0;
		answer->warned = 1;
	}
	return goes_on;
}

void calls_run(struct block *shared)
{
	block->progress = 0;
	reset();
	/* As when a driver is registered: one CPU enables the governor for all. */
	for (u32 i = 0; i < block->cpu_count; i++)
		enable(i, 0);
	for (u32 i = 0; i < block->step_count; i++) {
		block->progress = i + 1;
		if (!run_step(&block->steps[i], &block->answers[i]))
			return;
	}
}
