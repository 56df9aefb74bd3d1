// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Sleeps of the recorded machine, by state, from the events.

use crate::input::{Draft, EventToExit};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use torpor_machine::units::{CpuId, Instant, StateIdx};
use torpor_trace::{Event, EventKind, Sink, SoFar, Trace, TraceError};

/// One CPU of a recording. A sleep counts if the recording has both its ends.
#[derive(Clone, Debug, Serialize)]
pub struct RecordedCpu {
    pub cpu: u32,
    /// Idle entries, including those without an exit.
    pub sleeps: u64,
    /// Entries without an exit and exits without an entry.
    pub cut_sleeps: u64,
    /// The CPU's first and last event.
    pub first_ns: i64,
    pub last_ns: i64,
    /// States that were entered, the shallowest first.
    pub states: Vec<RecordedState>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedState {
    pub index: usize,
    pub usage: u64,
    /// From the entry events to the exit events.
    pub time_ns: i64,
}

/// Reads a recording for its CPUs' sleeps, and for the delay from wake-up events to exits.
pub struct Contents {
    usage: RecordedUsage,
    draft: Draft,
}

impl Default for Contents {
    fn default() -> Contents {
        Contents { usage: RecordedUsage::default(), draft: Draft::new(None) }
    }
}

impl Contents {
    pub fn finish(self) -> (Vec<RecordedCpu>, EventToExit) {
        (self.usage.finish(), self.draft.finish().stats.event_to_exit)
    }
}

impl Sink for Contents {
    fn events(&mut self, events: Vec<Event>, so_far: &SoFar<'_>) {
        self.draft.observe(&events, so_far);
        self.usage.events(events, so_far);
    }
}

/// Finds a recording's machine in its first part.
#[derive(Default)]
struct Named(Option<(Option<String>, u32)>);

impl Sink for Named {
    fn events(&mut self, _: Vec<Event>, so_far: &SoFar<'_>) {
        self.0.get_or_insert((so_far.machine.map(str::to_owned), so_far.cpu_count));
    }

    fn is_stopped(&self) -> bool {
        self.0.is_some()
    }
}

/// Returns the name that a recording has for its machine, and the machine's number of CPUs, without
/// reading more than the first part.
///
/// # Errors
/// See [`torpor_trace::read`].
pub fn machine_named(path: &Path) -> Result<(Option<String>, u32), TraceError> {
    let mut named = Named::default();
    let read = torpor_trace::stream(path, &mut named);
    match (named.0, read) {
        (_, Ok(Trace { meta, .. })) => Ok((meta.machine, meta.cpu_count)),
        (Some(found), Err(TraceError::Stopped { .. })) => Ok(found),
        (_, Err(error)) => Err(error),
    }
}

/// Counts the sleeps of a recording while it is read.
#[derive(Default)]
pub struct RecordedUsage(BTreeMap<CpuId, Cpu>);

struct Cpu {
    sleeps: u64,
    cut_sleeps: u64,
    first: Instant,
    last: Instant,
    asleep: Option<(usize, Instant)>,
    /// Usage and time by state.
    states: BTreeMap<usize, (u64, i64)>,
}

impl Cpu {
    fn since(first: Instant) -> Cpu {
        let states = BTreeMap::new();
        Cpu { sleeps: 0, cut_sleeps: 0, first, last: first, asleep: None, states }
    }

    fn go(&mut self, state: StateIdx, time: Instant) {
        let entered = self.asleep.take();
        match (entered, state.index()) {
            (Some((index, since)), None) => {
                let (usage, time_ns) = self.states.entry(index).or_default();
                *usage += 1;
                *time_ns += time.since(since).0;
            }
            (Some(_), Some(_)) | (None, None) => self.cut_sleeps += 1,
            (None, Some(_)) => {}
        }
        if let Some(index) = state.index() {
            self.sleeps += 1;
            self.asleep = Some((index, time));
        }
    }
}

impl Sink for RecordedUsage {
    fn events(&mut self, events: Vec<Event>, _: &SoFar<'_>) {
        for event in &events {
            let cpu = self.0.entry(event.cpu).or_insert_with(|| Cpu::since(event.time));
            cpu.last = event.time;
            if let EventKind::CpuIdle { state } = event.kind {
                cpu.go(state, event.time);
            }
        }
    }
}

impl RecordedUsage {
    /// Returns the CPUs, by number.
    pub fn finish(self) -> Vec<RecordedCpu> {
        let recorded = |(number, cpu): (CpuId, Cpu)| RecordedCpu {
            cpu: number.0,
            sleeps: cpu.sleeps,
            cut_sleeps: cpu.cut_sleeps + u64::from(cpu.asleep.is_some()),
            first_ns: cpu.first.0,
            last_ns: cpu.last.0,
            states: cpu
                .states
                .into_iter()
                .map(|(index, (usage, time_ns))| RecordedState { index, usage, time_ns })
                .collect(),
        };
        self.0.into_iter().map(recorded).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torpor_trace::{Carries, Names};

    #[test]
    fn a_sleep_counts_with_both_ends() {
        let running = StateIdx::RUNNING;
        let state = StateIdx;
        // An exit first; a sleep of 5; an entry that another follows, which lasts 3; an open end.
        let moments = [
            (10, running),
            (20, state(1)),
            (25, running),
            (30, state(2)),
            (40, state(1)),
            (43, running),
            (50, state(0)),
        ];
        let event = |(at, state)| Event {
            time: Instant(at),
            cpu: CpuId(3),
            kind: EventKind::CpuIdle { state },
        };
        let names = Names::default();
        let carries = Carries::default();
        let so_far = SoFar { names: &names, carries, cpu_count: 4, machine: None };
        let mut usage = RecordedUsage::default();
        for part in moments.chunks(2) {
            usage.events(part.iter().copied().map(event).collect(), &so_far);
        }
        let [cpu] = &usage.finish()[..] else { panic!("one CPU") };
        assert_eq!((cpu.cpu, cpu.first_ns, cpu.last_ns), (3, 10, 50));
        assert_eq!((cpu.sleeps, cpu.cut_sleeps), (4, 3));
        assert_eq!(cpu.states, [RecordedState { index: 1, usage: 2, time_ns: 8 }]);
    }
}
