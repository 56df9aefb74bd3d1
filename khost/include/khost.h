/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Interface between the simulator and a hosted kernel: the shared view of simulated CPUs, and the
 * calls into the kernel. It needs no header of the kernel. crates/torpor-sim/src/kernel/abi.rs has
 * the same layout.
 */
#ifndef KHOST_H
#define KHOST_H

#define KHOST_ABI 17
#define KHOST_CPUS_MAX 1024
#define KHOST_STATES_MAX 10
#define KHOST_OPPS_MAX 64
#define KHOST_NAME_LEN 16
#define KHOST_TRACE_MAX 24
#define KHOST_STAT_LEN 512

/* Interrupts: bits of khost_cpu.raised and khost_cpu.sent. */
#define KHOST_IRQ_TIMER		1u
#define KHOST_IRQ_RESCHEDULE	2u
#define KHOST_IRQ_CALL		4u
#define KHOST_IRQ_DEVICE	8u
#define KHOST_IRQ_WORK		16u

/* khost_cpu.idle_state of a CPU that does not sleep. */
#define KHOST_AWAKE -1

/* A simulated CPU. The kernel writes its requests to the hardware; the simulator reads them. */
struct khost_cpu {
	/* Expiry of its clock event device, in ns; ~0 for never. */
	unsigned long long timer_ns;
	/* Raised interrupts that are not yet served. */
	unsigned int raised;
	/* IPIs on their way to it. The simulator clears them and raises them later. */
	unsigned int sent;
	unsigned int irqs_off;
	/* The idle state of a sleeping CPU, or KHOST_AWAKE. */
	int idle_state;
	/* When a polling state gives up, in ns; 0 if it does not poll. */
	unsigned long long poll_until_ns;
	/* The simulator's number of the running task; 0 for the kernel's own. */
	unsigned int task;
	/* The last request of the frequency policy. */
	unsigned int khz;
	/* Flags of the running task: KHOST_NEED_RESCHED ends a polling state. */
	const unsigned long *flags;
	unsigned long long switches;
	/* Whether it sleeps with the tick stopped. */
	unsigned int tick_stopped;

	/*
	 * Costs of the kernel's work: see clock.c. The simulator sets the costs, at the CPU's
	 * speed, and reads and clears the time spent.
	 */
	unsigned int step_ps, remote_step_ps, switch_ns, ipi_send_ns, governor_timer_ns;
	unsigned int timer_programming_ns;
	/* Number of interrupts raised. */
	unsigned int irq_ns;
	/* Number of idle states entered. */
	unsigned int sleeps;
	/* Its own clock: earlier calls keep it busy until then. */
	unsigned long long busy_until_ns;
	unsigned long long counted_ps, figured_ns;
	/* Time at which it entered its idle state, by its own clock. */
	unsigned long long entered_ns;
	/* Timers of idle governors that were started and that expired, since the simulator cleared it. */
	unsigned int governor_starts, governor_timers;
	/* The driver has rejected the state, and reports it at poll_until_ns. */
	unsigned int is_rejected;
	/* Times that its clock event device was set, since the simulator cleared it. */
	unsigned long long timer_programmings;
	/* After writes to files: its disabled idle states, a bit each, and its latency limit. */
	unsigned int states_off;
	unsigned int is_offline;
	unsigned long long latency_limit_ns;
};

/* Counts a step of the kernel's work. */
#define khost_step() ((void)(khost_cpu->counted_ps += khost_cpu->step_ps))
/* Counts a step on data of a CPU. */
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

/* A group of equal CPUs with one frequency. */
struct khost_cluster {
	unsigned int capacity;
	unsigned int package;
	/* Identifies the last-level cache: CPUs with the same number share it. */
	unsigned int cache;
	unsigned int states;
	unsigned int opps;
	unsigned int transition_latency_ns;
	/* The driver's own bound between two changes; 0 for none. */
	unsigned int transition_delay_us;
	/* Whether the scheduler itself can change the frequency. */
	unsigned int fast_switch;
	/* State that the architecture's own idle function enters. */
	unsigned int default_idle;
	struct khost_state state[KHOST_STATES_MAX];
	struct khost_opp opp[KHOST_OPPS_MAX];
};

/* Kinds of linked policies. */
enum khost_policy_kind {
	KHOST_IDLE, KHOST_CPUFREQ, KHOST_IO_BOOST, KHOST_SCHEDULER, KHOST_POLICY_KINDS
};

struct khost_machine {
	unsigned int cpus;
	unsigned int clusters;
	const struct khost_cluster *cluster;
	/* Cluster of each CPU. */
	unsigned short cluster_of[KHOST_CPUS_MAX];
	/* First thread of its core: the CPU itself without SMT. */
	unsigned short core_of[KHOST_CPUS_MAX];
	/* Name of an idle governor; empty for the highest rating. */
	char governor[KHOST_NAME_LEN];
	/*
	 * For each kind, the linked policy that replaces the tree's own, whatever name it
	 * registers; empty for the tree's own.
	 */
	char linked[KHOST_POLICY_KINDS][KHOST_NAME_LEN];
	/* Arguments, as a boot loader gives them. */
	const char *command_line;
	/* Whether tracepoints are passed to the simulator. */
	unsigned int records;
	/* Whether the frequency governor gets no IO wake-up flag. */
	unsigned int no_iowait_boost;
	/* CPUs to bring up; the first always is. */
	unsigned long long online[KHOST_CPUS_MAX / 64];
	/* Whether no idle driver registers. */
	unsigned int no_idle_driver;
	/* Seed of the kernel's random numbers. */
	unsigned long long seed;
	/* Paths of control groups from the root, in the order in which they are made. */
	unsigned int groups;
	const char *const *group;
	/* Whether files are written at the end of the start, and later. */
	unsigned int has_writes, has_later_writes;
};

/* A line to write to a file of sysfs, procfs or debugfs, or a change to a task. */
struct khost_write {
	const struct khost_change *change;
	/* Number of the file, by khost_host.file(). */
	unsigned int file;
	const char *path, *value;
};

/* Values of sched_setattr() and sched_setaffinity(). */
struct khost_attributes {
	/* SCHED_NORMAL, SCHED_FIFO ...; the priority applies to realtime policies. */
	unsigned int policy, priority;
	int nice;
	unsigned int uclamp_min, uclamp_max;
	/* 0 for the scheduler's default. */
	unsigned long long slice_ns;
	/* Allowed CPUs; none for all. */
	unsigned long long affinity[KHOST_CPUS_MAX / 64];
};

/* A change to a task, made by the running task. */
struct khost_change {
	void *task;
	struct khost_attributes attributes;
};

/* A task that the simulator runs. */
struct khost_task_setup {
	char name[KHOST_NAME_LEN];
	unsigned int number;
	/* CPU on which its parent runs. */
	unsigned int forked_on;
	/* Number of its control group, from 1 in the order in which they are made; 0 for the root. */
	unsigned int group;
	unsigned long long timer_slack_ns;
	struct khost_attributes attributes;
};

/* Counters of an idle state, as in sysfs. */
struct khost_usage {
	unsigned long long usage, time_ns, above, below, rejected;
};

enum khost_trouble { KHOST_BUG = 1, KHOST_WARN, KHOST_PANIC, KHOST_UNREACHED, KHOST_REFUSED,
		     KHOST_UNKNOWN };

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

/* Arguments of a tracepoint; at a timer's expiry, the first time is that of the clock. */
struct khost_event {
	unsigned int kind, cpu;
	/* KHOST_SCHED_*: the simulator's number of the task, and its CPU. */
	unsigned int task, target;
	/* Previous and next task of the switch. */
	unsigned long long switches;
	const void *timer, *function;
	unsigned long long expires_ns, softexpires_ns;
};

/* Calls from the kernel into the simulator. */
struct khost_host {
	void *context;
	void *(*allocate)(void *context, unsigned long size);
	/* Allocates a stack of that size, with a guard area below it. */
	void *(*allocate_stack)(void *context, unsigned long size);
	void (*traced)(void *context, const struct khost_event *event);
	/* Gets one line of the kernel's log. */
	void (*log)(void *context, const char *text, unsigned long len);
	/* Ends the run, since the kernel cannot continue; @trace is the backtrace, innermost first. */
	void (*trouble)(void *context, unsigned int kind, const char *text, unsigned long len,
			void *const *trace, unsigned long depth);
	/*
	 * Returns the time that a rejected attempt to enter an idle state takes, in ns; 0 if the
	 * CPU enters it. Null if no attempt is rejected.
	 */
	unsigned long long (*rejects)(void *context, unsigned int cpu, unsigned int state);
	/* Returns the time at which polling since @from_ns notices that its limit has passed. */
	unsigned long long (*poll_ends)(void *context, unsigned int cpu, unsigned long long from_ns,
					unsigned long long limit_ns);
	/* Gets a file of list_files(). */
	void (*file)(void *context, const char *path, unsigned int number);
	/* Returns the next write that is due; null if there is none. */
	const struct khost_write *(*next_write)(void *context);
};

/* Calls into the kernel. Each returns when nothing remains to be done at this instant. */
struct khost_calls {
	unsigned int abi;
	unsigned int cpu_size, machine_size, cluster_size, task_setup_size, host_size;
	unsigned int hz;
	unsigned long long *now_ns;
	struct khost_cpu *cpus;
	/* A bit for each CPU with activity since the simulator cleared it. */
	unsigned long long *touched;
	/* The CPU of the last call. */
	const int *acting_cpu;
	int (*boot)(const struct khost_host *host, const struct khost_machine *machine);
	/* Serves the CPU's raised interrupts. */
	int (*interrupt)(void *unused, unsigned long cpu);
	int (*task_new)(const struct khost_task_setup *setup, void **task);
	/* Blocks the running task until it is woken. */
	int (*block)(void *unused, unsigned long cpu);
	/* The same, in io_schedule(). */
	int (*block_io)(void *unused, unsigned long cpu);
	/* The same, until a time of the monotonic clock. */
	int (*sleep)(void *until_ns, unsigned long cpu);
	int (*yield)(void *unused, unsigned long cpu);
	int (*exit)(void *unused, unsigned long cpu);
	/* Wakes a task, from the running task or from an interrupt on this CPU. */
	int (*wake)(void *task, unsigned long cpu);
	/* The same, from a task that is about to sleep. */
	int (*wake_sync)(void *task, unsigned long cpu);
	/* Changes a task from the running task, which may have to wait for another CPU. */
	int (*change)(const struct khost_change *change, unsigned long cpu);
	/* The next device interrupt on the CPU wakes the task. Nothing runs yet. */
	int (*completes)(void *task, unsigned long cpu);
	/* Copies the CPU's counters of each idle state to KHOST_STATES_MAX struct khost_usage. */
	int (*idle_usage)(void *usage, unsigned long cpu);
	/* Returns the name of an argument of the command line that is known; NULL after the last. */
	const char *(*known_argument)(unsigned long index);
	/* Writes a control group's cpu.stat to @text, of KHOST_STAT_LEN bytes. */
	int (*group_stat)(void *text, unsigned long group);
	/* Number of changes to the list of writable files. */
	const unsigned int *files_generation;
	/* Reports all writable files. */
	int (*list_files)(void *unused, unsigned long cpu);
	/* Wakes the thread that makes the writes of next_write(), by an interrupt on its CPU. */
	int (*write)(void *unused, unsigned long cpu);
	/* Stores the number of that CPU. */
	int (*shell_cpu)(void *cpu, unsigned long unused);
};

#endif
