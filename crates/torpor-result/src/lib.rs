// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Model of results.
//!
//! Replays, simulations, counters and live comparisons fill it. Terminal, page, notebook, CSV and
//! JSON only display it.
//!
//! - [`idle`] and [`work`]: what is counted, and the metrics made of it, each in one expression;
//!   [`elsewhere`]: those of a verification and of a running machine.
//! - [`compare()`]: columns become rows: base, change, interval, significance, the best.
//! - [`interval`]: Student, Wilson and Newcombe.
//! - [`number`]: how a value is written.
//! - [`options`]: options of a run, as given and as resolved.
//! - `tables` (a feature): any result as Arrow.

#![warn(unreachable_pub)]

mod apart;
pub mod compare;
pub mod deep;
pub mod elsewhere;
pub mod idle;
pub mod idle_predict;
pub mod interval;
pub mod latency;

pub mod metric;
pub mod number;
pub mod options;
pub mod record;
mod summed;
#[cfg(feature = "tables")]
pub mod tables;
pub mod work;

pub use apart::Apart;
pub use compare::{Cell, Change, Column, Comparison, Row, Sample, Sampling, compare};
pub use deep::DeepTimes;
pub use idle::{CpuTotals, StateTotals, Sums};
pub use latency::{Latencies, LatencyHistogram};
pub use metric::{Direction, Info, Kind, Metric, Values};
pub use options::Given;
pub use work::{CgroupTotals, TaskTotals, Work};

/// Power of the shallowest state of a machine without measured power. Each deeper state has an
/// equal share less; every number of states up to `CPUIDLE_STATE_MAX`, which is 10, divides it.
pub const RELATIVE_UNIT: torpor_machine::units::Power = torpor_machine::units::Power(2_520);
