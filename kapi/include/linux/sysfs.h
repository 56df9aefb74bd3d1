/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_LINUX_SYSFS_H
#define _KAPI_LINUX_SYSFS_H

#include <linux/compiler.h>
#include <linux/types.h>

struct kobject;

struct attribute {
	const char *name;
	umode_t mode;
};

struct attribute_group {
	const char *name;
	struct attribute **attrs;
};

#define __ATTR(_name, _mode, _show, _store)				\
	{ .attr = { .name = #_name, .mode = _mode }, .show = _show, .store = _store }
#define __ATTR_RO(_name)	{ .attr = { .name = #_name, .mode = 0444 }, .show = _name##_show }
#define __ATTR_WO(_name)	{ .attr = { .name = #_name, .mode = 0200 }, .store = _name##_store }
#define __ATTR_RW(_name)	__ATTR(_name, 0644, _name##_show, _name##_store)
#define ATTRIBUTE_GROUPS(_name)						\
	static const struct attribute_group _name##_group = { .attrs = _name##_attrs }; \
	static const struct attribute_group * const _name##_groups[] = { &_name##_group, NULL }

static inline int sysfs_create_group(struct kobject *kobj, const struct attribute_group *group)
{
	return 0;
}

static inline void sysfs_remove_group(struct kobject *kobj, const struct attribute_group *group)
{
}

static inline int sysfs_create_file(struct kobject *kobj, const struct attribute *attr)
{
	return 0;
}

/*
 * Write into a page and return the length. They support %s, %c, %d, %i, %u and %x with l and ll,
 * without width or flags; other text is copied.
 */
int sysfs_emit(char *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
int sysfs_emit_at(char *page, int at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif /* _KAPI_LINUX_SYSFS_H */
