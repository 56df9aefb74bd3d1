/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_SMP_H
#define KHOST_ASM_SMP_H

extern int khost_cpu_number;

#define raw_smp_processor_id() khost_cpu_number

void arch_smp_send_reschedule(int cpu);
void arch_send_call_function_single_ipi(int cpu);
void arch_send_call_function_ipi_mask(const struct cpumask *mask);

#endif
