/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_ARRAY_SIZE_H
#define _KAPI_LINUX_ARRAY_SIZE_H

#include <linux/kernel.h>

#endif /* _KAPI_LINUX_ARRAY_SIZE_H */
