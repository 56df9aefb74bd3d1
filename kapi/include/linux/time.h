/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_TIME_H
#define _KAPI_LINUX_TIME_H

#include <linux/time64.h>
#include <linux/version.h>

#if KAPI_BEFORE(5, 6)
struct timespec {
	long tv_sec;
	long tv_nsec;
};
#endif

#endif /* _KAPI_LINUX_TIME_H */
