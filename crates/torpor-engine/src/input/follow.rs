// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Task information of each span: a second pass over the events, once the spans are known.

use super::tasks::Counter;
use super::util::Tracker;
use super::{CpuIndex, Recording};
use torpor_machine::units::CpuId;
use torpor_trace::{Event, Trace};

/// Follows the tasks of a recording and sets `util`, `nr_iowait` and `nr_running` of its spans.
pub struct Follower<'a> {
    recording: &'a mut Recording,
    counter: Counter,
    tracker: Tracker,
}

impl<'a> Follower<'a> {
    /// Prepares to follow a recording's tasks; `trace` needs no events. Utilization is computed as
    /// if the machine's CPUs had done the recorded work in the recorded time. `machine` returns a
    /// CPU's capacity and, if known, its highest frequency; the default is the highest recorded
    /// one.
    pub fn new(
        recording: &'a mut Recording,
        trace: &Trace,
        machine: impl Fn(CpuId) -> (u32, Option<u32>),
    ) -> Follower<'a> {
        let index = CpuIndex::new(recording, trace.meta.cpu_count);
        Follower {
            counter: Counter::new(index.clone(), trace, recording.tick),
            tracker: Tracker::new(index, trace, &recording.freq_max_khz, machine),
            recording,
        }
    }

    /// Takes the next events, in order of time.
    pub fn observe(&mut self, events: &[Event]) {
        self.counter.observe(events, &mut self.recording.cpus);
        self.tracker.observe(events, &mut self.recording.cpus);
    }

    pub fn finish(mut self) {
        self.counter.finish(&mut self.recording.cpus);
        self.tracker.finish(&mut self.recording.cpus);
    }
}
