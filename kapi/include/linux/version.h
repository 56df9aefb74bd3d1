/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_VERSION_H
#define _KAPI_LINUX_VERSION_H

#define KERNEL_VERSION(a, b, c)	(((a) << 16) + ((b) << 8) + ((c) > 255 ? 255 : (c)))

/*
 * Release of the interface: TORPOR_LINUX of the command line, for a governor of an older or newer
 * kernel, else 6.12.
 */
#ifndef TORPOR_LINUX
#define TORPOR_LINUX KERNEL_VERSION(6, 12, 0)
#endif

#define LINUX_VERSION_CODE	TORPOR_LINUX
#define LINUX_VERSION_MAJOR	(TORPOR_LINUX >> 16)
#define LINUX_VERSION_PATCHLEVEL (TORPOR_LINUX >> 8 & 255)
#define LINUX_VERSION_SUBLEVEL	(TORPOR_LINUX & 255)

/* For the headers: whether this is the interface of a kernel before that release. */
#define KAPI_BEFORE(a, b)	(TORPOR_LINUX < KERNEL_VERSION(a, b, 0))

#endif /* _KAPI_LINUX_VERSION_H */
