/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_ASM_UACCESS_H
#define _KAPI_ASM_UACCESS_H

#include <linux/uaccess.h>

#endif /* _KAPI_ASM_UACCESS_H */
