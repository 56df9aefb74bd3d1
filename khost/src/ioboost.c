// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The machine's IO boost, for a scheduler with the calls of kernel/ioboost/hooks.h. It replaces
 * kernel/ioboost/core.c, which selects by the command line.
 */
#include <linux/types.h>
#include "host.h"

#ifdef KHOST_CALLS_IO_BOOST
#include "sched.h"

const struct ioboost_ops *ioboost;

int ioboost_register(const struct ioboost_ops *ops)
{
	ioboost = ops;
	return 0;
}

unsigned long ioboost_instead(unsigned int cpu, u64 now, unsigned long max_cap, unsigned long own)
{
	return ioboost->cpu_boost ? ioboost->cpu_boost(cpu, now, max_cap) : 0;
}

void khost_check_io_boost(void)
{
	if (*khost_machine->linked[KHOST_IO_BOOST] && !ioboost)
		khost_trouble(KHOST_REFUSED, "the file registers no IO boost here");
	if (!ioboost || !ioboost->task_uclamp_min)
		return;
#ifdef CONFIG_UCLAMP_TASK
	/* uclamp values are used only after one has been set. */
	static_branch_enable(&sched_uclamp_used);
#else
	khost_trouble(KHOST_REFUSED, "the IO boost clamps tasks, which needs CONFIG_UCLAMP_TASK");
#endif
}
#else
void khost_check_io_boost(void)
{
}
#endif
