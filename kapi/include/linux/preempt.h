/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_PREEMPT_H
#define _KAPI_LINUX_PREEMPT_H

#include <linux/compiler.h>
#include <linux/list.h>

/* Governors run with interrupts off on one CPU at a time: there is nothing to prevent. */
#define preempt_disable()	barrier()
#define preempt_enable()	barrier()

#endif /* _KAPI_LINUX_PREEMPT_H */
