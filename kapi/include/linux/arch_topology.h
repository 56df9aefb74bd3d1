/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_ARCH_TOPOLOGY_H
#define _KAPI_LINUX_ARCH_TOPOLOGY_H

#include <linux/percpu.h>
#include <linux/sched/topology.h>
#include <linux/types.h>

#endif /* _KAPI_LINUX_ARCH_TOPOLOGY_H */
