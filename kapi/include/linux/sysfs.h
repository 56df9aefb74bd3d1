/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_SYSFS_H
#define _KAPI_LINUX_SYSFS_H

#include <linux/compiler.h>
#include <linux/types.h>

/*
 * Writes into a page, answers the length. Of conversions there are %s, %c, %d, %i, %u and %x with
 * l and ll, without width or flags; what else stands there is written as it is.
 */
int sysfs_emit(char *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif /* _KAPI_LINUX_SYSFS_H */
