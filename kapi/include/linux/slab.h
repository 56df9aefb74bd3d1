/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_LINUX_SLAB_H
#define _KAPI_LINUX_SLAB_H

#include <linux/gfp.h>

/* No allocation: a governor's memory is its statics and per-CPU data. */

#endif /* _KAPI_LINUX_SLAB_H */
