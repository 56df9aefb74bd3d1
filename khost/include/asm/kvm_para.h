/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_ASM_KVM_PARA_H
#define KHOST_ASM_KVM_PARA_H

/* haltpoll registers only in a guest. It has the lowest rating, so it runs only on request. */
#define kvm_para_available generic_kvm_para_available
#include <asm-generic/kvm_para.h>
#undef kvm_para_available

static inline bool kvm_para_available(void)
{
	return true;
}

#endif
