// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The middle of a long sleep, where each tick is like the one before.
//!
//! Far from the event, a path that keeps the tick wakes up once a tick and has the same choices
//! each time. So the paths that wait at a tick soon are those that waited some ticks before, each
//! later by those ticks and dearer by the same: one tick before, or more where a state takes longer
//! than a tick to leave, so that the cheapest way is to enter it at every second. From there on any
//! number of such laps is one step. Nothing is lost between its ends: what stops the tick in one of
//! the laps between has an energy that changes evenly from lap to lap, and so is no cheaper than
//! what stops it in the first or in the last.

use super::{Path, Search};
use crate::input::{OVERDUE, RCU_HOLD, Span};
use std::collections::VecDeque;
use torpor_machine::units::{Duration, Energy, Instant};

/// Shorter middles are searched tick by tick.
const TICKS_MIN: i64 = 8;

/// Laps of up to so many ticks are found.
const LAP_TICKS_MAX: usize = 16;

/// The middle of one span, and what waited at its last ticks.
pub(super) struct Stretch {
    from: Instant,
    until: Instant,
    /// When the tick ceases to be held by RCU; begins to be held by a timer of the wheel; and
    /// ceases to be; and when a rest is credited with another power. In order.
    holds: Vec<Instant>,
    tick: Duration,
    /// Whether polling is left out: it costs more than sleeping through a tick.
    pub polls: bool,
    /// The next tick at which to look.
    next: Instant,
    before: VecDeque<(Instant, Vec<Path>)>,
}

/// Alike paths at the ends of a lap, by their last steps.
pub(super) struct Alike {
    pub before: Vec<u32>,
    pub after: Vec<u32>,
}

impl Alike {
    /// Which path at the lap's beginning `step` belongs to.
    pub(super) fn earlier(&self, step: u32) -> Option<usize> {
        self.before.iter().position(|&s| s == step)
    }

    pub(super) fn step(&self, index: usize) -> u32 {
        self.after[index]
    }
}

/// As many laps are alike, for the paths that wait at the beginning of the first.
pub(super) struct Leap {
    pub alike: Alike,
    pub laps: i64,
    /// The waiting paths, after the leap.
    pub paths: Vec<Path>,
}

impl Stretch {
    /// The middle of `span` for paths that come to it by `latest`; `None` if it is short.
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

    /// Looks at what waits at the tick before `now`, in order of time.
    pub(super) fn look(&mut self, tick_at: Instant, waiting: &[Path]) -> Option<Leap> {
        self.next = tick_at + self.tick;
        // Differs in something that the tick could not do before.
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
        // A lap and some ticks of it are left: they see the end coming.
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

/// Whether `after` is `before` so much later, each path dearer by the same.
fn are_alike(before: &[Path], after: &[Path], later: Duration) -> bool {
    let (Some(first), Some(then)) = (before.first(), after.first()) else { return false };
    let dearer = then.energy - first.energy;
    before.len() == after.len()
        && before.iter().zip(after).all(|(b, a)| {
            b.now + later == a.now
                && b.tick_stopped == a.tick_stopped
                && b.energy + dearer == a.energy
        })
}

impl Search<'_> {
    /// Polling up to the next tick costs more than a sleep that the tick ends, and no state takes
    /// more power than polling: then a path that polls in the middle of a long sleep is dearer than
    /// one that sleeps instead, by more than it is later.
    fn sleeping_beats_polling(&self, opp: u16) -> bool {
        let (model, costs) = (self.model, &self.model.costs);
        let tick = model.tick.hz.tick();
        let polling = self.allowed.iter().copied().find(|&s| model.states[s].is_polling);
        let Some(polling) = polling else { return true };
        let sleeping = || self.allowed.iter().copied().filter(|&s| s != polling);
        // Latest time since the last tick at which a state that a tick ended is left.
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
