// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Records of `torpor trace stats`.

use crate::trace_info::TraceInfo;
use schemars::JsonSchema;
use serde::Serialize;
use torpor_result::record::Head;

/// Source of the verdicts on recorded sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictSource {
    /// The kernel's own `cpu_idle_miss` events.
    CpuIdleMiss,
    /// The recorded lengths, by the kernel's rule and a platform's states.
    Platform,
}

/// Statistics of a recorded machine. Lists are ordered: CPUs and states ascending, all others by
/// count, the largest first. A count of wrong-depth sleeps is `null` if no source shows it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TraceStats {
    #[serde(flatten)]
    pub head: Head,
    pub trace: TraceInfo,
    /// The platform that names states and clusters, if one was given.
    pub platform: Option<String>,
    pub verdict_source: Option<VerdictSource>,
    /// The kernel's verdicts compared with its rule on the recorded lengths, if both are available.
    pub verdicts: Option<VerdictCheck>,
    /// Sleeps with both ends recorded.
    pub sleeps: u64,
    /// Entries without an exit and exits without an entry.
    pub cut_sleeps: u64,
    pub states: Vec<StateStats>,
    pub wakeups: Vec<WakeupStats>,
    pub tasks: Vec<TaskStats>,
    pub interrupts: Vec<InterruptStats>,
    pub latency: Vec<LatencyStats>,
    pub tick: TickStats,
}

/// Sleeps judged both by the kernel and by its rule with the platform's states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct VerdictCheck {
    pub compared: u64,
    /// Sleeps on which both agree: too deep, too shallow, or neither.
    pub agreeing: u64,
    /// Not compared: sleeps that only the rule calls too deep, as many as the driver refused. The
    /// kernel does not judge refused entries, and only sysfs counts them.
    pub rejected: u64,
}

/// The sleeps of one CPU in one state.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct StateStats {
    pub cpu: u32,
    pub cluster: Option<String>,
    pub state: usize,
    pub name: Option<String>,
    pub usage: u64,
    pub time_ns: i64,
    pub above: Option<u64>,
    pub below: Option<u64>,
    /// Entries that the driver refused, which no event shows: from sysfs before and after the
    /// recording, if both are available and the kernel counts them.
    pub rejected: Option<u64>,
}

/// Causes of sleeps' ends.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct WakeupStats {
    /// `timer`, `tick`, `irq`, `ipi`, `waking` (another CPU gave it a task, and the recording shows no
    /// IPIs), `poll` (a polling CPU saw `TIF_NEED_RESCHED`) or `unknown`.
    pub kind: &'static str,
    /// A timer's function, an interrupt's name or an IPI's purpose.
    pub name: String,
    pub count: u64,
    /// Total length of the sleeps that it ended.
    pub slept_ns: i64,
    pub above: Option<u64>,
    pub below: Option<u64>,
}

/// One task by its `comm`, all threads of that name together.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TaskStats {
    pub comm: String,
    /// Sleeps after which it was the first to run.
    pub wakeups: u64,
    /// Number of switches to it, and its run time.
    pub switches: u64,
    pub run_ns: i64,
    pub above: Option<u64>,
    pub below: Option<u64>,
}

/// One source of interrupts, asleep or awake.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct InterruptStats {
    pub kind: &'static str,
    pub name: String,
    pub count: u64,
    /// Time in its handler; `null` if the recording has no exits.
    pub handler_ns: Option<i64>,
}

/// Event that shows the time of a wake-up's cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseTime {
    /// The expiry time of the hrtimer that ended the sleep.
    Timer,
    /// The send event of an IPI on another CPU.
    Ipi,
    /// `sched_waking` on another CPU, which sent no IPI that the recording shows.
    Waking,
    /// Only the entry of an interrupt on the CPU itself. The interrupt came before, so the latency
    /// is at least the recorded time, which is negative if the handler ran after the exit.
    Interrupt,
}

impl CauseTime {
    pub(super) const fn text(self) -> &'static str {
        match self {
            CauseTime::Timer => "timer",
            CauseTime::Ipi => "IPI",
            CauseTime::Waking => "sched_waking",
            CauseTime::Interrupt => "interrupt",
        }
    }
}

/// Reason for which a sleep shows no latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeftOut {
    /// The cause came before the CPU's `cpu_idle` entry.
    BeforeEntry,
    /// The cause came within the state's advertised latency after the entry, so that the CPU may
    /// still have been on its way in.
    DuringEntry,
    /// Another cause was pending at the exit, or handled before the CPU slept or ran a task.
    SeveralCauses,
    /// No event shows what ended the sleep, or when that came.
    Unknown,
}

/// Time from the cause of a wake-up to the exit from idle. An interrupt that was handled inside the
/// state (with interrupts enabled there) does not count.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LatencyStats {
    pub cluster: Option<String>,
    pub state: usize,
    pub name: Option<String>,
    /// The platform's `latency`, as in sysfs.
    pub advertised_ns: Option<i64>,
    pub cause: CauseTime,
    pub count: u64,
    /// Below 0 if the CPU had left idle before its timer was due.
    pub min_ns: i64,
    pub p10_ns: i64,
    pub p50_ns: i64,
    pub p90_ns: i64,
    pub p99_ns: i64,
    pub mean_ns: i64,
}

/// Sleeps without a latency.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct LeftOutStats {
    pub cluster: Option<String>,
    pub state: usize,
    pub name: Option<String>,
    pub reason: LeftOut,
    pub count: u64,
}

/// What matched bursts say about a state's refill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefillVerdict {
    /// Bursts after the state are longer.
    Measured,
    /// The interval includes 0.
    NotSeparable,
    /// Bursts were longer before the sleep, too, or are shorter after the state: they differ in work.
    Confounded,
    /// Fewer than 20 pairs.
    TooFew,
}

/// How much longer a task's burst takes after a state than after the shallowest one, by pairs of the
/// same task on the same cluster at the same frequency after about the same idle time. Times are of
/// the biggest CPU at its highest frequency, as in a platform's `refill_us`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct RefillStats {
    pub cluster: String,
    pub state: usize,
    pub name: Option<String>,
    /// Bursts of tasks that began after this state and ended by waiting.
    pub bursts: u64,
    /// Those that have a match after a shallow state.
    pub pairs: u64,
    /// Hodges' and Lehmann's estimate, and the interval; `null` for fewer than 20 pairs. All rows'
    /// intervals together hold with 95 % confidence. The lower end allows for requests that came
    /// unseen while the CPU left the state.
    pub refill_ns: Option<i64>,
    pub low_ns: Option<i64>,
    pub high_ns: Option<i64>,
    /// The same of the task's bursts before these sleeps, which the state cannot have changed.
    pub before_pairs: u64,
    pub before_ns: Option<i64>,
    pub before_low_ns: Option<i64>,
    pub before_high_ns: Option<i64>,
    /// The recordings show each burst's frequency; otherwise it is assumed to be the same.
    pub has_frequency: bool,
    pub verdict: RefillVerdict,
}

/// Lines for a state of a platform's file.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct PlatformLines {
    pub cluster: Option<String>,
    pub state: usize,
    pub name: Option<String>,
    pub toml: Vec<String>,
}

/// Latencies and refills that recordings of one machine show, all recordings together.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Measurement {
    #[serde(flatten)]
    pub head: Head,
    pub recordings: Vec<TraceInfo>,
    pub platform: Option<String>,
    /// Entries without an exit and exits without an entry.
    pub cut_sleeps: u64,
    pub latency: Vec<LatencyStats>,
    pub left_out: Vec<LeftOutStats>,
    /// Of a known machine: each state but polling and the shallowest other one.
    pub refill: Vec<RefillStats>,
    pub lines: Vec<PlatformLines>,
}

/// `tick_stop` events, and the sleeps that only the tick ended.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct TickStats {
    /// `null` where the recording has no `tick_stop` events.
    pub stopped: Option<u64>,
    /// Attempts that failed because something depended on the tick.
    pub refused: Option<u64>,
    /// `null` where the recording has no hrtimers.
    pub wakeups: Option<u64>,
}
