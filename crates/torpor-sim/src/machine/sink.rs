// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Observers of a run.

use torpor_engine::decision::{Observer, Unobserved};
use torpor_engine::input::Span;
use torpor_machine::units::{Duration, Instant};
use torpor_trace::EventKind;

/// Takes the kernel's events as they would have been recorded. Names are the workload's tasks by
/// index.
pub trait Sink: Observer {
    /// Whether events are wanted: checked before they are made.
    const RECORDS: bool;

    /// Whether the spans of idleness are taken, as a replay would have them.
    const TAKES_SPANS: bool = false;

    fn event(&mut self, time: Instant, cpu: usize, kind: EventKind);

    fn span(&mut self, _cpu: usize, _span: Span) {}

    /// Resets after the warm-up.
    fn start_over(&mut self) {}

    /// The end of the run cuts a sleep, of which no decision is reported.
    fn cut(&mut self, _cpu: usize, _state: usize, _opp: u16, _slept: Duration) {}
}

impl Sink for Unobserved {
    const RECORDS: bool = false;

    #[inline(always)]
    fn event(&mut self, _: Instant, _: usize, _: EventKind) {}
}
