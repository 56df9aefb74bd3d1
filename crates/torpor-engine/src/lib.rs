// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The idle loop, replay, the cost model, the metrics and the oracle.

pub mod catalogue;
pub mod cluster;
pub mod cost;
pub mod decision;
mod error;
#[cfg(test)]
mod governor_timers;
pub mod idle_loop;
pub mod input;
#[cfg(test)]
mod io_and_polling;
pub mod latency;
pub mod model;
pub mod options;
pub mod oracle;
pub mod outcome;
pub mod pelt;
pub mod policy;
mod poll;
mod reading;
mod recorded;
pub mod replay;
mod session;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod totals;
pub mod verify;

pub use error::EngineError;
pub use options::{DisabledState, ORACLE, Options, Progress, Request, Unwatched};
pub use outcome::{Outcome, TraceInfo};
pub use recorded::{RecordedCpu, RecordedState, RecordedUsage};
pub use session::{check_disabled_states, describe_governor, run, state_descs};
