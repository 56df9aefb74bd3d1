// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Task information of each span: a second pass over the events, once the spans are known.

use super::Recording;
use super::tasks::Counter;
use super::util::Tracker;
use torpor_machine::units::CpuId;
use torpor_trace::{Event, Trace};

/// Follows the tasks of a recording and sets its spans' `util`, `nr_iowait` and `nr_running`.
pub struct Follower<'a> {
    recording: &'a mut Recording,
    counter: Counter,
    tracker: Tracker,
}

impl<'a> Follower<'a> {
    /// `trace` needs no events. Utilization is as if the machine's CPUs had done the recorded work
    /// in the recorded time: `machine` gives a CPU's capacity and, where known, its highest
    /// frequency; else the highest recorded one stands for it.
    pub fn new(
        recording: &'a mut Recording,
        trace: &Trace,
        machine: impl Fn(CpuId) -> (u32, Option<u32>),
    ) -> Follower<'a> {
        let seats = Seats::new(recording, trace.meta.cpu_count);
        Follower {
            counter: Counter::new(seats.clone(), trace, recording.tick),
            tracker: Tracker::new(seats, trace, &recording.freq_max_khz, machine),
            recording,
        }
    }

    /// Takes the next events, in order of time.
    pub fn observe(&mut self, events: &[Event]) {
        self.counter.observe(events, &mut self.recording.cpus);
        self.tracker.observe(events, &mut self.recording.cpus);
    }

    pub fn finish(self) {
        self.counter.finish(&mut self.recording.cpus);
        self.tracker.finish(&mut self.recording.cpus);
    }
}

/// Index of each CPU's spans in a recording, by CPU number.
#[derive(Clone)]
pub struct Seats(Vec<Option<usize>>);

impl Seats {
    pub fn new(recording: &Recording, cpu_count: u32) -> Seats {
        let mut seats = vec![None; cpu_count as usize];
        for (index, input) in recording.cpus.iter().enumerate() {
            if let Some(seat) = seats.get_mut(input.cpu.index()) {
                *seat = Some(index);
            }
        }
        Seats(seats)
    }

    pub fn cpu_count(&self) -> usize {
        self.0.len()
    }

    pub fn of(&self, number: usize) -> Option<usize> {
        self.0.get(number).copied().flatten()
    }
}
