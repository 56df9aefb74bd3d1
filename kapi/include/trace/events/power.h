/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: stub. */
#ifndef _KAPI_TRACE_EVENTS_POWER_H
#define _KAPI_TRACE_EVENTS_POWER_H

#include <linux/cpu.h>
#include <linux/pm_qos.h>
#include <linux/types.h>

static inline void trace_cpu_idle(unsigned int state, unsigned int cpu) { }
static inline void trace_cpu_idle_miss(unsigned int cpu, unsigned int state, bool below) { }
static inline void trace_guest_halt_poll_ns(bool grow, unsigned int new_ns, unsigned int old_ns) { }
static inline void trace_guest_halt_poll_ns_grow(unsigned int new_ns, unsigned int old_ns) { }
static inline void trace_guest_halt_poll_ns_shrink(unsigned int new_ns, unsigned int old_ns) { }

#endif /* _KAPI_TRACE_EVENTS_POWER_H */
