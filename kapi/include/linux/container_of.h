/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_CONTAINER_OF_H
#define _KAPI_LINUX_CONTAINER_OF_H

#include <linux/stddef.h>

#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

#endif /* _KAPI_LINUX_CONTAINER_OF_H */
