/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
/*
 * drivers/cpuidle/governors/gov.h of kernels since 6.6, for a governor's file that
 * includes it and is given without the folder.
 */
#ifndef _KAPI_TORPOR_GOV_H
#define _KAPI_TORPOR_GOV_H

#include <linux/time64.h>

/* From this target residency on, a governor asks when the next timer is. */
#define RESIDENCY_THRESHOLD_NS	(15 * NSEC_PER_USEC)

#endif /* _KAPI_TORPOR_GOV_H */
