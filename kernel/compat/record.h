/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The log of decisions: records of one size, each a call of a governor with its arguments, its
 * calls of the kernel, and its answer. Numbers are in the machine's byte order.
 */
#ifndef _TORPOR_RECORD_H
#define _TORPOR_RECORD_H

#include <linux/bits.h>
#include <linux/cpuidle.h>
#include <linux/types.h>

#define TORPOR_LOG_MAGIC	"TORPORLG"
#define TORPOR_LOG_VERSION	1

enum torpor_record_kind {
	TORPOR_HEADER = 1,
	TORPOR_ENABLE,
	TORPOR_STATE,
	TORPOR_SELECT,
	TORPOR_REFLECT,
	TORPOR_TIMER,
};

/* Calls of the kernel that a governor can make. */
enum torpor_input {
	TORPOR_LOCAL_CLOCK,
	TORPOR_SLEEP_LENGTH,
	TORPOR_DELTA_NEXT,
	TORPOR_TICK_STOPPED,
	TORPOR_GOT_TICK,
	TORPOR_LATENCY_REQ,
	TORPOR_NR_IOWAIT,
	TORPOR_UTIL,
	TORPOR_CAPACITY,
	TORPOR_INPUTS_MAX = 10,
};

/* The value of select()'s stop_tick. */
#define TORPOR_STOP_TICK	BIT(0)
/* The kernel gave two different answers during the call; the first is kept. */
#define TORPOR_UNSTEADY		BIT(1)

struct torpor_call {
	u32	asked;
	u32	disabled;
	s32	last_state_idx;
	u32	poll_time_limit;
	u64	last_residency_ns;
	u64	poll_limit_ns;
	s64	input[TORPOR_INPUTS_MAX];
};

struct torpor_table_entry {
	char	name[CPUIDLE_NAME_LEN];
	u32	flags;
	u32	reserved;
	s64	exit_latency_ns;
	s64	target_residency_ns;
};

struct torpor_header {
	char	magic[8];
	u32	version;
	u32	record_bytes;
	u32	hz;
};

/* All have one size. In a log, a record without a kind is not complete. */
struct torpor_record {
	u8	kind;
	u8	flags;
	u16	cpu;
	s32	state;
	u64	time_ns;
	union {
		struct torpor_header		header;
		struct torpor_table_entry	entry;
		struct torpor_call		call;
	};
};

#endif /* _TORPOR_RECORD_H */
