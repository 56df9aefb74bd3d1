/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Android's trees check that a structure that grew keeps the size that vendors' modules were built
 * with, in Android's own configuration. No such module is loaded here.
 */
#include_next <linux/android_kabi.h>
#undef __ANDROID_KABI_CHECK_SIZE_ALIGN
#define __ANDROID_KABI_CHECK_SIZE_ALIGN(old, new)
