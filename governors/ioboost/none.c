// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * DOC: none - no IO boost
 *
 * Idea: Never boost; utilization alone decides. This is the reference that shows the benefit and
 * the cost of a boost.
 *
 * State kept: none.
 *
 * Decision: None; it implements no call, and each boost is 0.
 *
 * Known weaknesses: A task that waits for each of its requests has little utilization. So it runs
 * slowly, its requests come late, and its utilization stays low.
 *
 * Departures: None; it mirrors nothing.
 *
 * References: "cpufreq: cpuidle: Remove iowait behaviour", C. Loehle, linux-pm, 5 September 2024,
 * which proposes it.
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
