/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_PREEMPT_H
#define _KAPI_LINUX_PREEMPT_H

#include <linux/compiler.h>
#include <linux/list.h>

/* Governors run on one CPU at a time with interrupts off, so there is nothing to disable. */
#define preempt_disable()	barrier()
#define preempt_enable()	barrier()

#endif /* _KAPI_LINUX_PREEMPT_H */
