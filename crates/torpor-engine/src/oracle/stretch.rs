// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The middle of a long sleep, where each tick is like the one before.
//!
//! Far from the event, a path that keeps the tick wakes up once a tick and has the same choices
//! each time. So the paths that wait at a tick soon are those that waited at the tick before, each
//! later by a tick and dearer by the same. From there on a step of any number of ticks is one
//! step. Nothing is lost between its ends: what stops the tick at one of the ticks in between has
//! an energy that changes evenly from tick to tick, and so is no cheaper than what stops it at the
//! first or at the last.

use super::{Path, Search};
use crate::input::Span;
use torpor_units::{Duration, Instant};

/// Shorter middles are searched tick by tick.
const TICKS_MIN: i64 = 8;

/// The middle of one span, and what waited at its last tick.
pub(super) struct Stretch {
    from: Instant,
    until: Instant,
    /// The tick is held from here on, by a timer of the wheel.
    held_from: Instant,
    tick: Duration,
    /// Whether polling is left out: it costs more than sleeping through a tick.
    pub polls: bool,
    /// The next tick at which to look.
    next: Instant,
    before: Vec<Path>,
}

/// Alike paths at two ticks, by their last steps.
pub(super) struct Alike {
    before: Vec<u32>,
    after: Vec<u32>,
}

impl Alike {
    /// Which path of the tick before `step` belongs to.
    pub fn earlier(&self, step: u32) -> Option<usize> {
        self.before.iter().position(|&s| s == step)
    }

    pub fn step(&self, index: usize) -> u32 {
        self.after[index]
    }
}

/// As many ticks are alike, for the paths that wait at the first of them.
pub(super) struct Leap {
    pub alike: Alike,
    pub ticks: i64,
    /// The waiting paths, behind the leap.
    pub paths: Vec<Path>,
}

impl Stretch {
    /// The middle of `span` for paths that come to it by `latest`; `None` if it is short.
    pub fn of(search: &Search<'_>, span: &Span, latest: Instant) -> Option<Stretch> {
        let (model, tick) = (search.model, search.model.tick.hz.tick());
        let margin = search.latest_ending + search.longest_entry + tick;
        if span.wake.since(latest) < margin + margin + Duration(tick.0 * TICKS_MIN) {
            return None;
        }
        let from = model.tick.next(latest + margin);
        let until = model.tick.floor(span.wake - margin);
        Some(Stretch {
            from,
            until,
            held_from: span.next_wheel - tick,
            tick,
            polls: !search.sleeping_beats_polling(span.opp),
            next: from,
            before: Vec::new(),
        })
    }

    pub fn holds(&self, now: Instant) -> bool {
        self.from <= now && now < self.until
    }

    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.next && now < self.until
    }

    /// Looks at what waits at the tick before `now`, in order of time.
    pub fn look(&mut self, tick_at: Instant, waiting: &[Path]) -> Option<Leap> {
        let before = std::mem::replace(&mut self.before, waiting.to_vec());
        let last = std::mem::replace(&mut self.next, tick_at + self.tick) - self.tick;
        if last != tick_at - self.tick || !are_alike(&before, waiting, self.tick) {
            return None;
        }
        let mut end = self.until;
        if tick_at < self.held_from {
            end = end.min(self.held_from);
        }
        // Some ticks of it are left: they see the end coming.
        let ticks = end.since(tick_at).0 / self.tick.0 - 4;
        if ticks < 1 {
            return None;
        }
        let dearer = waiting[0].energy - before[0].energy;
        let later = Duration(self.tick.0 * ticks);
        let behind = |path: &Path| Path {
            now: path.now + later,
            energy: path.energy + torpor_units::Energy(dearer.0 * i128::from(ticks)),
            ..*path
        };
        let steps = |paths: &[Path]| paths.iter().map(|path| path.step).collect();
        self.next = tick_at + later + self.tick;
        self.before.clear();
        Some(Leap {
            alike: Alike { before: steps(&before), after: steps(waiting) },
            ticks,
            paths: waiting.iter().map(behind).collect(),
        })
    }
}

/// Whether `after` is `before` a tick later, each path dearer by the same.
fn are_alike(before: &[Path], after: &[Path], tick: Duration) -> bool {
    let (Some(first), Some(then)) = (before.first(), after.first()) else { return false };
    before.len() == after.len()
        && before.iter().zip(after).all(|(b, a)| {
            b.now + tick == a.now
                && b.tick_stopped == a.tick_stopped
                && b.energy - first.energy == a.energy - then.energy
        })
}

impl Search<'_> {
    /// Polling for a tick costs more than a sleep that the tick ends, and no state takes more power
    /// than polling: then a path that polls in the middle of a long sleep is dearer than one that
    /// sleeps instead, by more than it is later.
    fn sleeping_beats_polling(&self, opp: u16) -> bool {
        let (model, costs) = (self.model, &self.model.costs);
        let tick = model.tick.hz.tick();
        let polling = self.allowed.iter().copied().find(|&s| model.states[s].is_polling);
        let Some(polling) = polling else { return true };
        let sleeping = || self.allowed.iter().copied().filter(|&s| s != polling);
        let awake_at = self.latest_ending;
        if awake_at >= tick {
            return false;
        }
        let power = |state| costs.sleeps(opp, state, 0, tick);
        let through = |state: usize| {
            costs.sleep(opp, state, tick + model.states[state].exit_latency)
                + costs.awake(opp, model.tick_handling)
        };
        sleeping().all(|s| power(s) <= power(polling))
            && sleeping().any(|s| through(s) <= costs.sleep(opp, polling, tick - awake_at))
    }
}
