// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Runs the governor's part of the kernel's own kernel/sched/cpufreq_schedutil.c (all before its
 * sysfs interface, as "sugov.c") over updates read from stdin, and writes what it decides. Around
 * it is the least of the kernel that it compiles with. Compile with -DLINUX_6_1 for that one.
 * Little-endian 64-bit words throughout.
 *
 * Arguments: CPUs that share the clock, rate limit in ns, capacity, the OPPs' kHz, rising.
 * In:  cpu, time_ns, util | runnable << 32, uclamp_min | uclamp_max << 32, idle_calls
 * Out: next_freq, last_freq_update_time
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint64_t u64;
typedef int64_t s64;

#define CONFIG_NO_HZ_COMMON	1
#define CONFIG_NO_HZ_FULL	1
#define NSEC_PER_USEC		1000L
#define TICK_NSEC		4000000L
#define SCHED_CAPACITY_SHIFT	10
#define SCHED_CAPACITY_SCALE	(1L << SCHED_CAPACITY_SHIFT)
#define SCHED_CPUFREQ_IOWAIT	1
#define CPUFREQ_NEED_UPDATE_LIMITS 1
#define CPUFREQ_RELATION_L	0
#define CPUS_MAX		8

#undef __always_inline
#define __always_inline		inline __attribute__((__always_inline__))
#define unlikely(x)		(x)
#define READ_ONCE(x)		(x)
#define WRITE_ONCE(x, v)	((x) = (v))
#define smp_mb()		do { } while (0)
#define min(a, b)		((a) < (b) ? (a) : (b))
#define max(a, b)		((a) > (b) ? (a) : (b))
#define min_t(t, a, b)		min((t)(a), (t)(b))
#define container_of(p, t, m)	((t *)((char *)(p) - offsetof(t, m)))
#define DEFINE_PER_CPU(t, name)	t name[CPUS_MAX]
#define per_cpu(name, cpu)	(name[cpu])
#define guard(kind)		(void)

typedef int raw_spinlock_t;
#define raw_spin_lock(l)	(void)(l)
#define raw_spin_unlock(l)	(void)(l)
#define raw_spin_lock_irqsave(l, f)	((void)(l), (f) = 0)
#define raw_spin_unlock_irqrestore(l, f) ((void)(l), (void)(f))

struct list_head { int none; };
struct mutex { int none; };
#define mutex_lock(m)		(void)(m)
#define mutex_unlock(m)		(void)(m)
struct gov_attr_set { struct mutex update_lock; };
struct irq_work { int none; };
struct kthread_work { int none; };
struct kthread_worker { int none; };
struct task_struct;
struct update_util_data { int none; };
#define irq_work_queue(w)	(void)(w)
#define kthread_queue_work(k, w) ((void)(k), (void)(w))

struct cpufreq_policy {
	unsigned int cpu;
	unsigned int cur;
	struct { unsigned int max_freq; } cpuinfo;
	bool fast_switch_enabled;
	int cpus;
};

struct rq {
	unsigned long util, runnable;
	unsigned long clamp_min, clamp_max;
	unsigned long idle_calls;
};

static struct rq rqs[CPUS_MAX];
static unsigned long capacity;
static unsigned int freqs[64];
static int freq_count;

#define for_each_cpu(j, count)	for ((j) = 0; (j) < (unsigned int)(count); (j)++)
#define cpu_rq(cpu)		(&rqs[cpu])
#define cpu_bw_dl(rq)		(0 * (rq)->util)
#define arch_scale_cpu_capacity(cpu)	((void)(cpu), capacity)
#define arch_scale_freq_invariant()	true
#define arch_scale_freq_ref(cpu)	((void)(cpu), freqs[freq_count - 1])
#define cpufreq_this_cpu_can_update(p)	((void)(p), true)
#define cpufreq_driver_test_flags(f)	false
#define cpufreq_driver_fast_switch(p, f) ((void)(p), (void)(f))
#define cpufreq_driver_adjust_perf(c, a, b, d) (void)0
#define __cpufreq_driver_target(p, f, r) (void)0
#define tick_nohz_get_idle_calls_cpu(cpu) (rqs[cpu].idle_calls)
#define scx_cpuperf_target(cpu)		0
#define scx_switched_all()		false
#define map_util_perf(util)		((util) + ((util) >> 2))
#define map_util_freq(util, freq, cap)	((freq) * (unsigned long)(util) / (cap))

static unsigned int cpufreq_driver_resolve_freq(struct cpufreq_policy *policy, unsigned int freq)
{
	int i = 0;

	(void)policy;
	while (i < freq_count - 1 && freqs[i] < freq)
		i++;
	return freqs[i];
}

static bool uclamp_rq_is_capped(struct rq *rq)
{
	return rq->clamp_max != SCHED_CAPACITY_SCALE && rq->util >= rq->clamp_max;
}

#ifdef LINUX_6_1
enum cpu_util_type { FREQUENCY_UTIL };
#define cpu_util_cfs(cpu)	(rqs[cpu].util)

static unsigned long uclamp_rq_util_with(struct rq *rq, unsigned long util, void *task)
{
	(void)task;
	return max(min(util, rq->clamp_max), rq->clamp_min);
}

static unsigned long effective_cpu_util(int cpu, unsigned long util, enum cpu_util_type type,
					void *task)
{
	(void)type;
	return min(uclamp_rq_util_with(&rqs[cpu], util, task), capacity);
}
#else
#define cpu_util_cfs_boost(cpu)	min(max(rqs[cpu].util, rqs[cpu].runnable), capacity)

static unsigned long effective_cpu_util(int cpu, unsigned long util, unsigned long *low,
					unsigned long *high)
{
	*low = rqs[cpu].clamp_min;
	*high = min(capacity, rqs[cpu].clamp_max);
	return min(util, capacity);
}
#endif

#include "sugov.c"

int main(int argc, char **argv)
{
	struct cpufreq_policy policy = { .fast_switch_enabled = true };
	struct sugov_policy sugov = { .policy = &policy };
	u64 in[5];
	int i;

	policy.cpus = atoi(argv[1]);
	sugov.freq_update_delay_ns = atoll(argv[2]);
	capacity = strtoul(argv[3], NULL, 10);
	for (i = 4; i < argc; i++)
		freqs[freq_count++] = strtoul(argv[i], NULL, 10);
	policy.cpuinfo.max_freq = freqs[freq_count - 1];
	for (i = 0; i < policy.cpus; i++) {
		sugov_cpu[i] = (struct sugov_cpu){ .cpu = i, .sg_policy = &sugov };
		rqs[i].clamp_max = SCHED_CAPACITY_SCALE;
	}
	while (fread(in, sizeof(in), 1, stdin) == 1) {
		struct rq *rq = &rqs[in[0]];
		u64 out[2];

		rq->util = in[2] & 0xffffffff;
		rq->runnable = in[2] >> 32;
		rq->clamp_min = in[3] & 0xffffffff;
		rq->clamp_max = in[3] >> 32;
		rq->idle_calls = in[4];
		if (policy.cpus == 1)
			sugov_update_single_freq(&sugov_cpu[0].update_util, in[1], 0);
		else
			sugov_update_shared(&sugov_cpu[in[0]].update_util, in[1], 0);
		out[0] = sugov.next_freq;
		out[1] = sugov.last_freq_update_time;
		fwrite(out, sizeof(out), 1, stdout);
	}
	return 0;
}
