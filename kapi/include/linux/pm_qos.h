/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_PM_QOS_H
#define _KAPI_LINUX_PM_QOS_H

#include <linux/limits.h>
#include <linux/time64.h>

/* In microseconds unless the name says otherwise. */
#define PM_QOS_LATENCY_ANY			S32_MAX
#define PM_QOS_LATENCY_ANY_NS			((s64)PM_QOS_LATENCY_ANY * NSEC_PER_USEC)
#define PM_QOS_CPU_LATENCY_DEFAULT_VALUE	(2000 * USEC_PER_SEC)
#define PM_QOS_RESUME_LATENCY_NO_CONSTRAINT	PM_QOS_LATENCY_ANY
#define PM_QOS_RESUME_LATENCY_NO_CONSTRAINT_NS	PM_QOS_LATENCY_ANY_NS

#endif /* _KAPI_LINUX_PM_QOS_H */
