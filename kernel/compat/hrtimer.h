/* SPDX-License-Identifier: GPL-2.0-only */
/* hrtimer_setup() of Linux 6.13 for older kernels, so that a governor's file is the same for all. */
#ifndef _TORPOR_HRTIMER_H
#define _TORPOR_HRTIMER_H

#include <linux/hrtimer.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *timer),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#endif /* _TORPOR_HRTIMER_H */
