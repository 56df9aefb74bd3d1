/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_LIST_H
#define _KAPI_LINUX_LIST_H

#include <linux/container_of.h>

#define LIST_HEAD_INIT(name)	{ &(name), &(name) }
#define LIST_HEAD(name)		struct list_head name = LIST_HEAD_INIT(name)

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list->prev = list;
}

#endif /* _KAPI_LINUX_LIST_H */
