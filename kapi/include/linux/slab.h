/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_LINUX_SLAB_H
#define _KAPI_LINUX_SLAB_H

#include <linux/gfp.h>

/* A governor's memory is its statics and per-CPU data: none is handed out while it runs. */

#endif /* _KAPI_LINUX_SLAB_H */
