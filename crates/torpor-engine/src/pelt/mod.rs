// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Per-entity load tracking: how busy a CPU has been, as the kernel's scheduler reckons it.
//!
//! Time runs in periods of 1024 units of 1024 ns; what lies 32 periods (33.6 ms) back counts half.
//! [`Average`] is that arithmetic, bit for bit as in `kernel/sched/pelt.c`, which a test compiles
//! and compares. [`Clock`] slows time down on small or slow-running CPUs, so that equal work makes
//! for equal utilization; it is bit-exact likewise. [`Runqueue`] is a CPU with its tasks coming and
//! going; `input::util` follows all CPUs of a recording.
//!
//! Parts of the answer of `sched_cpu_util()` on a CPU that goes idle: the fair class's
//! `util_avg` with what sleeping tasks have left behind; no `util_est`, since that counts enqueued
//! tasks and there are none; the real-time and deadline classes' averages; the interrupt time's.

mod average;
mod clock;
mod runqueue;

pub use average::Average;
pub(crate) use average::decay;
pub use clock::Clock;
pub use runqueue::{Runqueue, Scale, Task};
