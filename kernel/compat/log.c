// SPDX-License-Identifier: GPL-2.0-only
/*
 * DOC: the log of decisions
 *
 * With log_decisions=1, /sys/kernel/debug/torpor/cpuN contains the calls of all governor modules on
 * CPU N, one record each. A governor that replays the log must make the same decisions. A full log
 * drops records and counts them in `lost`.
 *
 * A record's kind is written last, and a reader stops at the first record without one, so it never
 * sees a partial record.
 */
#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched/clock.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "log.h"

static bool log_decisions;
module_param(log_decisions, bool, 0444);
MODULE_PARM_DESC(log_decisions, "log every call of a governor, its inputs and its answer");

static unsigned int log_kb = 4096;
module_param(log_kb, uint, 0444);
MODULE_PARM_DESC(log_kb, "room of each CPU's log, in KiB");

/*
 * Only grows; @claimed can exceed @room by the number of lost records. Records before @whole are
 * complete; later ones can be, too.
 */
struct torpor_log {
	struct torpor_record *records;
	unsigned long room;
	atomic_long_t claimed;
	unsigned long whole;
};

static DEFINE_PER_CPU(struct torpor_log, logs);

DEFINE_PER_CPU(struct torpor_logged *, torpor_current_call);
EXPORT_PER_CPU_SYMBOL_GPL(torpor_current_call);

/* An idle CPU writes its own log; enabling a governor writes that of the CPU concerned. */
static void log_append(unsigned int cpu, enum torpor_record_kind kind,
		       const struct torpor_record *record)
{
	struct torpor_log *log = per_cpu_ptr(&logs, cpu);
	unsigned long place = atomic_long_fetch_inc(&log->claimed);

	if (place >= log->room)
		return;
	log->records[place] = *record;
	smp_store_release(&log->records[place].kind, kind);
}

/* Number of complete records, from the first one on. */
static unsigned long log_whole(struct torpor_log *log)
{
	unsigned long count = READ_ONCE(log->whole);

	while (count < log->room && smp_load_acquire(&log->records[count].kind))
		count++;
	WRITE_ONCE(log->whole, count);
	return count;
}

bool torpor_log_is_on(void)
{
	return log_decisions;
}
EXPORT_SYMBOL_GPL(torpor_log_is_on);

/**
 * torpor_log_begin - before a governor is called
 * @logged: on the caller's stack until torpor_log_end()
 * @kind: what is called
 * @drv: NULL where the call has none
 * @dev: NULL where the call has none
 */
void torpor_log_begin(struct torpor_logged *logged, enum torpor_record_kind kind,
		      struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	struct torpor_call *call = &logged->record.call;
	int i;

	*logged = (struct torpor_logged) {
		.kind = kind,
		.record = {
			.cpu = smp_processor_id(),
			.time_ns = local_clock(),
		},
		.outer = this_cpu_read(torpor_current_call),
	};
	if (dev) {
		call->last_state_idx = dev->last_state_idx;
		call->poll_time_limit = dev->poll_time_limit;
		call->last_residency_ns = dev->last_residency_ns;
		call->poll_limit_ns = dev->poll_limit_ns;
	}
	for (i = 0; drv && i < drv->state_count; i++) {
		if (dev->states_usage[i].disable)
			call->disabled |= BIT(i);
	}
	this_cpu_write(torpor_current_call, logged);
}
EXPORT_SYMBOL_GPL(torpor_log_begin);

/* Ends the record after the call; the caller has added the answer. */
void torpor_log_end(struct torpor_logged *logged)
{
	this_cpu_write(torpor_current_call, logged->outer);
	log_append(logged->record.cpu, logged->kind, &logged->record);
}
EXPORT_SYMBOL_GPL(torpor_log_end);

void torpor_log_input(enum torpor_input input, s64 value)
{
	struct torpor_record *record = &this_cpu_read(torpor_current_call)->record;
	struct torpor_call *call = &record->call;

	if (call->asked & BIT(input)) {
		if (call->input[input] != value)
			record->flags |= TORPOR_UNSTEADY;
		return;
	}
	call->asked |= BIT(input);
	call->input[input] = value;
}
EXPORT_SYMBOL_GPL(torpor_log_input);

/* A governor starts on a CPU: records its name and the states. */
void torpor_log_table(const char *governor, struct cpuidle_driver *drv,
		      struct cpuidle_device *dev)
{
	struct torpor_record record = {
		.cpu = dev->cpu,
		.state = drv->state_count,
		.time_ns = local_clock(),
	};
	int i;

	strscpy(record.entry.name, governor, sizeof(record.entry.name));
	log_append(dev->cpu, TORPOR_ENABLE, &record);

	for (i = 0; i < drv->state_count; i++) {
		record.state = i;
		record.entry.flags = drv->states[i].flags;
		record.entry.exit_latency_ns = drv->states[i].exit_latency_ns;
		record.entry.target_residency_ns = drv->states[i].target_residency_ns;
		strscpy(record.entry.name, drv->states[i].name, sizeof(record.entry.name));
		log_append(dev->cpu, TORPOR_STATE, &record);
	}
}
EXPORT_SYMBOL_GPL(torpor_log_table);

static ssize_t log_read(struct file *file, char __user *to, size_t count, loff_t *offset)
{
	struct torpor_log *log = file->private_data;

	return simple_read_from_buffer(to, count, offset, log->records,
				       log_whole(log) * sizeof(*log->records));
}

static const struct file_operations log_file = {
	.owner =	THIS_MODULE,
	.open =		simple_open,
	.read =		log_read,
	.llseek =	default_llseek,
};

static int log_lost(void *data, u64 *lost)
{
	int cpu;

	*lost = 0;
	for_each_possible_cpu(cpu) {
		struct torpor_log *log = per_cpu_ptr(&logs, cpu);
		unsigned long claimed = atomic_long_read(&log->claimed);

		*lost += claimed > log->room ? claimed - log->room : 0;
	}
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(log_lost_file, log_lost, NULL, "%llu\n");

/* The debugfs files are already gone. */
void torpor_log_stop(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		vfree(per_cpu_ptr(&logs, cpu)->records);
}

int torpor_log_start(struct dentry *folder)
{
	struct torpor_record header = {
		.header = {
			.magic = TORPOR_LOG_MAGIC,
			.version = TORPOR_LOG_VERSION,
			.record_bytes = sizeof(header),
			.hz = HZ,
		},
	};
	int cpu;

	if (!log_decisions)
		return 0;
	debugfs_create_file("lost", 0400, folder, NULL, &log_lost_file);
	for_each_possible_cpu(cpu) {
		struct torpor_log *log = per_cpu_ptr(&logs, cpu);
		char name[16];

		log->room = log_kb * 1024UL / sizeof(*log->records);
		log->records = vzalloc(log->room * sizeof(*log->records));
		if (!log->records)
			return -ENOMEM;
		header.cpu = cpu;
		header.time_ns = local_clock();
		log_append(cpu, TORPOR_HEADER, &header);
		snprintf(name, sizeof(name), "cpu%d", cpu);
		debugfs_create_file(name, 0400, folder, log, &log_file);
	}
	return 0;
}
