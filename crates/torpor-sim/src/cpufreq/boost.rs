// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Where an IO boost is told of a run and asked for its part in it.

use torpor_governor::Fault;
use torpor_units::Instant;

/// Raises frequency, or what placement takes tasks for, on account of their waiting for IO. A
/// machine without one has no boost at all. Tasks are told by a number that a later task may get
/// again after [`IoBoost::exit`].
///
/// What is asked of it from placement takes `&self`: many CPUs are looked at for one wake-up.
pub trait IoBoost {
    /// A task becomes runnable on `cpu`; `in_iowait` until it runs after a wait for IO. Before the
    /// [`IoBoost::cpufreq_update`] that this leads to.
    fn enqueue(&mut self, _task: u32, _cpu: usize, _now: Instant, _in_iowait: bool) {}

    /// It leaves `cpu`, to wait (for IO: `in_iowait`), for another CPU, or for good.
    fn dequeue(&mut self, _task: u32, _cpu: usize, _now: Instant, _in_iowait: bool) {}

    fn exit(&mut self, _task: u32) {}

    /// `cpufreq_update_util()`, with or without `SCHED_CPUFREQ_IOWAIT`; whatever the rate limit.
    fn cpufreq_update(&mut self, _cpu: usize, _now: Instant, _is_iowait: bool) {}

    /// The least utilization that schedutil takes the CPU for, of its `capacity`. Asked when a
    /// frequency is decided, of all CPUs that share it.
    fn cpu_util(&mut self, _cpu: usize, _now: Instant, _capacity: u64) -> u64 {
        0
    }

    /// The least utilization that placement takes the task for.
    fn task_util(&self, _task: u32) -> u64 {
        0
    }

    /// The least utilization that placement takes the CPU for.
    fn queue_util(&self, _cpu: usize) -> u64 {
        0
    }

    /// Whether it ever answers [`IoBoost::uclamp_min`] with more than 0.
    fn sets_uclamp(&self) -> bool {
        false
    }

    /// The least `UCLAMP_MIN` of the task, taken when it is enqueued and placed.
    fn uclamp_min(&self, _task: u32) -> u16 {
        0
    }

    /// What it has failed with, if it has: asked after each event, and ends the run.
    fn fault(&mut self) -> Option<Fault> {
        None
    }
}
