/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Symbols of the kernel that governors and the core need and that it does not export.
 *
 * Functions are called by static calls: a direct call on architectures that patch code. It costs
 * the same as in the kernel, and can enter a function whose landing pad for indirect calls has been
 * removed (IBT).
 */
#ifndef _TORPOR_SYMBOLS_H
#define _TORPOR_SYMBOLS_H

#include <linux/cpuidle.h>
#include <linux/sched.h>
#include <linux/sched/stat.h>
#include <linux/static_call.h>
#include <linux/tick.h>

/* From drivers/cpuidle/cpuidle.h, which modules cannot include. */
int cpuidle_switch_governor(struct cpuidle_governor *gov);

#ifdef CONFIG_SMP
#define TORPOR_SMP_FUNCTIONS(X)		X(sched_cpu_util)
#else
#define TORPOR_SMP_FUNCTIONS(X)
#endif

#define TORPOR_FUNCTIONS(X)		\
	X(cpuidle_governor_latency_req)	\
	X(nr_iowait_cpu)		\
	X(tick_nohz_get_sleep_length)	\
	X(tick_nohz_idle_got_tick)	\
	X(tick_nohz_tick_stopped)	\
	TORPOR_SMP_FUNCTIONS(X)

#define TORPOR_DECLARE(name)		DECLARE_STATIC_CALL(torpor_##name, name);
TORPOR_FUNCTIONS(TORPOR_DECLARE)
#undef TORPOR_DECLARE

/* Data; NULL if the kernel lists no data symbols (CONFIG_KALLSYMS_ALL). */
extern bool *torpor_tick_nohz_enabled;

#endif /* _TORPOR_SYMBOLS_H */
