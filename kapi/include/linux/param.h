/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_PARAM_H
#define _KAPI_LINUX_PARAM_H

/* The tick rate: one of the four that a kernel can have. */
#ifndef CONFIG_HZ
#error "CONFIG_HZ must be given on the command line"
#endif
#if CONFIG_HZ != 100 && CONFIG_HZ != 250 && CONFIG_HZ != 300 && CONFIG_HZ != 1000
#error "CONFIG_HZ must be 100, 250, 300 or 1000"
#endif

#define HZ CONFIG_HZ

#endif /* _KAPI_LINUX_PARAM_H */
