// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Kernel threads in which drivers complete requests: tasks with their own program, one for each
//! CPU that a device interrupts.
//!
//! FIDELITY(io-device): a worker is its device's alone; the kernel's workqueues share them.

use super::attributes::NICE_WEIGHTS;
use super::{Clamp, Device, Op, Step, TaskKind, Workload};
use crate::kernel::Policy;
use crate::machine::Topology;
use std::collections::BTreeSet;
use torpor_machine::platform::Completion;
use torpor_machine::units::{CpuId, Duration};

/// Policy of a threaded interrupt: `sched_set_fifo()` in `irq_thread()`.
const IRQ_THREAD: Policy = Policy::Fifo(50);

impl Workload {
    /// Returns the workload with the threads of its devices' drivers, which come last.
    pub fn with_kthreads(mut self, devices: &[Device], topology: &Topology) -> Workload {
        for (number, device) in devices.iter().enumerate() {
            if device.completion == Completion::Irq {
                continue;
            }
            let queues = 0..device.queues(topology.cpus);
            let cpus: BTreeSet<usize> = queues.map(|q| device.irq_cpu_of(q, topology)).collect();
            self.tasks.extend(cpus.into_iter().map(|cpu| kthread(number, device, cpu)));
        }
        self
    }
}

/// Names are the kernel's, with the device instead of the interrupt's or the workqueue's number.
fn kthread(number: usize, device: &Device, cpu: usize) -> TaskKind {
    let (name, nice, policy, clamp) = match device.completion {
        Completion::Worker => {
            (format!("kworker/{cpu}:{}H", device.name), -20, Policy::Normal, Clamp::NONE)
        }
        _ => (format!("irq/{cpu}-{}", device.name), 0, IRQ_THREAD, Clamp::REALTIME),
    };
    let ops =
        [Op::KthreadTake { device: number }, Op::KthreadComplete { device: number }, Op::Goto(0)];
    let step = |op| Step { op, place: "its loop".to_owned() };
    TaskKind {
        name,
        count: 1,
        groups: 1,
        cpus: Some(vec![CpuId(cpu as u32)]),
        each_cpu: false,
        parent_cpu: None,
        start: Duration::ZERO,
        stagger: Duration::ZERO,
        timer_slack: Duration::ZERO,
        slice: Duration::ZERO,
        weight: NICE_WEIGHTS[(nice + 20) as usize],
        activity: None,
        during: None,
        cgroup: None,
        policy,
        clamp,
        repeat: None,
        program: ops.map(step).into(),
        draws: 0,
        depth: 0,
        timers: 0,
    }
}

impl TaskKind {
    /// Returns the device whose requests it completes, if it is a kernel thread.
    pub fn completes_for(&self) -> Option<usize> {
        match self.program.first()?.op {
            Op::KthreadTake { device } => Some(device),
            _ => None,
        }
    }
}
