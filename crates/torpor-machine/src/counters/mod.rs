// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Idle counters of sysfs: usage, time, above, below, rejected.
//!
//! A [`Snapshot`] is read from the running machine, a copy of its tree, an archive, the output of
//! `grep`, `cat` or `cpupower`, or a saved file. [`delta()`] returns what was counted between two
//! of them. A [`Log`] of turbostat holds intervals. All text comes through one opener, packed or
//! not.
//!
//! Every reader finds pairs of a sysfs path and a value and passes them to one builder. A value that
//! cannot be used is reported in the snapshot.

mod archive;
mod bare;
mod builder;
mod cpupower;
mod delta;
mod energy_model;
mod error;
mod folder;
mod model;
mod path;
mod read;
mod saved;
mod text;
mod turbostat;

pub use delta::{Change, CpuDelta, Delta, Note, NoteKind, StateDelta, delta, since_boot};
pub use energy_model::{PerfDomain, PerfState, PowerUnit};
pub use error::CountersError;
pub use folder::{Clock, take};
pub use model::{CPU_MAX, Cpu, Machine, Problem, STATE_MAX, Snapshot, State};
pub(crate) use read::load;
pub use read::{Dump, read, read_bytes, read_dump, read_dump_bytes, read_energy_model};
pub use saved::to_json;
pub use turbostat::{CpuLog, Got, Log};
