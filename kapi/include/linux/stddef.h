/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_STDDEF_H
#define _KAPI_LINUX_STDDEF_H

#include <linux/types.h>

#define offsetof(type, member)	__builtin_offsetof(type, member)
#define sizeof_field(type, member) sizeof(((type *)0)->member)

#endif /* _KAPI_LINUX_STDDEF_H */
