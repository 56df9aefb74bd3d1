/* SPDX-License-Identifier: GPL-2.0-only */
/* Functions of torpor_core.ko for the governors' modules. */
#ifndef _TORPOR_CORE_H
#define _TORPOR_CORE_H

#include <linux/cpuidle.h>
#include <linux/debugfs.h>
#include <linux/percpu.h>

#include "symbols.h"

/* Expiries of a governor's own timers on idle CPUs, and on CPUs that ran a task. */
struct torpor_timers {
	unsigned long idle, busy;
};

int torpor_find_needs(const char *governor, const char *needs);
int torpor_register_governor(struct cpuidle_governor *gov, const char *name);
void torpor_unregister_governor(struct cpuidle_governor *gov);
bool torpor_can_unregister(void);
bool torpor_kvm_para_available(void);
struct dentry *torpor_show_timers(const char *governor, struct torpor_timers __percpu *timers);

#endif /* _TORPOR_CORE_H */
