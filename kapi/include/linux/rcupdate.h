/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_LINUX_RCUPDATE_H
#define _KAPI_LINUX_RCUPDATE_H

#include <linux/version.h>

/* What RCU does in an idle CPU's stead is not modelled: nothing here is freed under a reader. */
#define rcu_read_lock()		do { } while (0)
#define rcu_read_unlock()	do { } while (0)
#if KAPI_BEFORE(6, 6)
#define RCU_NONIDLE(statement)	do { statement; } while (0)
#endif

#endif /* _KAPI_LINUX_RCUPDATE_H */
