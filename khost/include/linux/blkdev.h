/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Some trees have struct rq_list only with CONFIG_BLOCK, and a member of that type without it, too.
 * A pointer needs no complete type, and nobody here makes a batch of requests.
 */
#define req_list *req_list
#include_next <linux/blkdev.h>
#undef req_list
