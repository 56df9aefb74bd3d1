/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Configuration of a hosted kernel, instead of `make config`: the part that no user changes.
 * options.txt has the other options.
 */

/* The machine. */
#define CONFIG_64BIT 1
#define CONFIG_SMP 1
#define CONFIG_NR_CPUS 1024
#define CONFIG_THREAD_INFO_IN_TASK 1
#define CONFIG_HAVE_64BIT_ALIGNED_ACCESS 1
#define CONFIG_ARCH_DMA_ADDR_T_64BIT 1
#define CONFIG_PHYS_ADDR_T_64BIT 1
#define CONFIG_ILLEGAL_POINTER_VALUE 0xdead000000000000
#define CONFIG_PAGE_SHIFT 12
#define CONFIG_PAGE_SIZE_4KB 1
#define CONFIG_PGTABLE_LEVELS 2
#define CONFIG_FLATMEM 1
/* No page table has a lock of its own. */
#define CONFIG_SPLIT_PTLOCK_CPUS 999999
#define CONFIG_ARCH_HAS_CPU_RELAX 1
#define CONFIG_CC_HAS_ASM_GOTO_OUTPUT 1
#define CONFIG_GENERIC_BUG 1
#define CONFIG_GENERIC_CSUM 1
#define CONFIG_GENERIC_HWEIGHT 1
#define CONFIG_GENERIC_ARCH_TOPOLOGY 1

/* Scheduler. */
#define CONFIG_SCHED_DEBUG 1
#define CONFIG_DEFAULT_HUNG_TASK_TIMEOUT 120

/* Control groups of the scheduler; other controllers have none of its decisions. */
#define CONFIG_CGROUPS 1
#define CONFIG_CGROUP_SCHED 1
#define CONFIG_GROUP_SCHED_WEIGHT 1
#define CONFIG_FAIR_GROUP_SCHED 1
#define CONFIG_CFS_BANDWIDTH 1
#define CONFIG_GROUP_SCHED_BANDWIDTH 1

/* Time. */
#define CONFIG_GENERIC_CLOCKEVENTS 1
#define CONFIG_TICK_ONESHOT 1
#define CONFIG_POSIX_TIMERS 1
#define CONFIG_IRQ_WORK 1

/* Read-copy-update. */
#define CONFIG_CONTEXT_TRACKING 1
#define CONFIG_CONTEXT_TRACKING_IDLE 1
#define CONFIG_TREE_RCU 1
#define CONFIG_SRCU 1
#define CONFIG_TREE_SRCU 1
#define CONFIG_RCU_STALL_COMMON 1
#define CONFIG_RCU_NEED_SEGCBLIST 1
#define CONFIG_RCU_CPU_STALL_TIMEOUT 21
#define CONFIG_RCU_EXP_CPU_STALL_TIMEOUT 0
#define CONFIG_RCU_FANOUT 64
#define CONFIG_RCU_FANOUT_LEAF 16
/* The load begins after the end of the start, which some trees delay for RCU. */
#define CONFIG_RCU_BOOT_END_DELAY 0

/* Idle, frequency, energy. */
#define CONFIG_CPU_IDLE 1
#define CONFIG_CPU_IDLE_MULTIPLE_DRIVERS 1
#define CONFIG_CPU_FREQ 1
#define CONFIG_CPU_FREQ_GOV_ATTR_SET 1
#define CONFIG_CPU_FREQ_GOV_COMMON 1
/* Limits of a CPU's wake-up latency. */
#define CONFIG_PM 1

/* Files that are written. */
#define CONFIG_HOTPLUG_CPU 1
#define CONFIG_SYSFS 1
#define CONFIG_SYSCTL 1
#define CONFIG_PROC_SYSCTL 1
#define CONFIG_DEBUG_FS 1
#define CONFIG_SYMBOLIC_ERRNAME 1

/* Other options that the hosted files test. */
#define CONFIG_BUG 1
#define CONFIG_PRINTK 1
#define CONFIG_LOG_BUF_SHIFT 17
#define CONFIG_FUTEX 1
#define CONFIG_MULTIUSER 1
#define CONFIG_SLUB 1
/* Older trees test its value. */
#define CONFIG_BASE_SMALL 0
