/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_KVM_PARA_H
#define _KAPI_LINUX_KVM_PARA_H

#include <linux/compiler.h>

/* Always a guest, so that governors for guests register. */
static inline bool kvm_para_available(void)
{
	return 1;
}

static inline bool kvm_para_has_hint(unsigned int feature)
{
	return 0;
}

#define KVM_HINTS_REALTIME 0

#endif /* _KAPI_LINUX_KVM_PARA_H */
