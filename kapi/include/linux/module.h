/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_MODULE_H
#define _KAPI_LINUX_MODULE_H

#include <linux/errno.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/jump_label.h>
#include <linux/kernel.h>
#include <linux/kobject.h>
#include <linux/moduleparam.h>

struct module;


#define module_init(fn)	_kapi_initcall(fn)
/* Images are unloaded as a whole, so module exit functions are never called. */
#define module_exit(fn)							\
	static void (*const _kapi_exitcall_##fn)(void) __attribute__((unused)) = fn

#define MODULE_LICENSE(text)
#define MODULE_AUTHOR(text)
#define MODULE_DESCRIPTION(text)
#define MODULE_VERSION(text)
#define MODULE_ALIAS(text)
#define MODULE_INFO(tag, text)

#endif /* _KAPI_LINUX_MODULE_H */
