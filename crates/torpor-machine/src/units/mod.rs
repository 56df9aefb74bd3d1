// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The quantities every crate shares, as types that carry their unit.
//!
//! Everything is an integer, so the same inputs give the same bytes on every machine. The unit
//! comes back as a suffix wherever a value leaves Rust (`exit_latency_ns`, `power_uw`).

mod file;
mod ids;
mod names;
mod packing;
mod power;
pub mod shown;
mod text;
mod time;

pub use file::{
    WholeFile, has_input, open_input, open_regular, read_regular, reads_ended_by, unreadable,
    write_whole,
};
pub use ids::{CpuId, StateIdx};
pub use names::{UnknownName, closest};
pub use packing::{Inflated, Packing, drain};
pub use power::{Energy, Power};
pub use text::{ParseDurationError, parse_duration};
pub use time::{Duration, Hz, Instant, NSEC_PER_SEC, NSEC_PER_USEC};
