// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Sleeps of the recorded machine, by state, from the events.

use crate::timeline::{Change, Fold, Moment, Sleep, Timeline};
use serde::Serialize;
use std::collections::BTreeMap;
use torpor_machine::units::{CpuId, Instant};
use torpor_trace::Event;

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

/// Counts the sleeps of a recording while it is read.
#[derive(Default)]
pub struct RecordedUsage(BTreeMap<CpuId, Cpu>);

struct Cpu {
    sleeps: u64,
    cut_sleeps: u64,
    first: Instant,
    last: Instant,
    /// Usage and time by state.
    states: BTreeMap<usize, (u64, i64)>,
}

impl Cpu {
    fn since(first: Instant) -> Cpu {
        Cpu { sleeps: 0, cut_sleeps: 0, first, last: first, states: BTreeMap::new() }
    }

    fn settle(&mut self, sleep: &Sleep) {
        let Some((index, exit)) = sleep.state.index().zip(sleep.exit) else {
            self.cut_sleeps += 1;
            return;
        };
        let (usage, time_ns) = self.states.entry(index).or_default();
        *usage += 1;
        *time_ns += exit.since(sleep.entry).0;
    }
}

impl Fold for RecordedUsage {
    fn take(&mut self, moment: &Moment<'_>) {
        let Event { time, cpu, .. } = *moment.event;
        let cpu = self.0.entry(cpu).or_insert_with(|| Cpu::since(time));
        cpu.last = time;
        cpu.sleeps += u64::from(matches!(moment.change, Change::Slept { .. }));
        cpu.cut_sleeps += u64::from(moment.change == Change::Woke { is_known: false });
        moment.change.settled().into_iter().for_each(|sleep| cpu.settle(sleep));
    }

    fn end(&mut self, timeline: &Timeline) {
        for sleep in timeline.unsettled() {
            self.0.entry(sleep.cpu).or_insert_with(|| Cpu::since(sleep.entry)).settle(sleep);
        }
    }
}

impl RecordedUsage {
    /// Returns the CPUs, by number.
    pub fn finish(self) -> Vec<RecordedCpu> {
        let recorded = |(number, cpu): (CpuId, Cpu)| RecordedCpu {
            cpu: number.0,
            sleeps: cpu.sleeps,
            cut_sleeps: cpu.cut_sleeps,
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
    use crate::timeline::Folding;
    use torpor_machine::units::StateIdx;
    use torpor_trace::{Carries, EventKind, Names, Sink, SoFar};

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
        let mut usage = Folding::new(RecordedUsage::default());
        for part in moments.chunks(2) {
            usage.events(part.iter().copied().map(event).collect(), &so_far);
        }
        let [cpu] = &usage.finish().finish()[..] else { panic!("one CPU") };
        assert_eq!((cpu.cpu, cpu.first_ns, cpu.last_ns), (3, 10, 50));
        assert_eq!((cpu.sleeps, cpu.cut_sleeps), (4, 3));
        assert_eq!(cpu.states, [RecordedState { index: 1, usage: 2, time_ns: 8 }]);
    }
}
