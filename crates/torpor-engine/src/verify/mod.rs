// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Verifies a recording: does the hosted governor decide as the recorded kernel's did?
//!
//! A replay takes only the events that would have come under any governor and simulates the rest,
//! above all the tick. A verification rebuilds every call that the recorded governor got, from
//! everything in the recording, later events included, and makes it to a hosted governor. The
//! answer is compared with the recorded state; then the hosted governor gets the outcome of the
//! *recorded* answer ("teacher forcing"), so that one difference does not cause others.
//!
//! `walk` turns events into the governor's calls, `forcing` makes them to a governor, `judge`
//! compares.

mod assumptions;
mod cpu;
mod forcing;
mod iowait;
mod judge;
mod outcome;
mod recorded;
mod summary;
mod tick;
mod util;
mod walk;

pub use outcome::*;

use crate::error::EngineError;
use crate::input::{self, EventToExit, Recording, TickFunction};
use crate::model::{CpuModel, state_descs};
use crate::options::{DisabledState, Progress};
use crate::pool;
use crate::reading;
use crate::trace_info::TraceInfo;
use assumptions::{Assumptions, residency_overhead};
use judge::Judged;
use recorded::Calls;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use torpor_governor::{Catalog, Governor, GovernorSpec};
use torpor_machine::counters::Snapshot;
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Instant};
use torpor_result::options::{Given, LatencyLimits};
use torpor_trace::{EventKind, Probe, SoFar, Trace};
use walk::{MachineCpu, Walk};

/// A recording, and its machine.
#[derive(Clone, Debug)]
pub struct VerifyRequest {
    pub trace: PathBuf,
    pub platform: Platform,
    /// Tried in addition to all built-in ones.
    pub governors: Vec<GovernorSpec>,
    /// The machine's counters before and after the recording, to compare with Torpor's.
    pub counters: Option<(Snapshot, Snapshot)>,
    pub options: VerifyOptions,
}

/// Options of a verification, as given and as resolved.
// Defaults are in `python/torpor/run/options.py`, which declares the options.
#[derive(Clone, Debug, Default, JsonSchema, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "FidelityOptions")]
pub struct VerifyOptions {
    pub probes: bool,
    pub fit: bool,
    #[serde(rename(serialize = "latency_limit_ns"))]
    #[schemars(with = "Option<i64>")]
    pub latency_limit: LatencyLimits,
    pub disabled_states: Vec<DisabledState>,
    /// Time at which the governor was switched away and back, by `CLOCK_MONOTONIC`. Replaces
    /// markers, which a recording by perf does not have. Used only if the recording has that clock.
    #[serde(rename = "reset_at_ns")]
    pub reset_at: Option<Instant>,
    pub disagreements: usize,
    #[serde(skip_serializing)]
    pub isolate: Option<bool>,
    pub given: Given,
}

/// Verifies a recording with the named governors and every built-in one.
///
/// # Errors
///
/// The recording cannot be read, lacks required events, or was not made on this machine; or a
/// named governor cannot be loaded. A governor that fails later has its error in its own result.
pub fn verify(
    request: &VerifyRequest,
    catalog: &Catalog,
    progress: &dyn Progress,
) -> Result<Fidelity, EngineError> {
    let trace = reading::whole(&request.trace, progress)?;
    let path = request.trace.display().to_string();
    let exits = || Recording::new(&trace, Some(&request.platform)).stats.event_to_exit;
    verify_trace(&path, &trace, exits, request, catalog, progress)
}

/// Verifies a recording in memory; `path` names it in errors, `exits` returns the delays of its
/// idle spans' exits.
pub(crate) fn verify_trace(
    path: &str,
    trace: &Trace,
    exits: impl FnOnce() -> EventToExit,
    request: &VerifyRequest,
    catalog: &Catalog,
    progress: &dyn Progress,
) -> Result<Fidelity, EngineError> {
    let options = &request.options;
    let tick = check(path, trace)?;
    let machine = machine(path, trace, request, &tick)?;
    let governors = governors(&request.governors, catalog, &tick)?;
    let asker = Asker { trace, machine: &machine, tick: &tick, options, governors: &governors };
    let has_lengths = options.probes && has_probe(trace, Probe::SleepLength);

    let mut assumptions = Assumptions::DEFAULT;
    let mut calls = asker.calls(assumptions);
    if calls.decisions.is_empty() {
        let found = "no idle entry that follows a governor's decision".to_owned();
        return Err(EngineError::NothingToReplay { path: path.to_owned(), found });
    }
    let sysfs =
        request.counters.as_ref().map(|(from, to)| torpor_machine::counters::delta(from, to));
    if let Some(overhead) = sysfs.as_ref().and_then(|grown| residency_overhead(&calls, grown)) {
        assumptions.residency_overhead = overhead;
        calls = asker.calls(assumptions);
    }
    let mut judged = asker.ask(&calls, path, progress)?;
    let mut tried = Vec::new();
    if options.fit && !has_lengths {
        let best = summary::ranking(trace, &governors, &judged)[0];
        let alternatives = assumptions.alternatives();
        tried = asker.fit(best, &alternatives, judged[best].agreeing, progress)?;
        let most = tried.iter().map(|t| t.agreeing).max().expect("the default was tried");
        let chosen = tried.iter().position(|t| t.agreeing == most).expect("it is among them");
        tried[chosen].is_chosen = true;
        if chosen > 0 {
            calls = asker.calls(alternatives[chosen]);
            judged = asker.ask(&calls, path, progress)?;
        }
    }
    Ok(Fidelity::new(summary::Parts {
        trace: TraceInfo::new(path, trace),
        platform: &request.platform,
        hz: tick.grid.hz,
        events: trace,
        machine: &machine,
        calls: &calls,
        governors: &governors,
        judged: &judged,
        tried,
        options,
        has_lengths,
        sysfs,
        event_to_exit: exits(),
    }))
}

/// A governor to try; `is_named` if the user named it.
pub(crate) struct Candidate {
    pub governor: Governor,
    pub is_named: bool,
}

struct Asker<'a> {
    trace: &'a Trace,
    machine: &'a [MachineCpu],
    tick: &'a TickFunction,
    options: &'a VerifyOptions,
    governors: &'a [Candidate],
}

impl Asker<'_> {
    fn calls(&self, assumptions: Assumptions) -> Calls {
        let tick = self.tick.clone();
        let walk = Walk::new(self.trace, tick, self.machine, assumptions, self.options);
        let mut calls = walk.run();
        util::fill(self.trace, self.machine, &mut calls);
        iowait::fill(self.trace, &mut calls);
        calls
    }

    fn ask(
        &self,
        calls: &Calls,
        path: &str,
        progress: &dyn Progress,
    ) -> Result<Vec<Judged>, EngineError> {
        if progress.cancelled() {
            return Err(EngineError::Interrupted);
        }
        progress.advance(path, 0, 1);
        let ask = |candidate: &Candidate| {
            let force = |has_history| {
                forcing::force(&candidate.governor, calls, self.machine, has_history, progress)
            };
            let keep = self.options.disagreements;
            let mut judged = judge::judge(calls, self.machine, force(false), keep);
            if calls.resets == 0 {
                let again = judge::judge(calls, self.machine, force(true), 0);
                judged.agreeing_with_history = again.error.is_none().then_some(again.agreeing);
            }
            judged
        };
        let judged = pool::map(self.governors, ask);
        if progress.cancelled() { Err(EngineError::Interrupted) } else { Ok(judged) }
    }

    /// Returns the agreement of one governor under each of `alternatives`, of which the first is
    /// known.
    fn fit(
        &self,
        governor: usize,
        alternatives: &[Assumptions],
        by_first: u64,
        progress: &dyn Progress,
    ) -> Result<Vec<Tried>, EngineError> {
        if progress.cancelled() {
            return Err(EngineError::Interrupted);
        }
        let candidate = &self.governors[governor].governor;
        let tried = |assumptions: &Assumptions| {
            let agreeing = if *assumptions == alternatives[0] || progress.cancelled() {
                by_first
            } else {
                let calls = self.calls(*assumptions);
                let answers = forcing::force(candidate, &calls, self.machine, false, progress);
                judge::judge(&calls, self.machine, answers, 0).agreeing
            };
            Tried::new(assumptions, agreeing)
        };
        let tried = pool::map(alternatives, tried);
        if progress.cancelled() { Err(EngineError::Interrupted) } else { Ok(tried) }
    }
}

fn has_probe(trace: &Trace, wanted: Probe) -> bool {
    let is_wanted = |kind| matches!(kind, EventKind::Probed { probe, .. } if probe == wanted);
    trace.events.iter().any(|event| is_wanted(event.kind))
}

/// Checks that the recording has the events from which a governor's inputs are rebuilt.
fn check(path: &str, trace: &Trace) -> Result<TickFunction, EngineError> {
    let carries = &trace.carries;
    let needs = [
        ("power:cpu_idle", carries.cpu_idle),
        ("sched:sched_switch", carries.switches),
        ("timer:hrtimer_start, hrtimer_cancel, hrtimer_expire_entry", carries.hrtimers),
    ];
    let missing: Vec<&str> = needs.iter().filter(|(_, has)| !has).map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        return Err(EngineError::NotVerifiable {
            path: path.to_owned(),
            reason: format!("it has no {}", missing.join(", no ")),
        });
    }
    input::tick_function(&trace.events, &SoFar::whole(trace)).ok_or_else(|| {
        EngineError::NotVerifiable {
            path: path.to_owned(),
            reason: "none of its hrtimers is the tick's".to_owned(),
        }
    })
}

/// Returns the machine's CPUs that go idle.
fn machine(
    path: &str,
    trace: &Trace,
    request: &VerifyRequest,
    tick: &TickFunction,
) -> Result<Vec<MachineCpu>, EngineError> {
    let VerifyRequest { platform, options, .. } = request;
    let mut deepest: std::collections::BTreeMap<CpuId, usize> = Default::default();
    for event in &trace.events {
        if let EventKind::CpuIdle { state } = event.kind {
            if let Some(state) = state.index() {
                let seen = deepest.entry(event.cpu).or_default();
                *seen = state.max(*seen);
            }
        }
    }
    let mut machine = Vec::new();
    for (cpu, deepest) in deepest {
        let Some(cluster) = platform.cluster_of(cpu) else {
            return Err(EngineError::NoSuchCpu {
                path: path.to_owned(),
                cpu,
                number: cpu.0,
                platform: platform.name.clone(),
                last: platform.cpu_count().saturating_sub(1),
            });
        };
        let limit = options.latency_limit.of(cpu);
        let table = &platform.clusters[cluster];
        if deepest >= table.idle_states.len() {
            return Err(EngineError::NotThisMachine {
                path: path.to_owned(),
                cpu,
                state: deepest,
                platform: platform.name.clone(),
                last: table.idle_states.len() - 1,
            });
        }
        let is_disabled = |state: usize| {
            let is_off =
                |off: &DisabledState| off.state == state && off.cpu.is_none_or(|c| c == cpu);
            options.disabled_states.iter().any(is_off)
        };
        let model = CpuModel::new(platform, table, tick.grid, limit, is_disabled);
        let states = state_descs(&table.idle_states, &model);
        machine.push(MachineCpu { cpu, model, states });
    }
    Ok(machine)
}

/// Built-in governors that no kernel has: a machine ran one only if the user names it, and as a
/// control it would not show how different the kernel's own governors are.
const NO_KERNELS: [&str; 1] = ["tide"];

/// Returns the named governors, then the other built-in ones that a machine may have run.
fn governors(
    named: &[GovernorSpec],
    catalog: &Catalog,
    tick: &TickFunction,
) -> Result<Vec<Candidate>, EngineError> {
    let hz = tick.grid.hz;
    let mut candidates = Vec::new();
    let mut labels = BTreeSet::new();
    for spec in named {
        labels.insert(spec.to_string());
        candidates.push(Candidate { governor: catalog.resolve(spec, hz)?, is_named: true });
    }
    let others = Catalog::builtin_names().filter(|name| !NO_KERNELS.contains(name));
    for name in others.filter(|name| !labels.contains(*name)) {
        let spec = name.parse().expect("a built-in governor's name is one");
        candidates.push(Candidate { governor: catalog.resolve(&spec, hz)?, is_named: false });
    }
    Ok(candidates)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
