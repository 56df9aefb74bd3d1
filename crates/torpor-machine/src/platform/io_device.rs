// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A storage device as the block layer sees it: its queues, what a request takes, and where its
//! completion is handled.

use crate::toml::Distribution;
use crate::units::{CpuId, Duration};

/// A device that tasks send requests to. Part of a machine, or one that ships by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct IoDevice {
    pub name: String,
    /// Sources of the numbers, one line each.
    pub sources: Vec<String>,
    /// Hardware queues; `None` is one for each CPU.
    pub nr_hw_queues: Option<u32>,
    /// Requests that each hardware queue of the device takes. Further ones wait in the kernel until
    /// the CPU has handled a completion.
    pub queue_depth: u32,
    /// Requests the device works on at a time, where its flash is not known.
    pub parallelism: u32,
    pub flash: Option<Flash>,
    pub read: ServiceTime,
    pub write: ServiceTime,
    /// Time of emptying its cache.
    pub flush: ServiceTime,
    /// Work of the device without requests.
    pub idle: Option<IdleWork>,
    /// The CPU its completion interrupts go to; by default each queue's own, which is the
    /// submitting one where every CPU has a queue.
    pub irq_cpu: Option<CpuId>,
    pub completion: Completion,
    /// Interrupts of one request: the last is its completion, each before answers a command.
    pub interrupts_per_io: u32,
    /// The driver's handler, on top of what any interrupt takes: at full capacity.
    pub irq: Duration,
    /// The block layer's completion of one request: at full capacity.
    pub softirq: Duration,
    /// Factor that `irq` and `softirq` include, and that a job's default work is multiplied by.
    pub work_ratio: f64,
}

/// The context in which a driver completes requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// The interrupt's, or the softirq that it raises.
    #[default]
    Irq,
    /// A thread of the interrupt, of realtime priority (`request_threaded_irq()`).
    Threaded,
    /// A work item of the interrupt's CPU, on a workqueue with `WQ_HIGHPRI`.
    Worker,
}

/// Flash memory, which a device's requests share.
#[derive(Clone, Debug, PartialEq)]
pub struct Flash {
    /// A request works on the dies of its addresses, and each die on one thing at a time.
    pub dies: u32,
    /// Channels shared by the dies in turn; data that was read leaves over them, one request at a time.
    pub channels: u32,
    pub channel_per_kib: Duration,
    /// A die's time to program its part of what a write has left in the buffer.
    pub program: Duration,
    /// Size of the buffer; a write that finds no space waits for a die.
    pub buffer_kib: u32,
}

/// Background work of a device: its delay after the last request, if there were writes since the
/// previous one, and its length. Requests that arrive during it wait.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleWork {
    pub after: Duration,
    pub length: Distribution,
}

/// Service time of a request: a part by itself, and the time of its data on the link.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceTime {
    pub fixed: Distribution,
    pub per_kib: Duration,
}
