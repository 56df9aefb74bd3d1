// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Replays recordings: inputs, idle loop, cost model, oracle and results.

#![warn(unreachable_pub)]

// Test code that is shared with `tests/` uses this crate's name.
#[cfg(test)]
extern crate self as torpor_engine;

pub mod causes;
pub mod cluster;
mod config_notes;
pub mod cost;
pub mod decision;
mod drive;
mod error;
pub mod idle_loop;
pub mod input;
pub mod live;
pub mod model;
pub mod options;
pub mod oracle;
pub mod outcome;
pub mod pelt;
pub mod policy;
pub mod pool;
mod prepared;
mod proof;
mod reading;
mod recorded;
pub mod replay;
mod session;
pub mod spans;
pub mod stats;
pub mod strip;
pub mod summary;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod testing;
mod timed;
pub mod timeline;
pub mod totals;
pub mod trace_info;
pub mod verify;

pub use error::EngineError;
pub use model::state_descs;
pub use options::{
    DisabledState, Machine, ORACLE, Options, Progress, Request, Unwatched, enable_states,
    state_names, worker_threads,
};
pub use outcome::Outcome;
pub use reading::{Loaded, stream, whole};
pub use recorded::{RecordedCpu, RecordedState, RecordedUsage};
pub use session::{
    asks_for_oracle, check_disabled_states, check_latency_limits, describe_governor, run, run_on,
    spans_of,
};
pub use trace_info::TraceInfo;
