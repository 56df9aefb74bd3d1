/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_LINUX_GFP_H
#define _KAPI_LINUX_GFP_H

#include <linux/types.h>

typedef unsigned int gfp_t;

#define GFP_KERNEL	((gfp_t)0)
#define GFP_ATOMIC	((gfp_t)0)
#define GFP_NOWAIT	((gfp_t)0)

#endif /* _KAPI_LINUX_GFP_H */
