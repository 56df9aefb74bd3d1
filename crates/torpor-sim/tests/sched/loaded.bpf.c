// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The helpers' program with a loader's work, without which it does not start. */
#include "helpers.bpf.c"

SEC("torpor/load")
void set_variables(void)
{
	loaded = numbers[0] + numbers[1];
}
