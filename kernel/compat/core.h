/* SPDX-License-Identifier: GPL-2.0-only */
/* What torpor_core.ko offers to the governors' modules. */
#ifndef _TORPOR_CORE_H
#define _TORPOR_CORE_H

#include <linux/cpuidle.h>
#include <linux/debugfs.h>
#include <linux/percpu.h>

#include "symbols.h"

/* How often a governor's own timers expired on a CPU that was idle, and on one that ran a task. */
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
