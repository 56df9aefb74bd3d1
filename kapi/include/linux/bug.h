/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_BUG_H
#define _KAPI_LINUX_BUG_H

#include <linux/compiler.h>
#include <torpor/context.h>

/* A failed BUG_ON() ends the governor: the host catches the trap and reports the place. */
#define BUG() kapi_bug(__FILE__, __LINE__)
#define BUG_ON(cond) do { if (unlikely(cond)) BUG(); } while (0)

#define WARN_ON(cond) ({					\
	bool _warn_cond = !!(cond);				\
	if (unlikely(_warn_cond))				\
		kapi_warn(__FILE__, __LINE__);			\
	unlikely(_warn_cond); })

#define WARN_ON_ONCE(cond) ({					\
	static bool _warned __attribute__((section("torpor_kapi"))); \
	bool _warn_cond = !!(cond);				\
	if (unlikely(_warn_cond) && !_warned) {			\
		_warned = 1;					\
		kapi_warn(__FILE__, __LINE__);			\
	}							\
	unlikely(_warn_cond); })

#define WARN(cond, fmt...)	WARN_ON(cond)
#define WARN_ONCE(cond, fmt...)	WARN_ON_ONCE(cond)

#endif /* _KAPI_LINUX_BUG_H */
