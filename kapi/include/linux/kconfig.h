/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_KCONFIG_H
#define _KAPI_LINUX_KCONFIG_H

/*
 * A kernel with NO_HZ_IDLE, high resolution timers and SMP. The compiler's command line sets
 * CONFIG_HZ, which is an option of the run.
 */
#define CONFIG_64BIT 1
#define CONFIG_SMP 1
#define CONFIG_CPU_IDLE 1
#define CONFIG_NO_HZ_COMMON 1
#define CONFIG_NO_HZ_IDLE 1
#define CONFIG_HIGH_RES_TIMERS 1
#define CONFIG_PM 1
#define CONFIG_KVM_GUEST 1

/* 1 for an option defined as 1, else 0: the pasted name expands to a second argument. */
#define _kapi_enabled_1		0, 1,
#define _kapi_second(a, b, ...)	b
#define _kapi_pick(x)		_kapi_second(x 1, 0, 0)
#define _kapi_paste(x)		_kapi_pick(_kapi_enabled_##x)
#define IS_ENABLED(option)	_kapi_paste(option)
#define IS_BUILTIN(option)	IS_ENABLED(option)
#define IS_REACHABLE(option)	IS_ENABLED(option)

#endif /* _KAPI_LINUX_KCONFIG_H */
