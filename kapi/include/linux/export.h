/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_LINUX_EXPORT_H
#define _KAPI_LINUX_EXPORT_H

#define EXPORT_SYMBOL(sym)
#define EXPORT_SYMBOL_GPL(sym)

#define THIS_MODULE	((struct module *)0)

#endif /* _KAPI_LINUX_EXPORT_H */
