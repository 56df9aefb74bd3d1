/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_PERCPU_H
#define _KAPI_LINUX_PERCPU_H

#include <linux/percpu-defs.h>
#include <linux/smp.h>

#endif /* _KAPI_LINUX_PERCPU_H */
