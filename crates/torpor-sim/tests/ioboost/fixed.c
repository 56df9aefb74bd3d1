// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Answers always what its parameters say. */
#include <linux/module.h>

#include "ioboost.h"

static unsigned long cpu_util;
module_param(cpu_util, ulong, 0644);
static unsigned long task_util;
module_param(task_util, ulong, 0644);
static unsigned long rq_util;
module_param(rq_util, ulong, 0644);
static unsigned long least_perf;
module_param(least_perf, ulong, 0644);
static unsigned long uclamp_min;
module_param(uclamp_min, ulong, 0644);

static unsigned long fixed_cpu_boost(unsigned int cpu, u64 now, unsigned long max_cap)
{
	return cpu_util;
}

static unsigned long fixed_task_boost(const struct ioboost_task *task)
{
	return task_util;
}

static unsigned long fixed_task_uclamp_min(const struct ioboost_task *task)
{
	return uclamp_min;
}

static unsigned long fixed_rq_boost(unsigned int cpu)
{
	return rq_util;
}

static unsigned long fixed_perf_min(unsigned int cpu)
{
	return least_perf;
}

static const struct ioboost_ops fixed_ops = {
	.name = "fixed",
	.cpu_boost = fixed_cpu_boost,
	.task_boost = fixed_task_boost,
	.task_uclamp_min = fixed_task_uclamp_min,
	.rq_boost = fixed_rq_boost,
	.perf_min = fixed_perf_min,
};

static int __init fixed_init(void)
{
	return ioboost_register(&fixed_ops);
}
core_initcall(fixed_init);
