/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_LINUX_HRTIMER_H
#define KHOST_LINUX_HRTIMER_H

#include_next <linux/hrtimer.h>
#include <generated/khost-names.h>

/* A policy that is not the tree's own may be of a later release. */
#if defined(KHOST_POLICY_NAME) && !defined(KHOST_HAS_HRTIMER_SETUP)
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *timer),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#endif
