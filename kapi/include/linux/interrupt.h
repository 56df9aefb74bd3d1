/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_LINUX_INTERRUPT_H
#define _KAPI_LINUX_INTERRUPT_H

#include <linux/bitops.h>
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/kernel.h>
#include <linux/kobject.h>

/* Governors are not called in interrupts. Predictions of interrupts are not modelled. */

#endif /* _KAPI_LINUX_INTERRUPT_H */
