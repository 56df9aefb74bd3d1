// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * DOC: none - no IO boost
 *
 * Idea: Never boost: utilization alone decides. The reference that shows what a boost brings and
 * what it costs.
 *
 * State kept: none.
 *
 * Decision: none; no call is taken, and every boost is 0.
 *
 * Known weaknesses: a task that waits for each of its requests has little utilization, so it runs
 * slowly, so its requests come late, so its utilization stays low.
 *
 * Departures: none; it mirrors nothing.
 *
 * References: "cpufreq: cpuidle: Remove iowait behaviour", C. Loehle, linux-pm, 5 September 2024,
 * which argues for it.
 */

#include <linux/init.h>
#include <linux/module.h>

#include "ioboost.h"

static const struct ioboost_ops none_ops = {
	.name = "none",
};

static int __init none_init(void)
{
	return ioboost_register(&none_ops);
}

core_initcall(none_init);

MODULE_DESCRIPTION("No IO boost");
MODULE_LICENSE("Dual MIT/GPL");
