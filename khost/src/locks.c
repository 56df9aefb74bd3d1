// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Locks that change whether interrupts are on: only that effect remains. The others are in
 * nothing.c. One host thread acts for all CPUs, and a kernel thread gives up its CPU only where it
 * can sleep, so no lock is ever contended.
 */
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/sched.h>
#include "host.h"

int _raw_spin_trylock(raw_spinlock_t *lock)
{
	khost_step();
	return 1;
}

int mutex_trylock(struct mutex *lock)
{
	return 1;
}

void _raw_spin_lock_irq(raw_spinlock_t *lock)
{
	khost_step();
	local_irq_disable();
}

void _raw_spin_unlock_irq(raw_spinlock_t *lock)
{
	local_irq_enable();
}

unsigned long _raw_spin_lock_irqsave(raw_spinlock_t *lock)
{
	unsigned long flags;

	khost_step();
	local_irq_save(flags);
	return flags;
}

void _raw_spin_unlock_irqrestore(raw_spinlock_t *lock, unsigned long flags)
{
	local_irq_restore(flags);
}

unsigned long _raw_read_lock_irqsave(rwlock_t *lock)
{
	unsigned long flags;

	khost_step();
	local_irq_save(flags);
	return flags;
}

void _raw_read_unlock_irqrestore(rwlock_t *lock, unsigned long flags)
{
	local_irq_restore(flags);
}

unsigned long _raw_write_lock_irqsave(rwlock_t *lock)
{
	unsigned long flags;

	khost_step();
	local_irq_save(flags);
	return flags;
}

void _raw_write_unlock_irqrestore(rwlock_t *lock, unsigned long flags)
{
	local_irq_restore(flags);
}
