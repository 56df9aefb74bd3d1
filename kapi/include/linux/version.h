/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_VERSION_H
#define _KAPI_LINUX_VERSION_H

#define KERNEL_VERSION(a, b, c)	(((a) << 16) + ((b) << 8) + ((c) > 255 ? 255 : (c)))

/* Whose interface this is where kernels differ. */
#define LINUX_VERSION_MAJOR	6
#define LINUX_VERSION_PATCHLEVEL 12
#define LINUX_VERSION_SUBLEVEL	0
#define LINUX_VERSION_CODE	KERNEL_VERSION(6, 12, 0)

#endif /* _KAPI_LINUX_VERSION_H */
