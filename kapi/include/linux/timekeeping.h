/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_TIMEKEEPING_H
#define _KAPI_LINUX_TIMEKEEPING_H

#include <linux/ktime.h>

#endif /* _KAPI_LINUX_TIMEKEEPING_H */
