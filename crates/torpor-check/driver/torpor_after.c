// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Linked right after the governor; see torpor_before.c. */
char torpor_data_end[64] __attribute__((aligned(64))) = { 1 };
char torpor_bss_end[64] __attribute__((aligned(64)));
