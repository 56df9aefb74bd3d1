/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_TOPOLOGY_H
#define _KAPI_LINUX_TOPOLOGY_H

#include <linux/bitops.h>
#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <linux/sched/topology.h>
#include <linux/smp.h>

#endif /* _KAPI_LINUX_TOPOLOGY_H */
