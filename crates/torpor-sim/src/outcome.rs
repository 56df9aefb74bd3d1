// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Result of a simulation.

use crate::options::Options;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
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
    /// Notes on the limits of the result.
    pub notes: Vec<String>,
    /// Whether the user stopped it. The result then covers the seeds that every governor has
    /// finished.
    pub interrupted: bool,
    pub runs: Vec<GovernorOutcome>,
    pub comparison: Comparison,
    pub task_comparisons: Vec<NamedComparison>,
    /// Comparisons of flows through several tasks, such as frames and requests.
    pub flow_comparisons: Vec<NamedComparison>,
    /// Comparisons of control groups.
    pub cgroup_comparisons: Vec<NamedComparison>,
    /// Strips of all CPUs, the busiest first, if requested.
    pub strips: Vec<Strip>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct WorkloadInfo {
    pub name: String,
    pub title: String,
    pub sha256: String,
    pub sources: Vec<String>,
}

/// Options as given and as resolved, with the number of finished seeds.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "SimulateOptions")]
pub struct OptionsInfo {
    #[serde(flatten)]
    pub asked: Options,
    /// Simulated kernels.
    pub kernels: Vec<KernelInfo>,
}

/// A simulated kernel.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct KernelInfo {
    /// As the user named it.
    pub kernel: String,
    pub release: String,
    /// Number of files of its tree that were compiled.
    pub hosted_files: u64,
    /// Hash of those files.
    pub source_sha256: String,
    /// Options of its configuration that differ from the default one.
    pub config: BTreeMap<String, String>,
    /// Number of options of the user's `.config` that have no effect here.
    pub options_without_effect: u64,
    /// Options of the user's `.config`, with their values there, that have another one in every
    /// hosted kernel.
    pub options_not_taken: BTreeMap<String, String>,
    /// Functions of its tree that the host does not know; a run that reaches one ends.
    pub unknown_functions: Vec<String>,
}

/// One governor with one frequency policy and IO boost, over all seeds. Metrics are means over
/// seeds; counters of states and the latency histogram are sums.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct GovernorOutcome {
    #[serde(flatten)]
    pub run: RunOutcome,
    #[serde(flatten)]
    pub policies: Policies,
    /// Frequency domains, by cluster.
    pub perf_domains: Vec<PerfDomainOutcome>,
    pub seeds: Vec<SeedOutcome>,
    pub tasks: Vec<TaskOutcome>,
    pub devices: Vec<DeviceOutcome>,
    pub flows: Vec<FlowOutcome>,
    pub cgroups: Vec<CgroupOutcome>,
    /// The parts of the run between changes of the workload's timeline; none without a change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sections: Vec<SectionOutcome>,
    /// Number of events simulated, over all seeds.
    pub events: u64,
}

/// A part of a run between two changes; metrics are means over seeds.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SectionOutcome {
    pub from_ns: i64,
    pub to_ns: i64,
    #[schemars(schema_with = "torpor_result::metric::schema")]
    pub metrics: Values,
}

/// Other policies of a column.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Policies {
    /// As the user named it.
    pub kernel: String,
    pub cpufreq: String,
    /// Name as the user gave it, or `none`.
    pub io_boost: String,
    /// Scheduler of normal tasks as the user named it, or `eevdf`.
    pub scheduler: String,
}

/// CPUs that share a clock, over all seeds; null where frequencies or power are unknown.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PerfDomainOutcome {
    pub name: String,
    pub cpus: Vec<u32>,
    /// Mean frequency over all time, and over the time that its CPUs were busy.
    pub freq_khz: Option<f64>,
    pub freq_busy_khz: Option<f64>,
    pub freq_transitions_per_s: Option<f64>,
    /// Energy of its CPUs, busy and idle, and of the cluster itself; mean over seeds.
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
    /// Metrics of each control group.
    #[serde(skip)]
    pub cgroups: Vec<Values>,
}

/// Comparison of the tasks, flows or control groups of one name.
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
    /// Device requests whose results it has received.
    pub ios: u64,
    pub latency: LatencyOutcome,
    /// Time of a pass through the program, including waits.
    pub pass_time: LatencyOutcome,
    /// Time from a request's submission until the task receives its result.
    pub io_latency: LatencyOutcome,
}

/// Flow through several tasks, such as a frame, over all seeds.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FlowOutcome {
    pub name: String,
    pub deadline_ns: Option<i64>,
    pub begun: u64,
    pub ended: u64,
    /// Ended flows that missed the deadline; for frames, jank.
    pub late: u64,
    /// Time from its beginning to its end.
    pub time: LatencyOutcome,
}

/// A control group with the groups in it, summed over seeds: its `cpu.stat`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CgroupOutcome {
    pub name: String,
    pub cpu_time_ns: i64,
    /// Periods of its quota, and those at whose end a CPU waited for the next.
    pub nr_periods: u64,
    pub nr_throttled: u64,
    /// Time in which its tasks waited for quota, summed over CPUs.
    pub throttled_ns: i64,
    pub nr_bursts: u64,
    pub burst_ns: i64,
}

/// A device, over all seeds.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct DeviceOutcome {
    pub name: String,
    pub requests: u64,
    /// Share of time with a request in flight: `%util` of iostat.
    pub util_pct: f64,
    /// Mean number of requests in flight: `aqu-sz` of iostat.
    pub queue_size: f64,
    /// Time from a request's submission to its completion by the kernel.
    pub response: LatencyOutcome,
}
