/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_TORPOR_CONTEXT_H
#define _KAPI_TORPOR_CONTEXT_H

/*
 * Interface between the host and a governor's image. crates/torpor-governor/src/abi.rs has the same
 * layouts and compares the sizes when it loads an image.
 */

#include <linux/types.h>

#define TORPOR_IMAGE_ABI 6

struct hrtimer;

/* Maximum of armed timers on a CPU; a governor needs one. */
#define KAPI_TIMERS_MAX 4

struct kapi_timer {
	struct hrtimer *timer;
	s64 expires_ns;
};

/*
 * One per CPU. The host writes the inputs before each call, so that a call such as
 * tick_nohz_get_sleep_length() is one load.
 */
struct kapi_cpu {
	u64 now_ns;
	s64 sleep_length_ns;
	s64 delta_next_ns;
	s64 latency_req_ns;
	unsigned long util;
	unsigned long capacity;
	unsigned int nr_iowait;
	bool tick_stopped;
	bool got_tick;
	/* Outputs of select(). */
	bool stop_tick;
	bool asked_sleep_length;
	/* Constant. */
	unsigned long percpu_offset;
	unsigned int cpu_id;
	/* The armed timers are the first @nr_timers, unsorted. */
	unsigned int nr_timers;
	unsigned long load_avg;
	/* Starts of timers since the image was loaded. */
	unsigned long timer_starts;
	struct kapi_timer timers[KAPI_TIMERS_MAX];
	void *driver;
};

/* One per image. @cpu is the one of the current call. */
struct kapi_host {
	struct kapi_cpu *cpu;
	struct kapi_cpu **cpu_by_id;
	unsigned int nr_cpu_ids;
	unsigned int nr_governors;
	void *governors[4];
	u64 warn_count;
	const char *warn_file;
	const char *bug_file;
	unsigned int warn_line;
	unsigned int bug_line;
};

extern struct kapi_host kapi_host __attribute__((visibility("hidden")));

/*
 * A module parameter, or, with @type NULL, the description of one in @value. Compilers may reorder
 * these, so @line keeps the order of the source.
 */
struct kapi_param {
	const char *name;
	const char *type;
	void *value;
	unsigned long line;
};

void kapi_warn(const char *file, unsigned int line)
	__attribute__((visibility("hidden"), cold));
void kapi_bug(const char *file, unsigned int line)
	__attribute__((visibility("hidden"), cold, noreturn));

static inline struct kapi_cpu *kapi_cpu(unsigned int cpu)
{
	if (__builtin_expect(cpu >= kapi_host.nr_cpu_ids || !kapi_host.cpu_by_id[cpu], 0))
		kapi_bug("access to a CPU that is not part of the run", cpu);
	return kapi_host.cpu_by_id[cpu];
}

#endif /* _KAPI_TORPOR_CONTEXT_H */
