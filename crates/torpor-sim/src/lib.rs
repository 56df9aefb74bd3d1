// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Closed-loop simulation: tasks on simulated hardware under a kernel's own scheduler, idle loop and
//! governors, so that a slow wake-up delays its work and everything that follows.

#![warn(unreachable_pub)]

mod check;
mod columns;
pub mod cpufreq;
mod error;
pub mod extract;
mod frequency;
pub mod kernel;
pub mod machine;
mod options;
pub mod oracle;
pub mod outcome;
pub mod random;
pub mod record;
mod session;
mod summary;
pub mod workload;

pub use columns::{kernel_id, kernel_inputs};
pub use cpufreq::Cpufreq;
pub use error::{Halt, SimError, Stuck};
pub use kernel::{DEFAULT_KERNEL, KernelSpec};
pub use options::{Options, Overheads, Request};
pub use session::{Finished, Session, run, run_unfinished};
pub use workload::Workload;
