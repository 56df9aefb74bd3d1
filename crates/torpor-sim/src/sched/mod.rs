// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The scheduler's parts that know no events: queues, sets of CPUs, the energy model.
//!
//! FIDELITY(sched-fair): the fair class follows the rules of Linux 6.12 (EEVDF) without groups and
//! slices of a task's own. There are no real-time and deadline classes.

mod energy;
mod fair;
mod mask;
mod topology;
mod tournament;
mod uclamp;

pub use energy::{PerfDomain, fits, inefficient};
pub use fair::{Entity, FairQueue, NICE_WEIGHTS, Tunables, nice_of};
pub use mask::CpuMask;
pub use topology::Topology;
pub use tournament::Tournament;
pub use uclamp::{Clamp, Fit, RunqueueClamp, fit};
