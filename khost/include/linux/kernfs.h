/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_LINUX_KERNFS_H
#define KHOST_LINUX_KERNFS_H

#include_next <linux/kernfs.h>

/* <linux/cgroup.h> calls it, but a kernel without CONFIG_KERNFS has no declaration. */
static inline ino_t kernfs_ino(struct kernfs_node *node)
{
	return 0;
}

#endif
