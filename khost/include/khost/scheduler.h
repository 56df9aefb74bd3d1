/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Included before a frequency governor that is linked: schedutil is a part of the scheduler, whose
 * other files include these for it.
 */
/* As all of the tree's files: a name that is never reached may be missing, and is then an int. */
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
