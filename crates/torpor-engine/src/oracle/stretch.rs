// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The middle of a long sleep, in which each tick is like the one before.
//!
//! Far from the event, a path that keeps the tick wakes up once a tick and has the same choices
//! each time. So the paths that wait at a tick soon equal those of some ticks before, each later by
//! those ticks and dearer by the same amount: one tick before, or more if a state takes longer than
//! a tick to leave and is entered at every second tick. From there on, any number of such laps is
//! one step. Nothing is lost between its ends: a path that stops the tick in one of the laps has an
//! energy that changes evenly from lap to lap, so it is no cheaper than one that does so in the
//! first or in the last.

use super::{Path, Search};
use crate::input::{OVERDUE, RCU_HOLD, Span};
use std::collections::VecDeque;
use torpor_machine::units::{Duration, Energy, Instant};

/// Ticks of the shortest middle that is skipped.
const TICKS_MIN: i64 = 8;

/// Longest lap that is found, in ticks.
const LAP_TICKS_MAX: usize = 16;

/// The middle of one span, and the paths that waited at its last ticks.
pub(super) struct Stretch {
    from: Instant,
    until: Instant,
    /// Times at which RCU stops holding the tick, a wheel timer starts or stops holding it, or the
    /// credited power changes. In order.
    holds: Vec<Instant>,
    tick: Duration,
    /// Polling must be searched; false if it costs more than sleeping through a tick.
    pub polls: bool,
    /// The next tick to look at.
    next: Instant,
    before: VecDeque<(Instant, Vec<Path>)>,
}

/// Equal paths at both ends of a lap, by their last steps.
pub(super) struct Alike {
    pub before: Vec<u32>,
    pub after: Vec<u32>,
}

impl Alike {
    /// Returns the path at the lap's beginning that `step` belongs to.
    pub(super) fn earlier(&self, step: u32) -> Option<usize> {
        self.before.iter().position(|&s| s == step)
    }

    pub(super) fn step(&self, index: usize) -> u32 {
        self.after[index]
    }
}

/// A number of equal laps, for the paths that wait at the beginning of the first.
pub(super) struct Leap {
    pub alike: Alike,
    pub laps: i64,
    /// The waiting paths, after the leap.
    pub paths: Vec<Path>,
}

impl Stretch {
    /// Returns the middle of `span` for paths that reach it by `latest`; `None` if it is short.
    pub(super) fn of(search: &Search<'_>, span: &Span, latest: Instant) -> Option<Stretch> {
        let (model, tick) = (search.model, search.model.tick.hz.tick());
        let margin = search.latest_ending + search.longest_entry + tick;
        if span.wake.since(latest) < margin + margin + Duration(tick.0 * TICKS_MIN) {
            return None;
        }
        let from = model.tick.next(latest + margin);
        let until = model.tick.floor(span.wake - margin);
        let tick_changes =
            [span.start + RCU_HOLD, span.next_wheel - tick, span.next_wheel + OVERDUE];
        let credit_changes =
            search.credit.into_iter().flat_map(|credit| credit.changes(latest, span.wake));
        let mut holds: Vec<Instant> = tick_changes.into_iter().chain(credit_changes).collect();
        holds.sort_unstable();
        Some(Stretch {
            from,
            until,
            holds,
            tick,
            polls: search.credit.is_some() || !search.sleeping_beats_polling(span.opp),
            next: from,
            before: VecDeque::new(),
        })
    }

    pub(super) fn holds(&self, now: Instant) -> bool {
        self.from <= now && now < self.until
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next && now < self.until
    }

    /// Compares the paths that wait at the tick before `now`, in order of time, with those of
    /// earlier ticks.
    pub(super) fn look(&mut self, tick_at: Instant, waiting: &[Path]) -> Option<Leap> {
        self.next = tick_at + self.tick;
        // Earlier ticks differ in what holds the tick.
        let passed = self.holds.partition_point(|&at| at <= tick_at);
        let last = passed.checked_sub(1).map(|last| self.holds[last]);
        self.before.retain(|(from, _)| last.is_none_or(|last| last <= *from));
        let alike = |(from, before): &&(Instant, Vec<Path>)| {
            are_alike(before, waiting, tick_at.since(*from))
        };
        let Some((lap_from, before)) = self.before.iter().rev().find(alike) else {
            self.before.push_back((tick_at, waiting.to_vec()));
            if self.before.len() > LAP_TICKS_MAX {
                self.before.pop_front();
            }
            return None;
        };
        let lap = tick_at.since(*lap_from);
        let end = self.holds.get(passed).map_or(self.until, |&at| at.min(self.until));
        // The last lap and some ticks are searched: they are near the end.
        let laps = (end.since(tick_at).0 - 4 * self.tick.0) / lap.0 - 1;
        let steps = |paths: &[Path]| paths.iter().map(|path| path.step).collect();
        let alike = Alike { before: steps(before), after: steps(waiting) };
        let dearer = waiting[0].energy - before[0].energy;
        self.before.clear();
        if laps < 1 {
            return None;
        }
        let later = Duration(lap.0 * laps);
        let behind = |path: &Path| Path {
            now: path.now + later,
            energy: path.energy + Energy(dearer.0 * i128::from(laps)),
            ..*path
        };
        self.next += later;
        Some(Leap { alike, laps, paths: waiting.iter().map(behind).collect() })
    }
}

/// Returns true if `after` equals `before`, but `later`, and each path dearer by the same amount.
fn are_alike(before: &[Path], after: &[Path], later: Duration) -> bool {
    let (Some(first), Some(then)) = (before.first(), after.first()) else { return false };
    let dearer = then.energy - first.energy;
    before.len() == after.len()
        && before.iter().zip(after).all(|(b, a)| {
            b.now + later == a.now
                && b.tick_stopped == a.tick_stopped
                && b.spread == a.spread
                && b.energy + dearer == a.energy
        })
}

impl Search<'_> {
    /// Returns true if polling up to the next tick costs more than a sleep that the tick ends, and
    /// no state takes more power than polling. A path that polls in the middle of a long sleep is
    /// then dearer than one that sleeps, by more than it is later.
    fn sleeping_beats_polling(&self, opp: u16) -> bool {
        let (model, costs) = (self.model, &self.model.costs);
        let tick = model.tick.hz.tick();
        let polling = self.allowed.iter().copied().find(|&s| model.states[s].is_polling);
        let Some(polling) = polling else { return true };
        let sleeping = || self.allowed.iter().copied().filter(|&s| s != polling);
        // Latest time after a tick at which a state that it ended is left.
        let awake_at = |state: usize| {
            let s = &model.states[state];
            let (first, last) = (s.exit_latency + model.tick_handling, s.entry_latency);
            let (first, last) = (first.0, (first + last).0);
            (first / tick.0 == last / tick.0).then_some(Duration(last % tick.0))
        };
        let Some(awake_at) = sleeping().map(awake_at).collect::<Option<Vec<Duration>>>() else {
            return false;
        };
        let power = |state| costs.sleeps(opp, state, 0, tick);
        let through = |state: usize| {
            costs.sleep(opp, state, tick + model.states[state].exit_latency)
                + costs.awake(opp, model.tick_handling)
        };
        let to_tick = tick - awake_at.into_iter().max().unwrap_or(tick);
        let quick = |&s: &usize| {
            let s = &model.states[s];
            s.entry_latency + s.exit_latency + model.tick_handling < tick
        };
        sleeping().all(|s| power(s) <= power(polling))
            && sleeping().filter(quick).any(|s| through(s) <= costs.sleep(opp, polling, to_tick))
    }
}
