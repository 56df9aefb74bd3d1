/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_INIT_H
#define _KAPI_LINUX_INIT_H

#include <linux/compiler.h>
#include <torpor/context.h>

#define __init		__cold
#define __exit		__maybe_unused
#define __initdata
#define __initconst

typedef int (*initcall_t)(void);

/* The host runs these once, after it has loaded the image and set the parameters. */
#define _kapi_initcall(fn)						\
	static const initcall_t _kapi_initcall_##fn			\
	__attribute__((section("torpor_init"), used)) = fn

#define early_initcall(fn)	_kapi_initcall(fn)
#define pure_initcall(fn)	_kapi_initcall(fn)
#define core_initcall(fn)	_kapi_initcall(fn)
#define postcore_initcall(fn)	_kapi_initcall(fn)
#define arch_initcall(fn)	_kapi_initcall(fn)
#define subsys_initcall(fn)	_kapi_initcall(fn)
#define fs_initcall(fn)		_kapi_initcall(fn)
#define device_initcall(fn)	_kapi_initcall(fn)
#define late_initcall(fn)	_kapi_initcall(fn)

#endif /* _KAPI_LINUX_INIT_H */
