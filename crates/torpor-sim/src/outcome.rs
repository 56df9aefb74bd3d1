// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The result of a simulation.

use crate::options::Options;
use schemars::JsonSchema;
use serde::Serialize;
use torpor_engine::outcome::PlatformInfo;
use torpor_result::record::{Head, LatencyOutcome, RunOutcome, Strip};
use torpor_result::{Comparison, Info, Values};

/// Result of `torpor simulate`: every governor on one workload.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Simulation")]
pub struct Outcome {
    #[serde(flatten)]
    pub head: Head,
    pub platform: PlatformInfo,
    pub workload: WorkloadInfo,
    pub options: OptionsInfo,
    pub catalogue: &'static [Info],
    /// Limits of the claim, each said once.
    pub notes: Vec<String>,
    /// The user stopped it: only seeds that every governor has finished are counted.
    pub interrupted: bool,
    pub runs: Vec<GovernorOutcome>,
    pub comparison: Comparison,
    pub task_comparisons: Vec<NamedComparison>,
    /// Comparisons of flows through several tasks: frames, requests.
    pub flow_comparisons: Vec<NamedComparison>,
    /// Strips of every CPU, the busiest first, if requested.
    pub strips: Vec<Strip>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct WorkloadInfo {
    pub name: String,
    pub title: String,
    pub sha256: String,
    pub sources: Vec<String>,
}

/// Options as given and as resolved: only seeds that are finished count.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "SimulateOptions")]
pub struct OptionsInfo {
    #[serde(flatten)]
    pub asked: Options,
    /// The kernels that decide.
    pub kernels: Vec<KernelInfo>,
}

/// A kernel that was run.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct KernelInfo {
    /// As the user named it.
    pub kernel: String,
    pub release: String,
    /// Number of its tree's files that were compiled.
    pub hosted_files: u64,
    /// A hash of the tree's files that it is made of.
    pub source_sha256: String,
}

/// One governor under one frequency policy with one IO boost over all seeds. Metrics are means over
/// seeds; counters of states and the latency histogram are sums.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct GovernorOutcome {
    #[serde(flatten)]
    pub run: RunOutcome,
    #[serde(flatten)]
    pub policies: Policies,
    /// Clocks, by cluster.
    pub perf_domains: Vec<PerfDomainOutcome>,
    pub seeds: Vec<SeedOutcome>,
    pub tasks: Vec<TaskOutcome>,
    pub devices: Vec<DeviceOutcome>,
    pub flows: Vec<FlowOutcome>,
    /// Events of the simulation, over all seeds.
    pub events: u64,
}

/// Other policies of a column.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Policies {
    /// As the user named it.
    pub kernel: String,
    pub cpufreq: String,
    /// As the user named it; `none` without.
    pub io_boost: String,
}

/// CPUs that share a clock, over all seeds; null if its frequencies, or its power, are not known.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PerfDomainOutcome {
    pub name: String,
    pub cpus: Vec<u32>,
    /// Over time, and over the time that its CPUs were busy.
    pub freq_khz: Option<f64>,
    pub freq_busy_khz: Option<f64>,
    pub freq_transitions_per_s: Option<f64>,
    /// Energy of its CPUs, busy and idle, and its own; mean over seeds.
    pub energy_uj: Option<f64>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SeedOutcome {
    pub seed: u64,
    #[schemars(schema_with = "torpor_result::metric::schema")]
    pub metrics: Values,
    /// Metrics of each kind of task.
    #[serde(skip)]
    pub tasks: Vec<Values>,
    /// Metrics of each flow.
    #[serde(skip)]
    pub flows: Vec<Values>,
}

/// Tasks or flows of one name under each governor.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct NamedComparison {
    pub name: String,
    pub comparison: Comparison,
}

/// Tasks of one name, summed over seeds.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TaskOutcome {
    pub name: String,
    pub started: u64,
    pub ended: u64,
    pub cpu_time_ns: i64,
    pub wakeups: u64,
    pub passes: u64,
    pub missed: u64,
    pub migrations: u64,
    pub preemptions: u64,
    /// Requests to devices whose results it took.
    pub ios: u64,
    pub latency: LatencyOutcome,
    /// Time of a pass through the program, waits included.
    pub pass_time: LatencyOutcome,
    /// From a request's submission to the task taking its result.
    pub io_latency: LatencyOutcome,
}

/// Flow through several tasks, such as a frame, over all seeds.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FlowOutcome {
    pub name: String,
    pub deadline_ns: Option<i64>,
    pub begun: u64,
    pub ended: u64,
    /// Ended flows that took longer than the deadline: jank, of frames.
    pub late: u64,
    /// From its begin to its end.
    pub time: LatencyOutcome,
}

/// A device, over all seeds.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct DeviceOutcome {
    pub name: String,
    pub requests: u64,
    /// Share of time with a request under way: iostat's `%util`.
    pub util_pct: f64,
    /// Requests under way, on average: iostat's `aqu-sz`.
    pub queue_size: f64,
    /// From a request's submission to its completion by the kernel.
    pub response: LatencyOutcome,
}
