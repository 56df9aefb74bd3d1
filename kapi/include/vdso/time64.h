/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_VDSO_TIME64_H
#define _KAPI_VDSO_TIME64_H

#include <linux/time64.h>

#endif /* _KAPI_VDSO_TIME64_H */
