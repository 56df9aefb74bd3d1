// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Keeps every nth task that wakes, until the kernel has had enough. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

void scx_bpf_dispatch(struct task_struct *p, u64 queue, u64 slice_ns, u64 flags) __ksym;

char _license[] SEC("license") = "MIT OR GPL";

const volatile u32 nth = 1000;
static u32 count;

/* Without it, the class gives idle CPUs a task and does not ask. */
SEC("struct_ops/stalls_select_cpu")
s32 BPF_PROG(stalls_select_cpu, struct task_struct *p, s32 cpu, u64 flags)
{
	return cpu;
}

SEC("struct_ops/stalls_enqueue")
void BPF_PROG(stalls_enqueue, struct task_struct *p, u64 flags)
{
	if (++count % nth)
		scx_bpf_dispatch(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, flags);
}

SEC(".struct_ops.link")
struct sched_ext_ops stalls_ops = {
	.select_cpu = (void *)stalls_select_cpu,
	.enqueue = (void *)stalls_enqueue,
	.timeout_ms = 500,
	.name = "stalls",
};
