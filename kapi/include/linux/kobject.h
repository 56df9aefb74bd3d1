/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_LINUX_KOBJECT_H
#define _KAPI_LINUX_KOBJECT_H

#include <linux/sysfs.h>

/* There is no sysfs: objects exist, but their files are not visible. */
struct kobject {
	const char *name;
	struct kobject *parent;
};

struct kobj_attribute {
	struct attribute attr;
	ssize_t (*show)(struct kobject *kobj, struct kobj_attribute *attr, char *buf);
	ssize_t (*store)(struct kobject *kobj, struct kobj_attribute *attr, const char *buf,
			 size_t count);
};

static inline struct kobject *kobject_create_and_add(const char *name, struct kobject *parent)
{
	static struct kobject kobj;

	return &kobj;
}

static inline void kobject_put(struct kobject *kobj)
{
}

#endif /* _KAPI_LINUX_KOBJECT_H */
