/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_MODULEPARAM_H
#define _KAPI_LINUX_MODULEPARAM_H

#include <linux/compiler.h>
#include <linux/stringify.h>
#include <torpor/context.h>

/*
 * The C type of each parameter type. There are no strings and arrays; use module_param_cb() for
 * words.
 */
#define _kapi_type_byte		unsigned char
#define _kapi_type_short	short
#define _kapi_type_ushort	unsigned short
#define _kapi_type_int		int
#define _kapi_type_uint		unsigned int
#define _kapi_type_hexint	unsigned int
#define _kapi_type_long		long
#define _kapi_type_ulong	unsigned long
#define _kapi_type_ullong	unsigned long long
#define _kapi_type_bool		bool
#define _kapi_type_invbool	bool

struct module;
struct kernel_param;

/* Functions of a parameter: @set checks and stores the text. */
struct kernel_param_ops {
	unsigned int flags;
	int (*set)(const char *val, const struct kernel_param *kp);
	/* Writes into a page; returns the length. */
	int (*get)(char *buffer, const struct kernel_param *kp);
	void (*free)(void *arg);
};

struct kernel_param {
	const char *name;
	struct module *mod;
	const struct kernel_param_ops *ops;
	const u16 perm;
	s8 level;
	u8 flags;
	union {
		void *arg;
	};
};

/*
 * Gives the host the parameter's name, type and place; a variable of another type does not compile.
 */
#define module_param_named(name, value, type, perm)			\
	_Static_assert(__builtin_types_compatible_p(__typeof__(value), _kapi_type_##type), \
		       "module parameter " #name " is no " #type);	\
	static const struct kapi_param _kapi_param_##name		\
	__attribute__((section("torpor_param"), used, aligned(8))) =	\
		{ #name, #type, &(value), __LINE__ }

#define module_param(name, type, perm)	module_param_named(name, name, type, perm)
#define core_param(name, value, type, perm) module_param_named(name, value, type, perm)

#define module_param_cb(name, ops, arg, perm)				\
	static const struct kernel_param _kapi_kernel_param_##name =	\
		{ #name, 0, (ops), (perm), -1, 0, { (void *)(arg) } };	\
	static const struct kapi_param _kapi_param_##name		\
	__attribute__((section("torpor_param"), used, aligned(8))) =	\
		{ #name, "callback", (void *)&_kapi_kernel_param_##name, __LINE__ }

#define MODULE_PARM_DESC(name, text)					\
	static const struct kapi_param _kapi_param_desc_##name		\
	__attribute__((section("torpor_param"), used, aligned(8))) =	\
		{ #name, 0, (void *)(text), __LINE__ }

#endif /* _KAPI_LINUX_MODULEPARAM_H */
