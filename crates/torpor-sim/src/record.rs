// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Who watches a run: nobody, or a recorder that makes a recording of it.

use torpor_engine::decision::{Decision, Observer, Unobserved};
use torpor_trace::EventKind;
use torpor_units::Instant;

/// Takes the kernel's events as they would have been recorded. Names are the workload's tasks by
/// index.
pub trait Sink: Observer {
    /// Whether events are taken at all: asked before they are made.
    const RECORDS: bool;

    fn event(&mut self, time: Instant, cpu: usize, kind: EventKind);
}

impl Sink for Unobserved {
    const RECORDS: bool = false;

    #[inline(always)]
    fn event(&mut self, _: Instant, _: usize, _: EventKind) {}
}

/// Takes nothing but decisions.
#[derive(Default)]
pub struct Decisions(pub Vec<Decision>);

impl Observer for Decisions {
    fn wants(&self, _: usize) -> bool {
        true
    }

    fn decision(&mut self, decision: &Decision) {
        self.0.push(*decision);
    }
}

impl Sink for Decisions {
    const RECORDS: bool = false;

    fn event(&mut self, _: Instant, _: usize, _: EventKind) {}
}
