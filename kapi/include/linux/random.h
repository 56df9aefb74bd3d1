/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* kapi: hosted. */
#ifndef _KAPI_LINUX_RANDOM_H
#define _KAPI_LINUX_RANDOM_H

#include <linux/types.h>
#include <linux/version.h>

/*
 * A sequence for each CPU of an instance, the same in each run. FIDELITY(random): in a kernel it
 * differs each time.
 */
u64 kapi_random(void) __attribute__((visibility("hidden")));

static inline u32 get_random_u32(void)
{
	return kapi_random() >> 32;
}

static inline u64 get_random_u64(void)
{
	return kapi_random();
}

static inline unsigned int get_random_int(void)
{
	return get_random_u32();
}

static inline unsigned long get_random_long(void)
{
	return kapi_random();
}

static inline void get_random_bytes(void *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((u8 *)buf)[i] = kapi_random() >> 56;
}

/* From 0 to @ceil - 1. */
static inline u32 get_random_u32_below(u32 ceil)
{
	return (u64)get_random_u32() * ceil >> 32;
}

/* From @floor to @ceil, inclusive. */
static inline u32 get_random_u32_inclusive(u32 floor, u32 ceil)
{
	return floor + ((u64)get_random_u32() * ((u64)ceil - floor + 1) >> 32);
}

#if KAPI_BEFORE(6, 2)
static inline u32 prandom_u32(void)
{
	return get_random_u32();
}

static inline u32 prandom_u32_max(u32 ceil)
{
	return get_random_u32_below(ceil);
}
#endif

#endif /* _KAPI_LINUX_RANDOM_H */
