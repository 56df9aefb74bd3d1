/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The configuration of a hosted kernel, in place of the one that `make config` writes. CONFIG_HZ
 * comes with the compiler's command line.
 */

/* The machine. */
#define CONFIG_64BIT 1
#define CONFIG_SMP 1
#define CONFIG_NR_CPUS 256
#define CONFIG_THREAD_INFO_IN_TASK 1
#define CONFIG_HAVE_64BIT_ALIGNED_ACCESS 1
#define CONFIG_ARCH_DMA_ADDR_T_64BIT 1
#define CONFIG_PHYS_ADDR_T_64BIT 1
#define CONFIG_ILLEGAL_POINTER_VALUE 0xdead000000000000
#define CONFIG_PAGE_SHIFT 12
#define CONFIG_PAGE_SIZE_4KB 1
#define CONFIG_PGTABLE_LEVELS 2
#define CONFIG_FLATMEM 1
#define CONFIG_ARCH_HAS_CPU_RELAX 1
#define CONFIG_CC_HAS_ASM_GOTO_OUTPUT 1
#define CONFIG_GENERIC_BUG 1
#define CONFIG_GENERIC_CSUM 1
#define CONFIG_GENERIC_HWEIGHT 1
#define CONFIG_GENERIC_ARCH_TOPOLOGY 1

/* Scheduler. */
#define CONFIG_PREEMPT_NONE 1
#define CONFIG_SCHED_MC 1
#define CONFIG_SCHED_SMT 1
#define CONFIG_SCHED_CLUSTER 1
#define CONFIG_SCHED_DEBUG 1
#define CONFIG_UCLAMP_TASK 1
#define CONFIG_UCLAMP_BUCKETS_COUNT 5
#define CONFIG_DEFAULT_HUNG_TASK_TIMEOUT 120

/* Time. */
#define CONFIG_GENERIC_CLOCKEVENTS 1
#define CONFIG_TICK_ONESHOT 1
#define CONFIG_NO_HZ_COMMON 1
#define CONFIG_NO_HZ_IDLE 1
#define CONFIG_NO_HZ 1
#define CONFIG_HIGH_RES_TIMERS 1
#define CONFIG_POSIX_TIMERS 1
#define CONFIG_IRQ_WORK 1

/* RCU: its own files are not hosted, see rcu.c of the host. */
#define CONFIG_TREE_RCU 1
#define CONFIG_SRCU 1
#define CONFIG_TREE_SRCU 1
#define CONFIG_RCU_FANOUT 64
#define CONFIG_RCU_FANOUT_LEAF 16

/* Idle, frequency, energy. */
#define CONFIG_CPU_IDLE 1
#define CONFIG_CPU_IDLE_MULTIPLE_DRIVERS 1
#define CONFIG_CPU_IDLE_GOV_LADDER 1
#define CONFIG_CPU_IDLE_GOV_MENU 1
#define CONFIG_CPU_IDLE_GOV_TEO 1
#define CONFIG_CPU_FREQ 1
#define CONFIG_CPU_FREQ_GOV_ATTR_SET 1
#define CONFIG_CPU_FREQ_GOV_SCHEDUTIL 1
#define CONFIG_CPU_FREQ_DEFAULT_GOV_SCHEDUTIL 1
#define CONFIG_ENERGY_MODEL 1

/* The rest of the kernel, as far as the hosted files look at it. */
#define CONFIG_BUG 1
#define CONFIG_PRINTK 1
#define CONFIG_LOG_BUF_SHIFT 17
#define CONFIG_FUTEX 1
#define CONFIG_MULTIUSER 1
#define CONFIG_SLUB 1
/* Older trees ask for it by value. */
#define CONFIG_BASE_SMALL 0
