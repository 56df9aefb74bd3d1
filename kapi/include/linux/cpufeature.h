/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_LINUX_CPUFEATURE_H
#define _KAPI_LINUX_CPUFEATURE_H

#include <asm/cpufeature.h>

#endif /* _KAPI_LINUX_CPUFEATURE_H */
