/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_ASM_PARAM_H
#define _KAPI_ASM_PARAM_H

#include <linux/param.h>

#endif /* _KAPI_ASM_PARAM_H */
