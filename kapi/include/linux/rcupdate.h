/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_LINUX_RCUPDATE_H
#define _KAPI_LINUX_RCUPDATE_H

#include <linux/version.h>

/* RCU's work for an idle CPU is not modelled: nothing is freed under a reader. */
#define rcu_read_lock()		do { } while (0)
#define rcu_read_unlock()	do { } while (0)
#if KAPI_BEFORE(6, 6)
#define RCU_NONIDLE(statement)	do { statement; } while (0)
#endif

#endif /* _KAPI_LINUX_RCUPDATE_H */
