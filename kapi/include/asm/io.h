/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_ASM_IO_H
#define _KAPI_ASM_IO_H

#endif /* _KAPI_ASM_IO_H */
