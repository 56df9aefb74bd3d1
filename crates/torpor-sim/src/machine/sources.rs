// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Sources of events outside the machine: first tasks and interrupts.

use super::events::Source;
use super::irq::Line;
use super::{Machine, Sink};
use crate::error::Halt;
use crate::random::{Stream, StreamName};
use crate::workload::{Arrivals, Interrupt, Runs, Workload};
use torpor_machine::units::{Duration, Instant};

/// State of an interrupt source.
pub(super) struct SourceState {
    interval: Stream,
    gap: Stream,
    handling: Stream,
    fired: u64,
    /// Interrupts left of the current burst, and when it began.
    burst_left: u32,
    burst_began: Instant,
    /// Whether it fires again.
    pub is_active: bool,
}

pub(super) fn sources(workload: &Workload, seed: u64) -> Vec<SourceState> {
    let make = |interrupt: &Interrupt| {
        let name = StreamName::new(seed).text("interrupt").text(&interrupt.name);
        SourceState {
            interval: name.text("interval").stream(),
            gap: name.text("gap").stream(),
            handling: name.text("handling").stream(),
            fired: 0,
            burst_left: interrupt.burst,
            burst_began: Instant(0),
            is_active: false,
        }
    };
    workload.interrupts.iter().map(make).collect()
}

impl<'a, S: Sink> Machine<'a, S> {
    /// The first interrupt of a source.
    pub(super) fn arm_source(&mut self, source: usize) {
        let world = &mut self.world;
        let interrupt = &world.plan.workload.interrupts[source];
        let state = &mut world.sources[source];
        let at = match &interrupt.arrivals {
            Arrivals::Apart(interval) => {
                let length = interval.draw(&mut state.interval);
                let length = in_runs(&mut world.runs, interrupt, length, Instant(0));
                later(interrupt, Instant(0) + interrupt.start, length)
            }
            Arrivals::At(times) => Instant(0) + times[0],
        };
        state.burst_began = at;
        state.is_active = interrupt.max != Some(0);
        if state.is_active {
            world.queue.set(Source::Interrupt.nth(source), at);
        }
    }

    pub(super) fn source_fires(&mut self, source: usize) -> Result<(), Halt> {
        let world = &mut self.world;
        let interrupt = &world.plan.workload.interrupts[source];
        let now = world.now;
        let state = &mut world.sources[source];
        let handling = interrupt.handling.draw(&mut state.handling);
        let cpu = interrupt.cpus[(state.fired % interrupt.cpus.len() as u64) as usize].index();
        let next = state.next(interrupt, now, &mut world.runs);
        state.is_active = next != Instant::NEVER;
        world.queue.set(Source::Interrupt.nth(source), next);
        if next == now {
            // Set again, so that other sources due now come first.
            world.queue.set(Source::Interrupt.nth(source), Instant::NEVER);
            world.queue.set(Source::Interrupt.nth(source), next);
        }
        self.interrupt(cpu, Line::Source { source, handling });
        Ok(())
    }

    /// Tasks of a kind that are there from the beginning.
    pub(super) fn arm_start(&mut self, kind: usize) {
        let world = &mut self.world;
        if world.starts_left(kind) {
            let at = Instant(0) + world.plan.workload.tasks[kind].start;
            world.queue.set(Source::Start.nth(kind), at);
        }
    }

    pub(super) fn start_next(&mut self, kind: usize) -> Result<(), Halt> {
        let world = &mut self.world;
        let task = &world.plan.workload.tasks[kind];
        let at_once = if task.stagger == Duration::ZERO { task.count } else { 1 };
        world.begun[kind] += at_once;
        let next = if world.starts_left(kind) { world.now + task.stagger } else { Instant::NEVER };
        world.queue.set(Source::Start.nth(kind), next);
        self.spawn(kind, at_once, None)
    }
}

/// A length between interrupts that was drawn at `now`, as the source's activity has it.
fn in_runs(runs: &mut [Runs], of: &Interrupt, length: Duration, now: Instant) -> Duration {
    of.activity.map_or(length, |activity| runs[activity].scale(length, now))
}

/// Returns the time that is `length` after `from`, as far as its sections have passed.
fn later(interrupt: &Interrupt, from: Instant, length: Duration) -> Instant {
    interrupt.during.as_ref().map_or(from + length, |during| during.after(from, length))
}

impl SourceState {
    /// When the interrupt after this one comes.
    fn next(&mut self, interrupt: &Interrupt, now: Instant, runs: &mut [Runs]) -> Instant {
        self.fired += 1;
        let interval = match &interrupt.arrivals {
            Arrivals::At(times) => {
                let next = times.get(self.fired as usize);
                return next.map_or(Instant::NEVER, |at| Instant(0) + *at);
            }
            Arrivals::Apart(interval) => interval,
        };
        self.burst_left -= 1;
        let next = if self.burst_left > 0 {
            let gap = interrupt.burst_gap.draw(&mut self.gap);
            later(interrupt, now, in_runs(runs, interrupt, gap, now))
        } else {
            self.burst_left = interrupt.burst;
            // A burst that is longer than the interval is followed at once.
            let length = interval.draw(&mut self.interval);
            let length = in_runs(runs, interrupt, length, now);
            self.burst_began = later(interrupt, self.burst_began, length).max(now);
            self.burst_began
        };
        if interrupt.max.is_none_or(|max| self.fired < max) { next } else { Instant::NEVER }
    }
}
