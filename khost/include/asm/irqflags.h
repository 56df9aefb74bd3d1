/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_IRQFLAGS_H
#define KHOST_ASM_IRQFLAGS_H

/*
 * Interrupts of a simulated CPU: raised ones wait while they are off, and are served at the place
 * where the kernel lets them in.
 */
#include <khost.h>

static __always_inline unsigned long arch_local_save_flags(void)
{
	return khost_cpu->irqs_off;
}

static __always_inline int arch_irqs_disabled_flags(unsigned long flags)
{
	return flags != 0;
}

static __always_inline int arch_irqs_disabled(void)
{
	return khost_cpu->irqs_off != 0;
}

static __always_inline void arch_local_irq_disable(void)
{
	khost_cpu->irqs_off = 1;
}

static __always_inline void arch_local_irq_enable(void)
{
	khost_cpu->irqs_off = 0;
	if (__builtin_expect(khost_cpu->raised != 0, 0))
		khost_serve_interrupts();
}

static __always_inline unsigned long arch_local_irq_save(void)
{
	unsigned long flags = khost_cpu->irqs_off;

	khost_cpu->irqs_off = 1;
	return flags;
}

static __always_inline void arch_local_irq_restore(unsigned long flags)
{
	if (!flags)
		arch_local_irq_enable();
}

#define arch_safe_halt() arch_local_irq_enable()

#endif
