/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_PERCPU_DEFS_H
#define _KAPI_LINUX_PERCPU_DEFS_H

#include <linux/compiler.h>
#include <linux/version.h>
#include <torpor/context.h>

/*
 * Variables of this section are the template of the per-CPU data; each CPU has a copy between guard
 * pages. The address of an object plus the CPU's offset is its copy.
 */
#define _kapi_percpu_section	__attribute__((section("torpor_percpu"), used))

#define DECLARE_PER_CPU(type, name)	extern _kapi_percpu_section __typeof__(type) name
#define DEFINE_PER_CPU(type, name)	_kapi_percpu_section __typeof__(type) name
#define DECLARE_PER_CPU_ALIGNED(type, name) DECLARE_PER_CPU(type, name) __aligned(64)
#define DEFINE_PER_CPU_ALIGNED(type, name) DEFINE_PER_CPU(type, name) __aligned(64)
#define DECLARE_PER_CPU_SHARED_ALIGNED(type, name) DECLARE_PER_CPU_ALIGNED(type, name)
#define DEFINE_PER_CPU_SHARED_ALIGNED(type, name) DEFINE_PER_CPU_ALIGNED(type, name)
#define DEFINE_PER_CPU_READ_MOSTLY(type, name) DEFINE_PER_CPU(type, name)

/* The asm hides from the compiler that the result points outside the template. */
#define _kapi_shift(ptr, offset) ({					\
	unsigned long _shift_ptr;					\
	__asm__("" : "=r"(_shift_ptr) : "0"(ptr));			\
	(__typeof__(ptr))(_shift_ptr + (offset)); })

#define per_cpu_ptr(ptr, cpu)	_kapi_shift(ptr, kapi_cpu(cpu)->percpu_offset)
#define per_cpu(var, cpu)	(*per_cpu_ptr(&(var), cpu))
#define this_cpu_ptr(ptr)	_kapi_shift(ptr, kapi_host.cpu->percpu_offset)
#define raw_cpu_ptr(ptr)	this_cpu_ptr(ptr)
#define get_cpu_ptr(ptr)	this_cpu_ptr(ptr)
#define put_cpu_ptr(ptr)	((void)(ptr))
#define get_cpu_var(var)	(*this_cpu_ptr(&(var)))
#define put_cpu_var(var)	((void)&(var))
#if KAPI_BEFORE(3, 19)
#define __get_cpu_var(var)	get_cpu_var(var)
#endif

#define this_cpu_read(var)	(*this_cpu_ptr(&(var)))
#define this_cpu_write(var, v)	((void)(*this_cpu_ptr(&(var)) = (v)))
#define this_cpu_add(var, v)	((void)(*this_cpu_ptr(&(var)) += (v)))
#define this_cpu_sub(var, v)	((void)(*this_cpu_ptr(&(var)) -= (v)))
#define this_cpu_inc(var)	this_cpu_add(var, 1)
#define this_cpu_dec(var)	this_cpu_sub(var, 1)
#define __this_cpu_read(var)	this_cpu_read(var)
#define __this_cpu_write(var, v) this_cpu_write(var, v)
#define __this_cpu_add(var, v)	this_cpu_add(var, v)
#define __this_cpu_inc(var)	this_cpu_inc(var)
#define raw_cpu_read(var)	this_cpu_read(var)
#define raw_cpu_write(var, v)	this_cpu_write(var, v)

#endif /* _KAPI_LINUX_PERCPU_DEFS_H */
