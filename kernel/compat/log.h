/* SPDX-License-Identifier: GPL-2.0-only */
/* Governor modules write the log of decisions with these. */
#ifndef _TORPOR_LOG_H
#define _TORPOR_LOG_H

#include <linux/cpuidle.h>
#include <linux/percpu.h>

#include "record.h"

/* A call in progress. A timer can expire during reflect(), which is @outer then. */
struct torpor_logged {
	enum torpor_record_kind kind;
	struct torpor_record record;
	struct torpor_logged *outer;
};

/* The call in progress on this CPU, if it is logged. */
DECLARE_PER_CPU(struct torpor_logged *, torpor_current_call);

int torpor_log_start(struct dentry *folder);
void torpor_log_stop(void);
bool torpor_log_is_on(void);
void torpor_log_begin(struct torpor_logged *logged, enum torpor_record_kind kind,
		      struct cpuidle_driver *drv, struct cpuidle_device *dev);
void torpor_log_end(struct torpor_logged *logged);
void torpor_log_table(const char *governor, struct cpuidle_driver *drv,
		      struct cpuidle_device *dev);
void torpor_log_input(enum torpor_input input, s64 value);

/* An answer of the kernel to the governor. */
static __always_inline s64 torpor_note(enum torpor_input input, s64 value)
{
	if (unlikely(this_cpu_read(torpor_current_call)))
		torpor_log_input(input, value);
	return value;
}

#endif /* _TORPOR_LOG_H */
