// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Linked right before the governor: between these and torpor_after.c lie its statics, which each
 * sequence starts with anew.
 */
char torpor_data_begin[64] __attribute__((aligned(64))) = { 1 };
char torpor_bss_begin[64] __attribute__((aligned(64)));
