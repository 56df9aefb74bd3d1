/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_LINUX_TIMER_H
#define _KAPI_LINUX_TIMER_H

#include <linux/ktime.h>

#endif /* _KAPI_LINUX_TIMER_H */
