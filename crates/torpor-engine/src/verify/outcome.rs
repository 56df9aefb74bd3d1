// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The result of verifying a recording.

use super::VerifyOptions;
use super::assumptions::Assumptions;
use super::forcing::Answer;
use super::recorded::Recorded;
use super::walk::MachineCpu;
use crate::input::{EventToExit, SleepClass};
use crate::trace_info::TraceInfo;
use schemars::JsonSchema;
use serde::Serialize;
use torpor_machine::units::Instant;
use torpor_result::record::Head;
use torpor_result::{Comparison, Info};

/// Result of `torpor fidelity`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Fidelity {
    #[serde(flatten)]
    pub head: Head,
    pub trace: TraceInfo,
    pub options: VerifyOptions,
    pub platform: String,
    pub hz: u32,
    pub states: Vec<String>,
    pub decisions: DecisionsInfo,
    pub verdict: VerdictInfo,
    /// Best first.
    pub governors: Vec<GovernorFidelity>,
    pub catalogue: &'static [Info],
    pub comparison: Comparison,
    /// Assumptions that were tried because probes were missing; empty if none was needed or fitting
    /// was off.
    pub assumptions: Vec<Tried>,
    /// Disagreements of the governor that agrees best.
    pub disagreements: Vec<Disagreement>,
    pub counters: Vec<Counter>,
    pub event_to_exit: EventToExit,
    pub notes: Vec<String>,
}

/// Decisions that were compared.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct DecisionsInfo {
    pub compared: u64,
    /// Among them, selects that no idle entry followed.
    pub hidden: u64,
    /// Not compared: before the governor's last reset.
    pub before_reset: u64,
    pub resets: u64,
    /// Decisions for the commonest state: the score of a governor that always chooses it.
    pub commonest: u64,
    /// The kernel's own sleep lengths were recorded.
    pub probed: bool,
}

/// The governor that this machine ran, by its behaviour.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct VerdictInfo {
    /// Governors with the highest agreement: several if the recording cannot distinguish them, in
    /// no order.
    pub best: Vec<String>,
    pub agreement: f64,
    /// The best agreement explains enough of the decisions for other than the commonest state. If
    /// not, the machine may not be the recorded one.
    pub is_verified: bool,
    /// The recording distinguishes governors from one that always chooses the commonest state.
    pub is_telling: bool,
    /// The order of several `best` depends on the governor's history before the recording, which is
    /// unknown: the agreement is then the highest of them.
    pub hangs_on_history: bool,
    /// The governors with the next lower agreement.
    pub next_best: Vec<String>,
    pub next_agreement: Option<f64>,
    /// The best governor of a family that none of `best` belongs to: the score of a wrong governor.
    pub control: Option<String>,
    pub control_agreement: Option<f64>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct GovernorFidelity {
    pub governor: String,
    pub named: bool,
    pub agreeing: u64,
    /// Decisions that agree with the recording itself as history; `null` if the governor was reset
    /// and has none.
    pub agreeing_with_history: Option<u64>,
    /// Share of the compared decisions, 0 to 1; `null` for a governor that failed.
    pub agreement: Option<f64>,
    /// Decisions with the tick running, and those that agree on stopping it.
    pub tick_decisions: u64,
    pub tick_agreeing: u64,
    pub confusion: Vec<Confusion>,
    pub by_source: Vec<BySource>,
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Confusion {
    pub recorded: usize,
    pub chosen: usize,
    pub count: u64,
}

#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct BySource {
    pub source: &'static str,
    pub class: SleepClass,
    pub decisions: u64,
    pub agreeing: u64,
}

/// One pair of assumptions, and the best governor's agreement under it.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Tried {
    pub entry_delay_ns: i64,
    pub rcu_stand_in: bool,
    pub agreeing: u64,
    pub is_chosen: bool,
}

impl Tried {
    pub(super) fn new(assumptions: &Assumptions, agreeing: u64) -> Tried {
        Tried {
            entry_delay_ns: assumptions.entry_delay.0,
            rcu_stand_in: assumptions.rcu_stand_in,
            agreeing,
            is_chosen: false,
        }
    }
}

/// A decision on which governor and recording differ, with its inputs.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Disagreement {
    pub decision: usize,
    pub cpu: u32,
    pub time_ns: i64,
    pub recorded: usize,
    pub chosen: usize,
    /// False if the recorded state was chosen and not entered.
    pub entered: bool,
    pub source: &'static str,
    pub sleep_length_ns: i64,
    pub delta_next_ns: i64,
    pub tick_was_stopped: bool,
    pub tick_is_stopped: bool,
    pub stop_tick: bool,
    pub local_clock_ns: i64,
    pub idle_entry_ns: i64,
    /// Time from `idle_entry_ns`; `null` for none.
    pub next_hrtimer_ns: Option<i64>,
    pub next_wheel_ns: Option<i64>,
    pub tick_ns: Option<i64>,
    pub latency_limit_ns: i64,
    pub util: u64,
    pub nr_iowait: u32,
    /// Residency of the sleep; `null` if the recording does not show it.
    pub residency_ns: Option<i64>,
    pub got_tick: Option<bool>,
}

impl Disagreement {
    pub(super) fn new(
        decision: usize,
        recorded: &Recorded,
        answer: &Answer,
        machine_cpu: &MachineCpu,
    ) -> Disagreement {
        let asked = &recorded.asked;
        let until =
            |timer: Instant| (timer != Instant::NEVER).then(|| timer.since(asked.idle_entry).0);
        Disagreement {
            decision,
            cpu: machine_cpu.cpu.0,
            time_ns: recorded.at.0,
            recorded: recorded.state,
            chosen: answer.selection.state as usize,
            entered: recorded.entered.is_some(),
            source: answer.source.key(),
            sleep_length_ns: answer.inputs.sleep_length.0,
            delta_next_ns: answer.inputs.delta_next.0,
            tick_was_stopped: asked.tick_was_stopped,
            tick_is_stopped: asked.tick_is_stopped,
            stop_tick: answer.selection.stop_tick,
            local_clock_ns: asked.clock.0,
            idle_entry_ns: asked.idle_entry.0,
            next_hrtimer_ns: until(asked.next_hrtimer),
            next_wheel_ns: until(asked.next_wheel),
            tick_ns: until(asked.tick),
            latency_limit_ns: answer.inputs.latency_req.0,
            util: asked.util,
            nr_iowait: asked.nr_iowait,
            residency_ns: recorded.reflected.map(|reflected| reflected.residency.0),
            got_tick: recorded.reflected.map(|reflected| reflected.got_tick),
        }
    }
}

/// A state's counters over the recording, computed from its sleeps and counted from its events.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Counter {
    pub cpu: u32,
    pub state: usize,
    pub name: String,
    /// Sleeps with both ends in the recording, as sysfs counts them.
    pub usage: u64,
    /// Residencies of these sleeps, in microseconds, by the events.
    pub time_us: u64,
    pub above: u64,
    pub below: u64,
    /// The kernel's verdicts (`cpu_idle_miss`); one may belong to a sleep that the recording's edge
    /// cuts.
    pub miss_above: u64,
    pub miss_below: u64,
    /// By sysfs before and after the recording, if both are available.
    pub sysfs: Option<SysfsCounts>,
}

/// Increase of a state's counters in sysfs; `null` if the kernel does not have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SysfsCounts {
    pub usage: Option<u64>,
    pub time_us: Option<u64>,
    pub above: Option<u64>,
    pub below: Option<u64>,
    pub rejected: Option<u64>,
}
