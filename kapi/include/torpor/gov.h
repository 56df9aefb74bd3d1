/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
/* drivers/cpuidle/governors/gov.h of kernels since 6.6, for a single file that includes it. */
#ifndef _KAPI_TORPOR_GOV_H
#define _KAPI_TORPOR_GOV_H

#include <linux/time64.h>

/* Target residency from which a governor reads the next timer. */
#define RESIDENCY_THRESHOLD_NS	(15 * NSEC_PER_USEC)
/* Since 7.2: with a timer this near, the tick need not be started again. */
#define SAFE_TIMER_RANGE_NS	(2 * TICK_NSEC)

#endif /* _KAPI_TORPOR_GOV_H */
