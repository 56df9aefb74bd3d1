// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Spinlocks: their effects on interrupts and preemption remain. The other locks are in nothing.c. One
 * host thread acts for all CPUs, and a kernel thread gives up its CPU only where it can sleep, so no
 * lock is ever contended.
 */
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/sched.h>
#include "host.h"

/* The kernel's headers may have these inline. */
#undef _raw_spin_lock
#undef _raw_spin_unlock
#undef _raw_read_lock
#undef _raw_read_unlock
#undef _raw_write_lock
#undef _raw_write_unlock
#undef _raw_spin_lock_irqsave
#undef _raw_spin_unlock_irqrestore
#undef _raw_read_lock_irqsave
#undef _raw_read_unlock_irqrestore
#undef _raw_write_lock_irqsave
#undef _raw_write_unlock_irqrestore
#undef _raw_spin_trylock
#undef _raw_spin_lock_irq
#undef _raw_spin_unlock_irq

#define LOCK(name, type)								\
void _raw_##name##_lock(type *lock)							\
{											\
	khost_step();									\
	preempt_disable();								\
}											\
void _raw_##name##_unlock(type *lock)							\
{											\
	preempt_enable();								\
}											\
unsigned long _raw_##name##_lock_irqsave(type *lock)					\
{											\
	unsigned long flags;								\
											\
	khost_step();									\
	local_irq_save(flags);								\
	preempt_disable();								\
	return flags;									\
}											\
void _raw_##name##_unlock_irqrestore(type *lock, unsigned long flags)			\
{											\
	local_irq_restore(flags);							\
	preempt_enable();								\
}

LOCK(spin, raw_spinlock_t)
LOCK(read, rwlock_t)
LOCK(write, rwlock_t)

int _raw_spin_trylock(raw_spinlock_t *lock)
{
	khost_step();
	preempt_disable();
	return 1;
}

/* Asked only by those that hold it. */
bool mutex_is_locked(struct mutex *lock)
{
	return true;
}

int mutex_trylock(struct mutex *lock)
{
	return 1;
}

void _raw_spin_lock_irq(raw_spinlock_t *lock)
{
	khost_step();
	local_irq_disable();
	preempt_disable();
}

void _raw_spin_unlock_irq(raw_spinlock_t *lock)
{
	local_irq_enable();
	preempt_enable();
}
