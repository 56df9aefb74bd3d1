/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_LINUX_CPU_H
#define _KAPI_LINUX_CPU_H

#include <linux/cpumask.h>
#include <linux/device.h>

static const struct bus_type cpu_subsys __attribute__((unused)) = { .name = "cpu" };

/* Opaque: only passed on. */
static inline struct device *get_cpu_device(unsigned int cpu)
{
	return (struct device *)0;
}

#endif /* _KAPI_LINUX_CPU_H */
