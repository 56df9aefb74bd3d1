// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Records that all results share: format, inputs, policies, counters.

use crate::compare::{Column, Comparison, Sample, Sampling, compare};
use crate::idle::StateTotals;
use crate::latency::Latencies;
use crate::metric::{self, Info, Values};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use torpor_machine::units::Duration;

/// Version of the format of results; readers refuse others.
pub const FORMAT: u32 = 1;

/// Kind of a result, and the version of Torpor that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Head {
    pub format: u32,
    /// `replay`, `simulation`, `fidelity`...
    pub kind: &'static str,
    pub torpor: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Version {
    pub version: &'static str,
}

impl Head {
    pub const fn of(kind: &'static str) -> Head {
        Head { format: FORMAT, kind, torpor: Version { version: env!("CARGO_PKG_VERSION") } }
    }
}

/// Policies of a column.
#[derive(Clone, Debug)]
pub struct Described {
    /// The name as typed, then what else varies.
    pub label: String,
    pub name: String,
    /// `governor` or `oracle`.
    pub kind: &'static str,
    pub origin: String,
    pub source_sha256: Option<String>,
    pub params: BTreeMap<String, String>,
    /// The symbols of the kernel's configuration that its source asks for: `y`, `n` or a value.
    pub config: BTreeMap<String, String>,
}

/// Decisions by the source of the time to the next timer, in three classes.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct SleepLengthSources {
    /// The recording shows the armed timers, or what the kernel computed of them.
    pub recorded: BTreeMap<&'static str, u64>,
    /// The recording shows what woke the CPU, which is taken for a timer that was due then:
    /// hindsight, which no governor has.
    pub guessed: BTreeMap<&'static str, u64>,
    /// The recording shows neither.
    pub none: BTreeMap<&'static str, u64>,
}

/// One column: its policies and metrics.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RunOutcome {
    pub governor: String,
    pub name: String,
    pub kind: &'static str,
    pub origin: String,
    pub source_sha256: Option<String>,
    pub params: BTreeMap<String, String>,
    /// The symbols of the kernel's configuration that its source asks for: `y`, `n` or a value.
    pub config: BTreeMap<String, String>,
    pub error: Option<String>,
    #[schemars(schema_with = "metric::schema")]
    pub metrics: Values,
    pub clusters: Vec<ClusterOutcome>,
    pub latency: LatencyOutcome,
    pub sleep_length_sources: SleepLengthSources,
    pub cpus: Vec<CpuOutcome>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ClusterOutcome {
    pub name: String,
    pub cpus: Vec<u32>,
    pub running_ns: i64,
    /// Energy of its CPUs and of the cluster itself.
    pub idle_energy_uj: Option<f64>,
    pub idle_power_mw: Option<f64>,
    /// The part that its idle CPUs consume.
    pub cpu_idle_power_mw: Option<f64>,
    /// The part that it consumes apart from its CPUs; null if it was not measured separately.
    pub cluster_power_mw: Option<f64>,
    pub states: Vec<StateOutcome>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct StateOutcome {
    pub name: String,
    pub index: usize,
    pub usage: u64,
    pub above: u64,
    pub below: u64,
    pub rejected: u64,
    pub time_ns: i64,
    /// Entries that the hardware demoted to a shallower state.
    pub demoted: u64,
    /// Time that the hardware was in this state: `time_ns` without demotion.
    pub got_time_ns: i64,
}

impl StateOutcome {
    pub fn new(index: usize, name: &str, totals: &StateTotals) -> StateOutcome {
        let &StateTotals { usage, above, below, rejected, time, demoted, got_time } = totals;
        StateOutcome {
            name: name.to_owned(),
            index,
            usage,
            above,
            below,
            rejected,
            time_ns: time.0,
            demoted,
            got_time_ns: got_time.0,
        }
    }
}

/// One CPU's counters.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CpuOutcome {
    /// Number in the recording.
    pub cpu: u32,
    pub cluster: String,
    pub states: Vec<StateOutcome>,
}

#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
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

/// Sleeps of one CPU under each governor.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Strip {
    pub cpu: u32,
    pub start_ns: i64,
    pub end_ns: i64,
    pub truncated: bool,
    pub rows: Vec<StripRow>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct StripRow {
    pub governor: String,
    pub segments: Vec<(i64, i64, u8)>,
}

impl RunOutcome {
    /// Creates the record of a run without results.
    pub fn new(decider: Described, catalogue: &'static [Info]) -> RunOutcome {
        let Described { label, name, kind, origin, source_sha256, params, config } = decider;
        RunOutcome {
            governor: label,
            name,
            kind,
            origin,
            source_sha256,
            params,
            config,
            error: None,
            metrics: metric::unknown(catalogue),
            clusters: Vec::new(),
            latency: LatencyOutcome::default(),
            sleep_length_sources: SleepLengthSources::default(),
            cpus: Vec::new(),
        }
    }

    /// Returns its column for a comparison: its seeds, or its metrics alone.
    pub fn column<'a>(&self, samples: impl IntoIterator<Item = (u64, &'a Values)>) -> Column {
        let owned = |values: &Values| values.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
        let samples = samples.into_iter();
        Column {
            label: self.governor.clone(),
            has_failed: self.error.is_some(),
            competes: self.kind == "governor",
            samples: samples
                .map(|(number, values)| Sample { number, values: owned(values) })
                .collect(),
        }
    }
}

/// The comparison of runs on one recording.
pub fn compare_single(catalogue: &[Info], runs: &[RunOutcome]) -> Comparison {
    let columns: Vec<Column> = runs.iter().map(|run| run.column([(0, &run.metrics)])).collect();
    compare(catalogue, &columns, Sampling::Single)
}
