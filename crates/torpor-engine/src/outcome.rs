// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The result of a replay.

use crate::causes::CauseOutcome;
use crate::decision::Decision;
use crate::input::EventToExit;
use crate::options::Options;
use crate::trace_info::TraceInfo;
use crate::verify::{DecisionsInfo, VerdictInfo};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use torpor_machine::units::Energy;
pub use torpor_result::record::{
    ClusterOutcome, CpuOutcome, Head, LatencyOutcome, RunOutcome, SleepLengthSources, StateOutcome,
    Strip,
};
use torpor_result::{Comparison, Info};

/// Result of `torpor replay`: every governor on every recording.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Replay")]
pub struct Outcome {
    #[serde(flatten)]
    pub head: Head,
    pub platform: PlatformInfo,
    /// Resolved options; the result also lists those that were given.
    pub options: Options,
    pub catalogue: &'static [Info],
    /// Limits of the result, one note each.
    pub notes: Vec<String>,
    pub traces: Vec<TraceOutcome>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PlatformInfo {
    pub name: String,
    pub title: String,
    pub sha256: String,
    pub hz: u32,
    pub sources: Vec<String>,
    pub has_power: bool,
    /// Parts of the machine that its power includes, and those that it lacks, as its file says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub power_includes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub power_missing: Vec<String>,
    pub clusters: Vec<ClusterInfo>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ClusterInfo {
    pub name: String,
    pub cpus: Vec<u32>,
    pub capacity: u32,
    pub states: Vec<StateInfo>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct StateInfo {
    pub name: String,
    pub entry_latency_ns: i64,
    pub exit_latency_ns: i64,
    pub latency_ns: i64,
    pub target_residency_ns: i64,
    pub polling: bool,
    pub disabled: bool,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TraceOutcome {
    pub trace: TraceInfo,
    pub inputs: InputsInfo,
    /// Agreement of a hosted governor with the recorded decisions, if the recorded machine is named
    /// and the recording has the required events.
    pub agreement: Option<Agreement>,
    pub runs: Vec<RunOutcome>,
    /// Bound by the `oracle` among the governors, if there is one and power is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oracle: Option<OracleOutcome>,
    pub comparison: Comparison,
    /// Strips of every CPU, the busiest first, if requested.
    pub strips: Vec<Strip>,
    /// Causes of sleeps' ends, if requested; by governor, the most sleeps of a wrong depth first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub causes: Option<Vec<CauseOutcome>>,
    /// Decisions of each run, if requested.
    #[serde(skip)]
    pub decisions: Vec<Vec<Decision>>,
}

/// The least total power of CPUs and clusters, over the replayed span.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct OracleOutcome {
    pub proof: Proof,
    /// No governor within the latency limit has less; null if the proof is open: no bound is known.
    pub bound_mw: Option<f64>,
    /// Power with the cheapest decisions found, in mW.
    pub found_mw: f64,
    /// Share by which it is above the bound, in percent of that.
    pub gap_pct: Option<f64>,
    /// The column that made these decisions, if they are not the oracle's.
    pub found_by: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// The decisions found are the cheapest.
    Exact,
    /// Cheaper decisions may exist, down to the bound.
    Bound,
    /// Decisions were planned in stretches, while a recording grew: cheaper ones may exist.
    Open,
}

impl Proof {
    /// Returns the proof of an oracle whose decisions cost at most `slack` more than the best, unless
    /// it is unproven.
    pub(crate) fn of(is_unproven: bool, slack: Energy) -> Proof {
        match (is_unproven, slack) {
            (true, _) => Proof::Open,
            (false, Energy::ZERO) => Proof::Exact,
            (false, _) => Proof::Bound,
        }
    }
}

/// Summary of [`crate::verify`], with nothing fitted.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Agreement {
    pub decisions: DecisionsInfo,
    pub verdict: VerdictInfo,
    /// Number of events that were verified, the first ones: the recording is too long for memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_events: Option<u64>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct InputsInfo {
    pub spans: u64,
    pub merged_ticks: u64,
    pub merged_poll_timeouts: u64,
    /// Recorded sleeps left out, because the recording shows only one end of them.
    pub cut_sleeps: u64,
    /// From the first CPU's first idle entry to the last CPU's last wake-up.
    pub replayed_ns: i64,
    /// Share of all CPUs' time in the sleeps that are left out. Power and shares of time are those
    /// of the rest.
    pub cut_pct: f64,
    /// Idle entries that another entry, or a task, followed without an exit.
    pub unclosed_entries: u64,
    /// The tick rate of the replay.
    pub tick_hz: u32,
    /// The recorded kernel's, where the recording shows it.
    pub tick_hz_recorded: Option<u32>,
    /// The recorded machine, which the user named or the recording identifies; null if it is not
    /// known. Its exit latencies give the times of wake-ups that no other event shows, and its
    /// polling states show which sleeps ended at the polling limit.
    pub recorded_on: Option<String>,
    pub sleep_length_sources: SleepLengthSources,
    pub wake_stamp_sources: BTreeMap<&'static str, u64>,
    pub event_to_exit: EventToExit,
}
