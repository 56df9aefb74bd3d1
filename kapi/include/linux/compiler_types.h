/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_COMPILER_TYPES_H
#define _KAPI_LINUX_COMPILER_TYPES_H

#include <linux/compiler.h>

#endif /* _KAPI_LINUX_COMPILER_TYPES_H */
