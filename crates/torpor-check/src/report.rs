// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Report of a check, serialised to JSON.

use crate::CheckError;
use crate::block::{Answer, Step, flag, op};
use crate::driver::How;
use crate::judge::{Breach, Judge};
use crate::kinds::{Decision, Kind};
use crate::sequence::Sequence;
use schemars::JsonSchema;
use serde::Serialize;

/// Report of `torpor governor check`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[schemars(rename = "Check")]
pub struct Report {
    pub governor: String,
    pub source_sha256: String,
    pub hz: u32,
    /// Seed of the first sequence; the others follow it.
    pub seed: u64,
    /// Judged decisions, without repetitions.
    pub decisions: u64,
    pub sequences: u64,
    /// Reason for ending before the requested decisions.
    pub ended_early: Option<String>,
    pub timing: Option<Timing>,
    /// Size of the governor's static per-CPU data in userspace; null if it cannot be loaded.
    pub percpu_bytes: Option<usize>,
    pub findings: Vec<Finding>,
}

/// Time of one select() and its reflect(), without sanitizers: the least of several repetitions.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Timing {
    pub decisions: u64,
    pub p50_ns: u32,
    pub p99_ns: u32,
    pub worst_ns: u32,
}

/// A breach, and the smallest sequence found that shows it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Finding {
    pub kind: Kind,
    pub title: &'static str,
    /// One sentence on what happened.
    pub what: String,
    /// Report of the sanitizer, if any.
    pub words: String,
    /// Breaches of this kind among all decisions.
    pub count: u64,
    /// Seed of the finding's sequence: a run with this seed starts with it.
    pub seed: u64,
    /// Number of the CPU.
    pub cpu: u32,
    /// Position in `calls` of the call that shows it, from 1; 0 for one before the first.
    pub call: usize,
    pub clock_ns: u64,
    pub states: Vec<StateRow>,
    pub cpus: Vec<CpuRow>,
    pub calls: Vec<CallRow>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct StateRow {
    pub exit_latency_ns: i64,
    pub target_residency_ns: i64,
    pub is_polling: bool,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CpuRow {
    pub cpu: u32,
    /// States disabled at the start.
    pub disabled: Vec<usize>,
}

/// A step, and the governor's answer.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CallRow {
    /// `idle`, `toggle state N` or `disable and enable`.
    pub does: String,
    pub cpu: u32,
    pub now_ns: u64,
    pub sleep_length_ns: i64,
    pub delta_next_ns: i64,
    pub latency_req_ns: i64,
    pub nr_iowait: u32,
    pub util: u16,
    pub tick_stopped: bool,
    /// None if the call did not return.
    pub state: Option<i32>,
    pub stop_tick: Option<bool>,
    /// None if the entry was rejected or did not happen.
    pub entered: Option<i16>,
    /// `dev->last_residency_ns` afterwards; None if no state was entered.
    pub residency_ns: Option<u64>,
    pub got_tick: bool,
    pub poll_timed_out: bool,
    pub goes_busy: bool,
}

impl Finding {
    /// Runs the sequence once more for its answers.
    pub(crate) fn new(
        judge: &mut Judge,
        sequence: &Sequence,
        breach: &Breach,
        count: u64,
        seed: u64,
    ) -> Result<Finding, CheckError> {
        let how = How { is_isolated: true, is_timed: false };
        judge.run(sequence, how, &mut |_, _| {})?;
        let id = |place: usize| sequence.cpus[place.min(sequence.cpus.len() - 1)].cpu_id;
        let step = sequence.steps.get(breach.step);
        let before = judge.answers.is_empty();
        let place = match &breach.crash {
            Some(crash) => crash.cpu.into(),
            None => step.map_or(0, |s| s.cpu.into()),
        };
        let calls = sequence.steps.iter().enumerate().map(|(i, step)| {
            let row = CallRow::new(step, id(step.cpu.into()), judge.answers.get(i), sequence);
            match &breach.crash {
                Some(crash) if i == breach.step && crash.call != "reflect()" => row.unanswered(),
                _ => row,
            }
        });
        Ok(Finding {
            kind: breach.kind,
            title: breach.kind.info().title,
            what: what(sequence, breach, judge.answers.get(breach.step)),
            words: breach.crash.as_ref().map_or(String::new(), |c| c.words.clone()),
            count,
            seed,
            cpu: id(place),
            call: if before { 0 } else { breach.step + 1 },
            clock_ns: sequence.clock_ns,
            states: (sequence.states.iter())
                .map(|s| StateRow {
                    exit_latency_ns: s.exit_latency_ns,
                    target_residency_ns: s.target_residency_ns,
                    is_polling: s.is_polling != 0,
                })
                .collect(),
            cpus: (sequence.cpus.iter())
                .map(|c| CpuRow {
                    cpu: c.cpu_id,
                    disabled: (0..sequence.states.len())
                        .filter(|i| c.disabled_mask >> i & 1 != 0)
                        .collect(),
                })
                .collect(),
            calls: calls.collect(),
        })
    }
}

impl CallRow {
    fn new(step: &Step, cpu: u32, answer: Option<&Answer>, sequence: &Sequence) -> CallRow {
        let does = match step.op {
            op::TOGGLE => format!("toggle state {}", step.arg),
            op::REPLUG => {
                let on = sequence.cpus[usize::from(step.arg >> 4)].cpu_id;
                format!("disable and enable, on CPU {on}")
            }
            _ => "idle".to_owned(),
        };
        let asked = answer.filter(|a| a.has_run != 0 && step.op == op::IDLE);
        let given = answer.copied().unwrap_or_default();
        let has = |flag: u8| step.op == op::IDLE && step.flags & flag != 0;
        let polls = (asked.and_then(|a| usize::try_from(a.entered).ok()))
            .is_some_and(|state| sequence.states[state].is_polling != 0);
        CallRow {
            does,
            cpu,
            now_ns: given.now_ns,
            sleep_length_ns: asked.map_or(step.sleep_length_ns, |a| a.sleep_length_ns),
            delta_next_ns: asked.map_or(step.sleep_length_ns.min(step.event_ns), |a| a.event_ns),
            latency_req_ns: step.latency_req_ns,
            nr_iowait: step.nr_iowait,
            util: step.util,
            tick_stopped: given.tick_was_stopped != 0,
            state: asked.map(|a| a.state),
            stop_tick: asked.map(|a| a.stop_tick != 0),
            entered: asked.map(|a| a.entered).filter(|state| *state >= 0),
            residency_ns: asked.filter(|a| a.entered >= 0).map(|a| a.slept_ns),
            got_tick: given.got_tick != 0,
            poll_timed_out: has(flag::POLL_TIMEOUT) && polls,
            goes_busy: has(flag::BUSY_AFTER),
        }
    }

    /// Removes the answer of a call that did not return.
    fn unanswered(self) -> CallRow {
        CallRow { state: None, stop_tick: None, entered: None, residency_ns: None, ..self }
    }
}

fn what(sequence: &Sequence, breach: &Breach, answer: Option<&Answer>) -> String {
    if let Some(crash) = &breach.crash {
        return match breach.kind {
            Kind::Endless => format!("{} does not return", crash.call),
            _ => format!("{} ends the program", crash.call),
        };
    }
    let (Some(step), Some(answer)) = (sequence.steps.get(breach.step), answer) else {
        return "the plain program ends".to_owned();
    };
    let decision = Decision { states: &sequence.states, step, answer };
    let state = answer.state;
    let latency_ns = |state: usize| sequence.states[state].exit_latency_ns;
    let instead = match decision.allowed() {
        Some(allowed) => format!("; state {allowed} is enabled and keeps the latency limit"),
        None => String::new(),
    };
    let choice = |(state, stop_tick): (i32, bool)| {
        format!("state {state} and {} the tick", if stop_tick { "stops" } else { "keeps" })
    };
    let chosen = choice((state, answer.stop_tick != 0));
    let other = breach.otherwise.map_or(String::new(), choice);
    match breach.kind {
        Kind::Index => {
            format!(
                "select() answers {state}; the table has states 0 to {}",
                sequence.states.len() - 1
            )
        }
        Kind::Disabled => format!("state {state} is chosen, which is disabled{instead}"),
        Kind::Latency => {
            let latency_ns = decision.chosen().map_or(0, latency_ns);
            format!(
                "state {state}, whose exit latency is {latency_ns} ns, is selected under a limit \
                 of {} ns{instead}",
                step.latency_req_ns
            )
        }
        Kind::Tick => format!("state {state} polls, but the governor stops the tick for it"),
        Kind::Bug => breach.signature.clone(),
        Kind::Leak => format!("chooses {chosen}; without the other CPUs' calls, {other}"),
        Kind::Uninitialised if other.is_empty() => "the plain program ends".to_owned(),
        Kind::Uninitialised => {
            format!("chooses {chosen}; with variables that start as zeros, {other}")
        }
        Kind::Slow => format!("the decision takes {} ns", breach.time_ns),
        Kind::Memory | Kind::Arithmetic | Kind::Endless => breach.kind.info().title.to_owned(),
    }
}
