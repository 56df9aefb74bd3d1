// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Read-copy-update, in outline: a grace period ends with the call from the simulator in which it
 * was asked for, as nothing that reads goes on beyond it but threads of the kernel, none of which
 * waits in the middle of reading. So RCU never keeps a tick here, as it does in a kernel.
 */
#include <linux/rcupdate.h>
#include "host.h"

static struct rcu_head *first, **last = &first;

void call_rcu(struct rcu_head *head, rcu_callback_t function)
{
	head->func = function;
	head->next = NULL;
	*last = head;
	last = &head->next;
}

void khost_end_grace_periods(void)
{
	while (first) {
		struct rcu_head *head = first;

		first = head->next;
		if (!first)
			last = &first;
		head->func(head);
	}
}
