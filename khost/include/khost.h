/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Interface between the simulator and a hosted kernel: the simulated CPUs as
 * both see them, and the calls into the kernel. No header of the kernel is
 * needed here; crates/torpor-sim/src/kernel/abi.rs has the same layout.
 */
#ifndef KHOST_H
#define KHOST_H

#define KHOST_ABI 10
#define KHOST_CPUS_MAX 256
#define KHOST_STATES_MAX 10
#define KHOST_OPPS_MAX 64
#define KHOST_NAME_LEN 16
#define KHOST_TRACE_MAX 24

/* Interrupts: bits of khost_cpu.raised and khost_cpu.sent. */
#define KHOST_IRQ_TIMER		1u
#define KHOST_IRQ_RESCHEDULE	2u
#define KHOST_IRQ_CALL		4u
#define KHOST_IRQ_DEVICE	8u
#define KHOST_IRQ_WORK		16u

/* khost_cpu.idle_state of a CPU that is not asleep. */
#define KHOST_AWAKE -1

/* A simulated CPU. The kernel writes what it wants of the hardware; the simulator reads it. */
struct khost_cpu {
	/* When its clock event device fires, in ns; ~0 is never. */
	unsigned long long timer_ns;
	/* Raised and not yet served. */
	unsigned int raised;
	/* IPIs that are under way to it. The simulator clears and, in its time, raises them. */
	unsigned int sent;
	unsigned int irqs_off;
	/* The idle state that the CPU sleeps in, or KHOST_AWAKE. */
	int idle_state;
	/* When a polling state gives up, in ns; 0 if it does not poll. */
	unsigned long long poll_until_ns;
	/* The simulator's number of the task that has the CPU; 0 for the kernel's own. */
	unsigned int task;
	/* What the frequency policy has asked for last. */
	unsigned int khz;
	/* The flags of the task that has it: KHOST_NEED_RESCHED ends a polling state. */
	const unsigned long *flags;
	unsigned long long switches;
	/* Whether it sleeps without its tick. */
	unsigned int tick_stopped;

	/*
	 * Costs of the kernel's work: see clock.c. The simulator sets the
	 * costs, at the CPU's speed, and takes and clears what has been spent.
	 */
	unsigned int step_ps, remote_step_ps, switch_ns, ipi_send_ns;
	/* Of the interrupts that are raised. */
	unsigned int irq_ns;
	/* Idle states entered. */
	unsigned int sleeps;
	/* Its own clock: the work of earlier calls keeps it so long. */
	unsigned long long busy_until_ns;
	unsigned long long counted_ps, figured_ns;
	/* By its own clock, when it entered its idle state. */
	unsigned long long entered_ns;
	/* Since the simulator cleared it: timers that idle governors have set and that expired. */
	unsigned int governor_timers;
	/* The driver has refused that state; poll_until_ns is when it says so. */
	unsigned int is_rejected;
};

/* The kernel does a step of its work. */
#define khost_step() ((void)(khost_cpu->counted_ps += khost_cpu->step_ps))
/* The same, with data of a CPU. */
#define khost_step_of(cpu)						\
	((void)(khost_cpu->counted_ps += (int)(cpu) == khost_cpu_number	\
			? khost_cpu->step_ps : khost_cpu->remote_step_ps))

#define KHOST_NEED_RESCHED (1ul << 3)

extern struct khost_cpu *khost_cpu;
extern int khost_cpu_number;

void khost_serve_interrupts(void);

struct khost_state {
	char name[KHOST_NAME_LEN];
	unsigned int exit_latency_ns;
	unsigned int target_residency_ns;
	unsigned int polling;
};

struct khost_opp {
	unsigned int khz;
	unsigned int power_uw;
};

/* A group of like CPUs with one frequency. */
struct khost_cluster {
	unsigned int capacity;
	unsigned int package;
	/* Which CPUs share a last-level cache: those with the same number. */
	unsigned int cache;
	unsigned int states;
	unsigned int opps;
	unsigned int transition_latency_ns;
	/* What is written to scaling_setspeed, or KHOST_UNSET. */
	unsigned int set_khz;
	struct khost_state state[KHOST_STATES_MAX];
	struct khost_opp opp[KHOST_OPPS_MAX];
};

/* Of policies that are linked. */
enum khost_policy_kind { KHOST_IDLE, KHOST_CPUFREQ, KHOST_IO_BOOST, KHOST_POLICY_KINDS };

/* A setting that is the kernel's own. */
#define KHOST_UNSET ~0u

/* As on a kernel's command line: `menu.name`. */
struct khost_param {
	const char *name, *value;
};

struct khost_machine {
	unsigned int cpus;
	unsigned int clusters;
	const struct khost_cluster *cluster;
	/* Of each CPU, its cluster. */
	unsigned char cluster_of[KHOST_CPUS_MAX];
	/* The first thread of its core: itself, where CPUs are cores. */
	unsigned short core_of[KHOST_CPUS_MAX];
	/* An idle governor's name; empty: the highest rated. */
	char governor[KHOST_NAME_LEN];
	/*
	 * For each kind, the linked policy that decides in place of the tree's
	 * own, whatever name it registers; empty: the tree's own decides.
	 */
	char linked[KHOST_POLICY_KINDS][KHOST_NAME_LEN];
	/* The module parameters that are set before it registers. */
	unsigned int params;
	const struct khost_param *param;
	/* What is written to the files of the frequency governor, in sysfs. */
	unsigned int tunables;
	const struct khost_param *tunable;
	/* Whether tracepoints are handed to the simulator. */
	unsigned int records;
	/* Whether the frequency governor does not hear who wakes up from IO. */
	unsigned int no_iowait_boost;
	/* What PM QoS is asked for, or KHOST_UNSET. */
	unsigned int latency_limit_us;
	/* The CPUs that are brought up; the first always is. */
	unsigned long long online[KHOST_CPUS_MAX / 64];
	/* Of each CPU, the idle states that are switched off in sysfs, a bit each. */
	unsigned short states_off[KHOST_CPUS_MAX];
};

/* What sched_setattr() and sched_setaffinity() set. */
struct khost_attributes {
	/* SCHED_NORMAL, SCHED_FIFO ...; the priority is that of a realtime policy. */
	unsigned int policy, priority;
	int nice;
	unsigned int uclamp_min, uclamp_max;
	/* 0: the scheduler's own. */
	unsigned long long slice_ns;
	/* The CPUs that it may run on; none: all. */
	unsigned long long affinity[KHOST_CPUS_MAX / 64];
};

/* A change to a task, by the one that has a CPU. */
struct khost_change {
	void *task;
	struct khost_attributes attributes;
};

/* A task that the simulator runs. */
struct khost_task_setup {
	char name[KHOST_NAME_LEN];
	unsigned int number;
	/* The CPU that its parent runs on. */
	unsigned int forked_on;
	unsigned long long timer_slack_ns;
	struct khost_attributes attributes;
};

/* What sysfs shows of an idle state. */
struct khost_usage {
	unsigned long long usage, time_ns, above, below, rejected;
};

enum khost_trouble { KHOST_BUG = 1, KHOST_WARN, KHOST_PANIC, KHOST_UNREACHED, KHOST_REFUSED };

enum khost_traced {
	KHOST_HRTIMER_START = 1,
	KHOST_HRTIMER_CANCEL,
	KHOST_HRTIMER_EXPIRE_ENTRY,
	KHOST_HRTIMER_EXPIRE_EXIT,
	KHOST_TICK_STOP,
	KHOST_TICK_KEPT,
	KHOST_SCHED_WAKING,
	KHOST_SCHED_WAKEUP,
	KHOST_SCHED_WAKEUP_NEW,
};

/* What a tracepoint tells; at a timer's expiry, the first time is that of the clock. */
struct khost_event {
	unsigned int kind, cpu;
	/* KHOST_SCHED_*: the simulator's number of the task, and the CPU that it is on. */
	unsigned int task, target;
	/* Between which switches of the CPU. */
	unsigned long long switches;
	const void *timer, *function;
	unsigned long long expires_ns, softexpires_ns;
};

/* What the kernel asks of the simulator. */
struct khost_host {
	void *context;
	void *(*allocate)(void *context, unsigned long size);
	/* A stack of that size, with memory below it that nobody may touch. */
	void *(*allocate_stack)(void *context, unsigned long size);
	void (*traced)(void *context, const struct khost_event *event);
	/* One line of the kernel's log. */
	void (*log)(void *context, const char *text, unsigned long len);
	/* The kernel cannot go on; @trace is where it was, innermost first. */
	void (*trouble)(void *context, unsigned int kind, const char *text, unsigned long len,
			void *const *trace, unsigned long depth);
	/*
	 * Returns the time of an attempt to enter an idle state that the driver
	 * refuses, in ns; 0 if it enters. Null if it never refuses.
	 */
	unsigned long long (*rejects)(void *context, unsigned int cpu, unsigned int state);
};

/* The calls into the kernel; each returns when nothing is left to do at this instant. */
struct khost_calls {
	unsigned int abi;
	unsigned int cpu_size, machine_size, cluster_size, task_setup_size, host_size;
	unsigned int hz;
	unsigned long long *now_ns;
	struct khost_cpu *cpus;
	/* A bit for each CPU with which something has happened since the simulator cleared it. */
	unsigned long long *touched;
	/* The CPU that was acted for last. */
	const int *acting_cpu;
	int (*boot)(const struct khost_host *host, const struct khost_machine *machine);
	/* Serves what has been raised on the CPU. */
	int (*interrupt)(void *unused, unsigned long cpu);
	int (*task_new)(const struct khost_task_setup *setup, void **task);
	/* The task that has the CPU stops running until it is woken. */
	int (*block)(void *unused, unsigned long cpu);
	/* The same, in io_schedule(). */
	int (*block_io)(void *unused, unsigned long cpu);
	/* The same, until a time by the monotonic clock. */
	int (*sleep)(void *until_ns, unsigned long cpu);
	int (*yield)(void *unused, unsigned long cpu);
	int (*exit)(void *unused, unsigned long cpu);
	/* Wakes a task, as the one that has the CPU, or as an interrupt that has come to it. */
	int (*wake)(void *task, unsigned long cpu);
	/* The same, by a task that is about to sleep. */
	int (*wake_sync)(void *task, unsigned long cpu);
	/* Changes a task, as the one that has the CPU; it may have to wait for another CPU. */
	int (*change)(const struct khost_change *change, unsigned long cpu);
	/* The device interrupt that is raised next on the CPU wakes the task. Nothing runs yet. */
	int (*completes)(void *task, unsigned long cpu);
	/* Copies the CPU's counters of each idle state to KHOST_STATES_MAX struct khost_usage. */
	int (*idle_usage)(void *usage, unsigned long cpu);
};

#endif
