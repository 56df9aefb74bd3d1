// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Idle spans of recordings, one by one: what a governor could know at the start, what happened,
//! and the cost of each choice.

pub mod bound;

use crate::idle_loop::{NextEvents, next_events};
use crate::input::{CpuInput, Span, after_idling};
use crate::model::{Alarms, CpuModel, Verdict};
use torpor_machine::units::{Duration, Energy, Instant};

/// The spans of one recording on a machine.
pub struct Spanned {
    /// The recording.
    pub path: String,
    /// Energies are the machine's, not relative ones.
    pub has_power: bool,
    pub cpus: Vec<SpannedCpu>,
}

pub struct SpannedCpu {
    pub input: CpuInput,
    /// Position among the platform's clusters.
    pub cluster: usize,
    pub model: CpuModel,
}

/// Knowledge at the start of a span, apart from [`Span`]'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Time to the next timer; to the tick if it must stay.
    pub sleep_length: Duration,
    pub to_tick: Duration,
    /// Busy time of the CPU since the span before.
    pub busy: Option<Duration>,
    /// Lengths of the spans before, the last one first.
    pub last: [Option<Duration>; 3],
    pub util: u64,
}

/// Cost of one sleep through a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    pub energy: Energy,
    /// Delay of the event's work relative to the recording.
    pub delay: Duration,
}

impl SpannedCpu {
    pub fn known(&self, index: usize) -> Known {
        let spans = &self.input.spans;
        let span = &spans[index];
        let (tick, jiffy) = (self.model.tick.hz.tick(), self.model.tick.floor(span.start));
        let NextEvents { sleep_length, .. } = next_events(span, tick, jiffy, span.start, false);
        let before = |n: usize| Some(&spans[index.checked_sub(n)?]);
        Known {
            sleep_length,
            to_tick: (jiffy + tick).since(span.start),
            busy: before(1).map(|b| span.start.since(b.resume)),
            last: [1, 2, 3].map(|n| before(n).map(|b| b.wake.since(b.start))),
            util: after_idling(span.util, Duration::ZERO),
        }
    }

    /// Returns the cost and the kernel's verdict of one sleep in `state` through the whole span,
    /// with the tick stopped. A polling state polls until the event.
    pub fn choice(&self, span: &Span, state: usize) -> (Cost, Verdict) {
        let resume = self.sleep(span, state, span.start, Alarms::NONE).0;
        let residency = resume.since(span.start);
        let energy = self.model.costs.sleep(span.opp, state, residency);
        let delay = resume.since(span.resume).max(Duration::ZERO);
        (Cost { energy, delay }, self.model.verdict(state, residency))
    }

    /// Returns the end of a sleep, and whether the event ended it.
    fn sleep(&self, span: &Span, state: usize, from: Instant, alarms: Alarms) -> (Instant, bool) {
        if self.model.states[state].is_polling {
            let alarm = alarms.tick.min(alarms.timer);
            return (span.wake.min(alarm), span.wake <= alarm);
        }
        let sleep = self.model.sleep(state, from, span.wake, alarms);
        (sleep.resume, sleep.end == crate::model::SleepEnd::Event)
    }
}

#[cfg(test)]
mod tests;
