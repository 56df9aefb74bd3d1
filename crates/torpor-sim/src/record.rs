// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Watchers of a run that keep what they see: the first sleeps of each CPU, or a whole recording.

use crate::error::SimError;
use crate::machine::{Plan, Sink, names_of};
use std::path::Path;
use torpor_engine::decision::{Decision, Observer};
use torpor_engine::strip::Slept;
use torpor_machine::units::{CpuId, Duration, Instant, WholeFile};
use torpor_trace::{Carries, Event, EventKind, Meta, Trace};

/// Keeps the first sleeps of each CPU, the last one as far as the run goes.
pub struct Sleeps {
    /// Further entries of each.
    pub most: Vec<usize>,
    pub end: Instant,
    pub kept: Vec<Slept>,
}

impl Sleeps {
    fn keep(&mut self, slept: Slept) {
        let most = &mut self.most[slept.lane];
        if *most > 0 {
            *most -= 1;
            self.kept.push(slept);
        }
    }
}

impl Observer for Sleeps {
    fn wants(&self, slot: usize) -> bool {
        self.most[slot] > 0
    }

    fn decision(&mut self, decision: &Decision) {
        self.keep(decision.into());
    }
}

impl Sink for Sleeps {
    const RECORDS: bool = false;

    fn event(&mut self, _: Instant, _: usize, _: EventKind) {}

    fn start_over(&mut self) {
        for slept in self.kept.drain(..) {
            self.most[slept.lane] += 1;
        }
    }

    fn cut(&mut self, cpu: usize, state: usize, _: u16, slept: Duration) {
        let Sleeps { end, .. } = *self;
        self.keep(Slept { lane: cpu, from: end - slept, to: end, state: state as u8 });
    }
}

/// Makes a recording of a run, and keeps its decisions.
#[derive(Default)]
pub struct Recorder {
    events: Vec<Event>,
    pub decisions: Vec<Decision>,
}

impl Observer for Recorder {
    fn wants(&self, _: usize) -> bool {
        true
    }

    fn decision(&mut self, decision: &Decision) {
        self.decisions.push(*decision);
    }
}

impl Sink for Recorder {
    const RECORDS: bool = true;

    fn event(&mut self, time: Instant, cpu: usize, kind: EventKind) {
        self.events.push(Event { time, cpu: CpuId(cpu as u32), kind });
    }

    fn start_over(&mut self) {
        self.events.clear();
        self.decisions.clear();
    }
}

impl Recorder {
    /// The recording of a run by this plan, as a reader would give it.
    pub fn into_trace(mut self, plan: &Plan) -> Trace {
        // A switch is reported before what held it up is over.
        self.events.sort_by_key(|event| event.time);
        let tasks = plan.workload.tasks.iter().map(|task| task.name.as_str());
        let names = names_of(tasks, &mut self.events);
        let meta = Meta {
            format: "simulation".to_owned(),
            clock: "mono".to_owned(),
            cpu_count: plan.topology.cpus as u32,
            ..Meta::default()
        };
        let carries = Carries {
            cpu_idle: true,
            cpu_idle_miss: true,
            frequency: true,
            switches: true,
            wakings: true,
            hrtimers: true,
            tick_stop: true,
            interrupts: true,
            ipis: true,
            ..Carries::default()
        };
        Trace { meta, events: self.events, names, carries, ..Trace::default() }
    }
}

/// Endings of a file that is written for Perfetto; others become ftrace text.
const PERFETTO_ENDINGS: [&str; 2] = [".perfetto-trace", ".pftrace"];

/// Writes a recording in the format that the file's name implies.
pub fn write(trace: &Trace, path: &Path) -> Result<(), SimError> {
    let failed = |source| SimError::Write { path: path.to_owned(), source };
    let mut out = WholeFile::create(path).map_err(failed)?;
    let name = path.to_string_lossy();
    if PERFETTO_ENDINGS.iter().any(|ending| name.ends_with(ending)) {
        torpor_trace::write_perfetto(trace, &mut out).map_err(failed)?;
    } else {
        torpor_trace::write_ftrace_text(trace, &mut out).map_err(failed)?;
    }
    out.commit().map_err(failed)
}
