/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Included before a linked frequency governor: schedutil is part of the scheduler, whose other
 * files would include these for it.
 */
/* As for the tree's files: a name that is never used may be missing, and is then an int. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wimplicit-function-declaration"
#pragma GCC diagnostic ignored "-Wint-conversion"
#include <linux/cpufreq.h>
#include <linux/energy_model.h>
#include <linux/mmu_context.h>
#include <linux/sched/cpufreq.h>
#include <linux/version.h>
#include <uapi/linux/sched/types.h>
#include "sched.h"
#pragma GCC diagnostic pop
