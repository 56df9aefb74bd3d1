/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_BUILD_BUG_H
#define _KAPI_LINUX_BUILD_BUG_H

#include <linux/compiler.h>

#define static_assert(cond, ...) _Static_assert(cond, "" __VA_ARGS__)
#define BUILD_BUG_ON(cond)	_Static_assert(!(cond), "BUILD_BUG_ON: " #cond)
#define BUILD_BUG_ON_MSG(cond, msg) _Static_assert(!(cond), msg)
#define BUILD_BUG_ON_ZERO(e)	((int)sizeof(struct { int : (-!!(e)); }))

#endif /* _KAPI_LINUX_BUILD_BUG_H */
