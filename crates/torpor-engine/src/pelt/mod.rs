// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Per-entity load tracking: the utilization of a CPU as the kernel's scheduler computes it.
//!
//! Time runs in periods of 1024 units of 1024 ns; a period 32 periods (33.6 ms) ago counts half.
//! [`Average`] is this arithmetic, bit for bit as in `kernel/sched/pelt.c`, which a test compiles
//! and compares. [`Clock`] slows time down on small or slow CPUs, so that equal work gives equal
//! utilization; it is bit-exact, too. [`Runqueue`] is a CPU whose tasks come and go; `input::util`
//! follows all CPUs of a recording.
//!
//! `sched_cpu_util()` on a CPU that goes idle also adds the averages of the real-time and deadline
//! classes and of interrupts; `util_est` counts enqueued tasks only and is zero there.

mod average;
mod clock;
mod runqueue;

pub use average::Average;
pub(crate) use average::decay;
pub use clock::Clock;
pub use runqueue::{Runqueue, Scale, Task};
