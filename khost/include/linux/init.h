/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_LINUX_INIT_H
#define KHOST_LINUX_INIT_H

#include_next <linux/init.h>

/*
 * An initcall of a policy that is not the tree's own becomes an entry of a table: it runs only if
 * the machine chooses the policy.
 */
#ifdef KHOST_POLICY_NAME
#include <khost/policy.h>

#undef ___define_initcall
#define ___define_initcall(fn, id, place)						\
	static const struct khost_policy khost_policy_##fn = {				\
		.kind = KHOST_POLICY_KIND,						\
		.name = KHOST_POLICY_NAME,						\
		.init = fn,								\
	};										\
	/* A pointer: a compiler may align a structure to more than its size. */	\
	static const struct khost_policy *const khost_policy_at_##fn			\
	__attribute__((used, section("khost_policies"))) = &khost_policy_##fn
#endif

#endif
