// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Runs the kernel's own kernel/sched/pelt.c, untouched, over updates read from stdin, and writes
 * what they lead to. Around it is the least of the scheduler's structures that it compiles
 * with. Compile with -I to the tree's kernel/sched, and with -DUTIL_EST_STRUCT for Linux 6.1.
 * Little-endian 64-bit words throughout.
 *
 * In:  kind 0: now_ns, load, runnable, running -> a fair runqueue's average
 *      kind 1: real_ns, is_idle, capacity, freq | fall_idle << 32 -> the runqueue's clock
 * Out: kind 0: updated_ns, period_units, the three sums, the three averages
 *      kind 1: rq_clock_pelt(), six zeros, rq->lost_idle_time
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define CONFIG_SMP 1
#define CONFIG_64BIT 1

typedef uint64_t u64;
typedef uint32_t u32;
typedef int64_t s64;

#undef __always_inline
#define __always_inline		inline __attribute__((__always_inline__))
#define __maybe_unused		__attribute__((__unused__))
#define likely(x)		(x)
#define unlikely(x)		(x)
#define READ_ONCE(x)		(x)
#define WRITE_ONCE(x, v)	((x) = (v))
#define rcu_dereference(x)	(x)
#define smp_wmb()		do { } while (0)

#define SCHED_CAPACITY_SHIFT	10
#define cap_scale(v, s)		((v) * (s) >> SCHED_CAPACITY_SHIFT)
#define scale_load_down(w)	(w)
#define sched_feat(x)		0
#define UTIL_AVG_UNCHANGED	0x80000000
#define u64_u32_store(to, v)	((to) = (v))

static inline u64 mul_u64_u32_shr(u64 a, u32 mul, unsigned int shift)
{
	return ((unsigned __int128)a * mul) >> shift;
}

static inline u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}

struct sched_avg {
	u64 last_update_time;
	u64 load_sum;
	u64 runnable_sum;
	u32 util_sum;
	u32 period_contrib;
	unsigned long load_avg;
	unsigned long runnable_avg;
	unsigned long util_avg;
#ifdef UTIL_EST_STRUCT
	struct {
		unsigned int enqueued;
	} util_est;
#else
	unsigned int util_est;
#endif
};

struct load_weight {
	unsigned long weight;
};

struct cfs_rq;

struct sched_entity {
	struct load_weight load;
	unsigned int on_rq;
	struct sched_avg avg;
};

struct cfs_rq {
	struct load_weight load;
	unsigned int h_nr_queued;
	unsigned int h_nr_running;
	unsigned int h_nr_delayed;
	struct sched_entity *curr;
	struct sched_avg avg;
};

struct sched_class {
	int none;
};

struct task_struct {
	bool is_idle;
	const struct sched_class *sched_class;
};

struct rq {
	struct cfs_rq cfs;
	struct sched_avg avg_rt, avg_dl, avg_irq, avg_hw;
	struct task_struct *curr;
	u64 clock, clock_task, clock_pelt, lost_idle_time, clock_idle, clock_pelt_idle;
};

static unsigned long capacity, freq;
static const struct sched_class rt_sched_class, dl_sched_class;

#define cpu_of(rq)			0
#define arch_scale_cpu_capacity(cpu)	((void)(cpu), capacity)
#define arch_scale_freq_capacity(cpu)	((void)(cpu), freq)
#define arch_scale_hw_pressure(cpu)	0UL
#define is_idle_task(task)		((task)->is_idle)
#define rq_clock(rq)			((rq)->clock)
#define rq_clock_task(rq)		((rq)->clock_task)
#define rq_of(cfs)			((struct rq *)(cfs))
#define lockdep_assert_rq_held(rq)	do { } while (0)
#define assert_clock_updated(rq)	do { } while (0)
#define se_weight(se)			((se)->load.weight)
#define se_runnable(se)			((long)(se)->on_rq)
#define trace_pelt_cfs_tp(x)		do { } while (0)
#define trace_pelt_se_tp(x)		do { } while (0)
#define trace_pelt_rt_tp(x)		do { } while (0)
#define trace_pelt_dl_tp(x)		do { } while (0)
#define trace_pelt_irq_tp(x)		do { } while (0)
#define trace_pelt_hw_tp(x)		do { } while (0)

#include "pelt.h"
#include "pelt.c"

int main(void)
{
	static struct sched_entity entity;
	static struct task_struct idle = { true }, task = { false };
	static struct rq fair, timed;
	u64 in[5], out[8];

	while (fread(in, sizeof(in), 1, stdin) == 1) {
		memset(out, 0, sizeof(out));
		if (in[0] == 0) {
			struct sched_avg *avg = &fair.cfs.avg;

			fair.cfs.load.weight = in[2];
			fair.cfs.h_nr_queued = fair.cfs.h_nr_running = in[3];
			fair.cfs.curr = in[4] ? &entity : NULL;
			__update_load_avg_cfs_rq(in[1], &fair.cfs);
			out[0] = avg->last_update_time;
			out[1] = avg->period_contrib;
			out[2] = avg->load_sum;
			out[3] = avg->runnable_sum;
			out[4] = avg->util_sum;
			out[5] = avg->load_avg;
			out[6] = avg->runnable_avg;
			out[7] = avg->util_avg;
		} else {
			u64 passed = in[1] - timed.clock_task;

			timed.clock = timed.clock_task = in[1];
			timed.curr = in[2] ? &idle : &task;
			capacity = in[3];
			freq = (u32)in[4];
			update_rq_clock_pelt(&timed, passed);
			if (in[4] >> 32) {
				/* The sum rides along, less one as 0 stands for "still busy". */
				timed.cfs.avg.util_sum = (in[4] >> 32) - 1;
				update_idle_rq_clock_pelt(&timed);
			}
			out[0] = rq_clock_pelt(&timed);
			out[7] = timed.lost_idle_time;
		}
		fwrite(out, sizeof(out), 1, stdout);
	}
	return 0;
}
