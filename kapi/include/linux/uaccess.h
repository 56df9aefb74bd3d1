/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_LINUX_UACCESS_H
#define _KAPI_LINUX_UACCESS_H

#endif /* _KAPI_LINUX_UACCESS_H */
