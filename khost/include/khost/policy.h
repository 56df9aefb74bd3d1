/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
#ifndef KHOST_POLICY_H
#define KHOST_POLICY_H

/* An initcall of a policy that is not the tree's own. */
struct khost_policy {
	/* enum khost_policy_kind */
	unsigned int kind;
	const char *name;
	int (*init)(void);
};

#endif
