/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_SMP_H
#define _KAPI_LINUX_SMP_H

#include <linux/compiler.h>
#include <linux/preempt.h>
#include <torpor/context.h>

#define smp_processor_id()	(kapi_host.cpu->cpu_id)
#define raw_smp_processor_id()	smp_processor_id()
#define get_cpu()		smp_processor_id()
#define put_cpu()		do { } while (0)
#define nr_cpu_ids		(kapi_host.nr_cpu_ids)

/* Governors run on one CPU at a time with interrupts off, so these have nothing to order. */
#define smp_mb()		barrier()
#define smp_rmb()		barrier()
#define smp_wmb()		barrier()

#endif /* _KAPI_LINUX_SMP_H */
