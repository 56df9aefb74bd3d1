/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_SCHED_LOADAVG_H
#define _KAPI_LINUX_SCHED_LOADAVG_H

#include <linux/version.h>

/* Load averages are fixed point with 11 fractional bits. */
#define FSHIFT		11
#define FIXED_1		(1 << FSHIFT)
#if !KAPI_BEFORE(4, 20)
#define LOAD_INT(x)	((x) >> FSHIFT)
#define LOAD_FRAC(x)	LOAD_INT(((x) & (FIXED_1 - 1)) * 100)
#endif

#endif /* _KAPI_LINUX_SCHED_LOADAVG_H */
