/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef TORPOR_BLOCK_H
#define TORPOR_BLOCK_H

/*
 * The memory that the checker and the driver share. src/block.rs has the same layout; sizes are
 * compared when a driver starts. Plain C types, because the kapi's and the C library's differ.
 */

#define BLOCK_ABI	1
#define BLOCK_STATES	10
#define BLOCK_CPUS	4
#define BLOCK_STEPS	2048
#define BLOCK_PARAMS	32
#define BLOCK_TEXT	128

enum block_op {
	OP_IDLE,	/* select, sleep, reflect */
	OP_TOGGLE,	/* disables or enables state @arg */
	OP_REPLUG,	/* disable() and enable(), called on CPU @arg >> 4 */
};

enum block_flag {
	FLAG_REJECT = 1,	/* the driver refuses the entry, or a task has become runnable */
	FLAG_GOT_TICK = 2,	/* if the tick ends the sleep, the kernel reports it */
	FLAG_POLL_TIMEOUT = 4,	/* a polling state gives up */
	FLAG_BUSY_AFTER = 8,	/* the CPU leaves idle afterwards: the tick runs again */
	FLAG_SHALLOWER = 16,	/* the driver enters the next shallower enabled state instead */
	FLAG_EARLY_EVENT = 32,	/* with the tick stopped, an event still comes before the timers */
	FLAG_TICK_HELD = 64,	/* the tick cannot be stopped now */
	FLAG_OTHER_GOVERNOR = 128, /* OP_REPLUG: another one ran meanwhile and left @arg & 15 - 1 */
};

enum block_phase { PHASE_INIT, PHASE_ENABLE, PHASE_DISABLE, PHASE_SELECT, PHASE_REFLECT };

struct block_state {
	long long exit_latency_ns;
	long long target_residency_ns;
	unsigned int is_polling;
	unsigned int pad;
};

struct block_cpu {
	unsigned int cpu_id;
	unsigned int disabled_mask;
};

struct block_param {
	char name[64];
	char text[64];
	unsigned long long raw;
	unsigned long long size;		/* 0: the governor's own set() takes the text */
};

struct block_step {
	long long sleep_length_ns;
	long long event_ns;
	long long latency_req_ns;
	unsigned long long gap_ns;		/* since the last call on this CPU */
	unsigned long long residency_ns;	/* unless an event ends the sleep earlier */
	unsigned int late_ns;			/* delay from the event until the CPU is awake */
	unsigned int lag_ns;			/* from there to reflect() */
	unsigned int nr_iowait;
	unsigned short util;
	unsigned short capacity;
	unsigned char op;
	unsigned char cpu;			/* index in @cpus */
	unsigned char flags;
	unsigned char arg;
	unsigned int pad;
};

/* Arguments and results of a step's calls. */
struct block_answer {
	unsigned long long now_ns;
	long long sleep_length_ns;
	long long event_ns;
	unsigned long long slept_ns;
	unsigned int time_ns;
	unsigned short disabled_mask;
	unsigned char has_run;
	unsigned char stop_tick;
	int state;
	short entered;				/* -1: none */
	unsigned char tick_was_stopped;
	unsigned char asked_sleep_length;
	unsigned char got_tick;
	unsigned char warned;
	unsigned char pad[2];
};

struct block {
	/* The request. */
	unsigned int abi;
	unsigned int size;
	unsigned int cpu_count;
	unsigned int state_count;
	unsigned int step_count;
	unsigned int param_count;
	unsigned int is_isolated;
	unsigned int is_timed;
	unsigned int cpu_limit_ms;
	unsigned int timer_ns;			/* reply: time of one clock reading */
	unsigned long long clock_ns;
	struct block_state states[BLOCK_STATES];
	struct block_cpu cpus[BLOCK_CPUS];
	struct block_param params[BLOCK_PARAMS];

	/* The reply. */
	volatile unsigned int progress;		/* steps begun */
	volatile unsigned int phase;
	volatile unsigned int phase_cpu;
	volatile unsigned int bug_line;
	int wait_status;			/* of an isolated run */
	unsigned int warn_line;
	char bug_file[BLOCK_TEXT];
	char warn_file[BLOCK_TEXT];
	char error[BLOCK_TEXT];

	struct block_step steps[BLOCK_STEPS];
	struct block_answer answers[BLOCK_STEPS];
};

/* driver_main.c, for driver_calls.c */
unsigned long long driver_clock_ns(void);
void *driver_memory(unsigned long size);
void driver_exit(void) __attribute__((noreturn));

/* driver_calls.c, for driver_main.c */
int calls_start(struct block *block, const char *governor);
void calls_run(struct block *block);

#endif /* TORPOR_BLOCK_H */
