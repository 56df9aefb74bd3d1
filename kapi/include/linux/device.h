/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_LINUX_DEVICE_H
#define _KAPI_LINUX_DEVICE_H

#include <linux/kobject.h>
#include <linux/module.h>

struct device {
	struct kobject kobj;
};

struct bus_type {
	const char *name;
};

static inline struct device *bus_get_dev_root(const struct bus_type *bus)
{
	static struct device root;

	return &root;
}

static inline void put_device(struct device *dev)
{
}

#endif /* _KAPI_LINUX_DEVICE_H */
