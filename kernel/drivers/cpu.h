/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The CPU's part of an idle state: waiting for an interrupt, and spending time. Also waits until
 * all CPUs have left a driver's states.
 */
#ifndef _TORPOR_CPU_H
#define _TORPOR_CPU_H

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#if defined(CONFIG_X86_64)
#include <asm/msr.h>
#include <asm/tsc.h>

/*
 * Called and left with interrupts off. The interrupt is handled in here: sti delays it by one
 * instruction, so none is handled before hlt.
 */
static __always_inline void torpor_wait_for_interrupt(void)
{
	asm volatile("sti; hlt; cli" ::: "memory");
}

static __always_inline u64 torpor_cycles(void)
{
	return rdtsc();
}

static inline unsigned long torpor_cycles_khz(void)
{
	return tsc_khz;
}

/* Two instructions per iteration, which do not leave an emulator's translated block. */
static __always_inline void torpor_count_down(unsigned long rounds)
{
	asm volatile("1: dec %0; jnz 1b" : "+r" (rounds) : : "cc");
}

#elif defined(CONFIG_ARM64)
#include <asm/arch_timer.h>
#include <asm/barrier.h>
#include <asm/cpuidle.h>

/* Called and left with interrupts off; the core enables them, and the pending one is handled. */
static __always_inline void torpor_wait_for_interrupt(void)
{
	struct arm_cpuidle_irq_context context;

	arm_cpuidle_save_irq_context(&context);
	dsb(sy);
	wfi();
	arm_cpuidle_restore_irq_context(&context);
}

static __always_inline u64 torpor_cycles(void)
{
	return __arch_counter_get_cntvct();
}

static inline unsigned long torpor_cycles_khz(void)
{
	return arch_timer_get_cntfrq() / 1000;
}

/* Two instructions per iteration. */
static __always_inline void torpor_count_down(unsigned long rounds)
{
	asm volatile("1: subs %0, %0, #1; b.ne 1b" : "+r" (rounds) : : "cc");
}

#else
#error "idle states are served on x86-64 and arm64 only"
#endif

static inline long torpor_nothing(void *unused)
{
	return 0;
}

/*
 * Called when no CPU can enter a state any more; returns when all have left them.
 *
 * A driver with an .owner could not be unloaded, since each registered device holds a reference.
 * Without an owner, unregistering is not enough: it waits for RCU, but a CPU in an idle state is
 * not an RCU reader and may still be spending its exit latency. A CPU that runs another task has
 * left the idle task's code.
 */
static inline void torpor_wait_until_left(void)
{
	unsigned int cpu;

	cpus_read_lock();
	for_each_online_cpu(cpu)
		work_on_cpu(cpu, torpor_nothing, NULL);
	cpus_read_unlock();
}

#endif /* _TORPOR_CPU_H */
