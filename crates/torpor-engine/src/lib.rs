// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The idle loop, replay, the cost model, the metrics and the oracle.

pub mod cost;
pub mod decision;
pub mod idle_loop;
pub mod input;
pub mod latency;
pub mod model;
pub mod oracle;
pub mod policy;
#[cfg(test)]
mod testing;
pub mod totals;
