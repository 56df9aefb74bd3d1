/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: restated. */
#ifndef _KAPI_LINUX_JUMP_LABEL_H
#define _KAPI_LINUX_JUMP_LABEL_H

#include <linux/compiler.h>

/* Here a key is a variable that the code reads; a kernel patches the code instead. */
struct static_key {
	bool enabled;
};

struct static_key_true {
	struct static_key key;
};

struct static_key_false {
	struct static_key key;
};

#define STATIC_KEY_TRUE_INIT	{ .key = { .enabled = 1 } }
#define STATIC_KEY_FALSE_INIT	{ .key = { .enabled = 0 } }

#define DEFINE_STATIC_KEY_TRUE(name)	struct static_key_true name = STATIC_KEY_TRUE_INIT
#define DEFINE_STATIC_KEY_FALSE(name)	struct static_key_false name = STATIC_KEY_FALSE_INIT
#define DECLARE_STATIC_KEY_TRUE(name)	extern struct static_key_true name
#define DECLARE_STATIC_KEY_FALSE(name)	extern struct static_key_false name

#define static_key_enabled(x)		(((const struct static_key *)(x))->enabled)
#define static_branch_likely(x)		likely((x)->key.enabled)
#define static_branch_unlikely(x)	unlikely((x)->key.enabled)
#define static_branch_enable(x)		((void)((x)->key.enabled = 1))
#define static_branch_disable(x)	((void)((x)->key.enabled = 0))

#endif /* _KAPI_LINUX_JUMP_LABEL_H */
