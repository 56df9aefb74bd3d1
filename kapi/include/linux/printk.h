/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_LINUX_PRINTK_H
#define _KAPI_LINUX_PRINTK_H

#include <linux/compiler.h>

#define KERN_ERR	""
#define KERN_WARNING	""
#define KERN_INFO	""
#define KERN_DEBUG	""

/* Messages are discarded, but the compiler checks their formats. */
static inline __printf(1, 2) int no_printk(const char *fmt, ...)
{
	return 0;
}

#define printk(fmt, ...)		no_printk(fmt, ##__VA_ARGS__)
#define printk_once(fmt, ...)		no_printk(fmt, ##__VA_ARGS__)
#define printk_deferred(fmt, ...)	no_printk(fmt, ##__VA_ARGS__)
#define pr_emerg(fmt, ...)		no_printk(fmt, ##__VA_ARGS__)
#define pr_alert(fmt, ...)		no_printk(fmt, ##__VA_ARGS__)
#define pr_crit(fmt, ...)		no_printk(fmt, ##__VA_ARGS__)
#define pr_err(fmt, ...)		no_printk(fmt, ##__VA_ARGS__)
#define pr_warn(fmt, ...)		no_printk(fmt, ##__VA_ARGS__)
#define pr_notice(fmt, ...)		no_printk(fmt, ##__VA_ARGS__)
#define pr_info(fmt, ...)		no_printk(fmt, ##__VA_ARGS__)
#define pr_debug(fmt, ...)		no_printk(fmt, ##__VA_ARGS__)
#define pr_err_once(fmt, ...)		no_printk(fmt, ##__VA_ARGS__)
#define pr_warn_once(fmt, ...)		no_printk(fmt, ##__VA_ARGS__)
#define pr_info_once(fmt, ...)		no_printk(fmt, ##__VA_ARGS__)
#define trace_printk(fmt, ...)		no_printk(fmt, ##__VA_ARGS__)

#endif /* _KAPI_LINUX_PRINTK_H */
