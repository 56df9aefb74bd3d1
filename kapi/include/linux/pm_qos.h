/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_PM_QOS_H
#define _KAPI_LINUX_PM_QOS_H

#include <linux/device.h>
#include <linux/limits.h>
#include <linux/time64.h>
#include <linux/version.h>
#include <torpor/context.h>

/* In us, unless the name says otherwise. */
#define PM_QOS_LATENCY_ANY			S32_MAX
#define PM_QOS_LATENCY_ANY_NS			((s64)PM_QOS_LATENCY_ANY * NSEC_PER_USEC)
#define PM_QOS_CPU_LATENCY_DEFAULT_VALUE	(2000 * USEC_PER_SEC)
#define PM_QOS_RESUME_LATENCY_NO_CONSTRAINT	PM_QOS_LATENCY_ANY
#define PM_QOS_RESUME_LATENCY_NO_CONSTRAINT_NS	PM_QOS_LATENCY_ANY_NS

#if KAPI_BEFORE(5, 7)
#define PM_QOS_CPU_DMA_LATENCY			1

/* The only class that governors use: the CPU's limit, combined with its own. */
static inline int pm_qos_request(int class)
{
	s64 limit_us = kapi_host.cpu->latency_req_ns / NSEC_PER_USEC;

	return limit_us < S32_MAX ? limit_us : S32_MAX;
}

/* No further limit; until 4.14 the value for this was 0. */
static inline s32 dev_pm_qos_raw_read_value(struct device *dev)
{
	return KAPI_BEFORE(4, 15) ? 0 : PM_QOS_RESUME_LATENCY_NO_CONSTRAINT;
}

static inline s32 dev_pm_qos_read_value(struct device *dev)
{
	return dev_pm_qos_raw_read_value(dev);
}
#else
enum dev_pm_qos_req_type {
	DEV_PM_QOS_RESUME_LATENCY = 1,
	DEV_PM_QOS_LATENCY_TOLERANCE,
	DEV_PM_QOS_MIN_FREQUENCY,
	DEV_PM_QOS_MAX_FREQUENCY,
	DEV_PM_QOS_FLAGS,
};

/* No device has a limit. */
static inline s32 dev_pm_qos_read_value(struct device *dev, enum dev_pm_qos_req_type type)
{
	bool is_upper = type == DEV_PM_QOS_RESUME_LATENCY || type == DEV_PM_QOS_MAX_FREQUENCY;

	return is_upper ? S32_MAX : 0;
}
#endif

#endif /* _KAPI_LINUX_PM_QOS_H */
