// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The result of a replay, as it is printed, drawn and stored.

use crate::catalogue::Metric;
use crate::decision::Decision;
use crate::latency::Latencies;
use crate::verify::{DecisionsInfo, VerdictInfo};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use torpor_trace::{Carries, Loss, Severity, Trace};
use torpor_units::{CpuId, Duration};

#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    pub torpor: Version,
    pub platform: PlatformInfo,
    pub options: OptionsInfo,
    pub catalogue: &'static [Metric],
    /// Limits of the claim, each said once.
    pub notes: Vec<String>,
    pub traces: Vec<TraceOutcome>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Version {
    pub version: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub struct PlatformInfo {
    pub name: String,
    pub title: String,
    pub sha256: String,
    pub hz: u32,
    pub sources: Vec<String>,
    pub has_power: bool,
    pub clusters: Vec<ClusterInfo>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ClusterInfo {
    pub name: String,
    pub cpus: Vec<u32>,
    pub capacity: u32,
    pub states: Vec<StateInfo>,
}

#[derive(Clone, Debug, Serialize)]
pub struct StateInfo {
    pub name: String,
    pub entry_latency_ns: i64,
    pub exit_latency_ns: i64,
    pub latency_ns: i64,
    pub target_residency_ns: i64,
    pub polling: bool,
    pub disabled: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct OptionsInfo {
    pub hz: u32,
    pub latency_limit_ns: Option<i64>,
    pub disabled_states: Vec<DisabledInfo>,
    pub recorded_on: Option<String>,
    pub cpu_map: BTreeMap<u32, u32>,
    /// A replay draws no random numbers.
    pub seed: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct DisabledInfo {
    pub cpu: Option<u32>,
    pub state: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct TraceOutcome {
    pub trace: TraceInfo,
    pub inputs: InputsInfo,
    /// How the recorded governor's decisions are met by a hosted one: known if the recorded
    /// machine is named and the recording carries what it takes.
    pub agreement: Option<Agreement>,
    pub runs: Vec<RunOutcome>,
    pub strip: Option<Strip>,
}

/// What [`crate::verify`] found, in short and with nothing fitted.
#[derive(Clone, Debug, Serialize)]
pub struct Agreement {
    pub decisions: DecisionsInfo,
    pub verdict: VerdictInfo,
    /// Only so many events were looked at, the first ones: the recording is too long to be held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_events: Option<u64>,
}

/// What `torpor trace info` says of a recording.
#[derive(Clone, Debug, Serialize)]
pub struct TraceInfo {
    pub path: String,
    pub sha256: String,
    pub format: String,
    pub clock: String,
    pub kernel_release: Option<String>,
    pub machine: Option<String>,
    pub arch: Option<String>,
    pub cpu_count: u32,
    pub duration_ns: i64,
    #[serde(serialize_with = "carries")]
    pub carries: Carries,
    pub event_counts: BTreeMap<String, u64>,
    pub losses: Vec<LossInfo>,
}

#[derive(Clone, Debug, Serialize)]
pub struct LossInfo {
    pub key: String,
    pub severity: &'static str,
    pub count: u64,
    pub advice: String,
}

impl From<&Loss> for LossInfo {
    fn from(loss: &Loss) -> LossInfo {
        LossInfo {
            key: loss.key.clone(),
            severity: match loss.severity {
                Severity::Info => "info",
                Severity::Loss => "loss",
                Severity::Damage => "damage",
            },
            count: loss.count,
            advice: loss.advice.clone(),
        }
    }
}

impl TraceInfo {
    pub fn new(path: &str, trace: &Trace) -> TraceInfo {
        let duration_ns = trace.window.map_or(0, |(first, last)| last.since(first).0);
        let meta = &trace.meta;
        TraceInfo {
            path: path.to_owned(),
            sha256: meta.sha256.clone(),
            format: meta.format.clone(),
            clock: meta.clock.clone(),
            kernel_release: meta.kernel_release.clone(),
            machine: meta.machine.clone(),
            arch: meta.arch.clone(),
            cpu_count: meta.cpu_count,
            duration_ns,
            carries: trace.carries,
            event_counts: trace.event_counts.clone(),
            losses: trace.losses.iter().map(LossInfo::from).collect(),
        }
    }
}

fn carries<S: Serializer>(carries: &Carries, serializer: S) -> Result<S::Ok, S::Error> {
    let all = [
        ("cpu_idle", carries.cpu_idle),
        ("cpu_idle_miss", carries.cpu_idle_miss),
        ("frequency", carries.frequency),
        ("switches", carries.switches),
        ("wakings", carries.wakings),
        ("hrtimers", carries.hrtimers),
        ("wheel_timers", carries.wheel_timers),
        ("tick_stop", carries.tick_stop),
        ("interrupts", carries.interrupts),
        ("ipis", carries.ipis),
        ("softirqs", carries.softirqs),
        ("probes", carries.probes),
    ];
    serializer.collect_map(all)
}

#[derive(Clone, Debug, Serialize)]
pub struct InputsInfo {
    pub spans: u64,
    pub merged_ticks: u64,
    pub merged_poll_timeouts: u64,
    /// Recorded sleeps left out, because the recording shows one end of them only.
    pub cut_sleeps: u64,
    /// Idle entries that another entry followed without an exit.
    pub unclosed_entries: u64,
    pub tick_hz_recorded: Option<u32>,
    pub sleep_length_sources: BTreeMap<&'static str, u64>,
    pub wake_stamp_sources: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct RunOutcome {
    pub governor: String,
    pub name: String,
    pub kind: &'static str,
    pub origin: String,
    pub source_sha256: Option<String>,
    pub params: BTreeMap<String, String>,
    pub error: Option<String>,
    pub metrics: BTreeMap<&'static str, Option<f64>>,
    pub clusters: Vec<ClusterOutcome>,
    pub latency: LatencyOutcome,
    pub sleep_length_sources: BTreeMap<&'static str, u64>,
    #[serde(skip)]
    pub cpus: Vec<CpuOutcome>,
    #[serde(skip)]
    pub decisions: Vec<Decision>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ClusterOutcome {
    pub name: String,
    pub cpus: Vec<u32>,
    pub running_ns: i64,
    pub idle_energy_uj: Option<f64>,
    pub idle_power_mw: Option<f64>,
    /// What the cluster takes beside its CPUs; null where nobody measured it apart from them.
    pub cluster_power_mw: Option<f64>,
    pub states: Vec<StateOutcome>,
}

#[derive(Clone, Debug, Serialize)]
pub struct StateOutcome {
    pub name: String,
    pub index: usize,
    pub usage: u64,
    pub above: u64,
    pub below: u64,
    pub rejected: u64,
    pub time_ns: i64,
}

/// One CPU's counters: the rows of the `states` table.
#[derive(Clone, Debug)]
pub struct CpuOutcome {
    /// As the recording numbers it.
    pub cpu: CpuId,
    pub cluster: String,
    pub states: Vec<StateOutcome>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct LatencyOutcome {
    pub count: u64,
    pub mean_ns: Option<i64>,
    pub p50_ns: Option<i64>,
    pub p99_ns: Option<i64>,
    pub max_ns: Option<i64>,
    pub histogram: Vec<(u64, u64)>,
}

impl LatencyOutcome {
    pub fn new(latency: &Latencies) -> LatencyOutcome {
        LatencyOutcome {
            count: latency.count(),
            mean_ns: latency.mean().map(Duration::ns),
            p50_ns: latency.quantile(0.50).map(Duration::ns),
            p99_ns: latency.quantile(0.99).map(Duration::ns),
            max_ns: latency.max().map(Duration::ns),
            histogram: latency.buckets(),
        }
    }
}

/// One CPU's sleeps under every governor.
#[derive(Clone, Debug, Serialize)]
pub struct Strip {
    pub cpu: u32,
    pub start_ns: i64,
    pub end_ns: i64,
    pub truncated: bool,
    pub rows: Vec<StripRow>,
}

#[derive(Clone, Debug, Serialize)]
pub struct StripRow {
    pub governor: String,
    pub segments: Vec<(i64, i64, u8)>,
}
