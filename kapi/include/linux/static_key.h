/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_STATIC_KEY_H
#define _KAPI_LINUX_STATIC_KEY_H

#include <linux/jump_label.h>

#endif /* _KAPI_LINUX_STATIC_KEY_H */
