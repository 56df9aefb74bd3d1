// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Sleeps that are not worth trying, as an earlier path has begun the same sleep and paid no more.
//!
//! Of two paths that enter a state and settle in it before anything wakes the CPU, both resume at
//! the same time. The earlier one has slept longer, at the power of the state. If it was cheaper by
//! that or more, the sleep of the later one would be dropped at its end.

use super::{Path, Search};
use crate::input::Span;
use torpor_machine::units::{Energy, Instant};

/// The cheapest sleeps that have begun in a span, by whether the tick is stopped and by state.
#[derive(Default)]
pub(super) struct Sooner {
    states: usize,
    /// Number of the span; entries of others are void.
    span: u64,
    begun: Vec<Option<(u64, Sleeper)>>,
}

/// A path that enters a state.
#[derive(Clone, Copy)]
pub(super) struct Sleeper {
    state: usize,
    tick_stopped: bool,
    /// The last tick.
    jiffy: Instant,
    /// Has settled before anything wakes the CPU.
    settles: bool,
    /// Energy as if it had been in the state since the span began.
    energy: Energy,
}

impl Sooner {
    /// Begins a span of a CPU with so many states.
    pub(super) fn clear(&mut self, states: usize) {
        self.states = states;
        self.span += 1;
        self.begun.resize(2 * states, None);
    }

    /// Returns the cheapest sleep of the kind that has begun in this span.
    #[inline]
    fn begun(&self, tick_stopped: bool, state: usize) -> Option<&Sleeper> {
        let entry = self.begun[self.place(tick_stopped, state)].as_ref();
        entry.filter(|(span, _)| *span == self.span).map(|(_, sleeper)| sleeper)
    }

    #[inline]
    fn place(&self, tick_stopped: bool, state: usize) -> usize {
        usize::from(tick_stopped) * self.states + state
    }

    /// Returns true if a sleep that has begun ends like this one and costs no more.
    #[inline]
    pub(super) fn beats(&self, later: &Sleeper) -> bool {
        later.settles
            && self.begun(later.tick_stopped, later.state).is_some_and(|sooner| {
                (later.tick_stopped || sooner.jiffy == later.jiffy) && sooner.energy <= later.energy
            })
    }

    /// Adds a sleep, which is also tried without the tick if that can be stopped.
    #[inline]
    pub(super) fn keep(&mut self, sleeper: &Sleeper, can_stop: bool) {
        for tick_stopped in [false, true] {
            if tick_stopped != sleeper.tick_stopped && !(tick_stopped && can_stop) {
                continue;
            }
            let is_cheaper = |kept: &Sleeper| {
                kept.energy <= sleeper.energy && (tick_stopped || kept.jiffy == sleeper.jiffy)
            };
            if !self.begun(tick_stopped, sleeper.state).is_some_and(is_cheaper) {
                let place = self.place(tick_stopped, sleeper.state);
                self.begun[place] = Some((self.span, *sleeper));
            }
        }
    }
}

impl Search<'_> {
    #[inline]
    pub(super) fn sleeper(
        &self,
        path: &Path,
        state: usize,
        jiffy: Instant,
        span: &Span,
    ) -> Sleeper {
        let model = self.model;
        let tick = jiffy + model.tick.hz.tick();
        let until = if path.tick_stopped { span.wake } else { span.wake.min(tick) };
        // A path that waits stands where its credit would have grown since the beginning.
        let energy = if state == model.deepest { path.standing } else { path.energy };
        let asleep = model.costs.power(span.opp, state).over(path.now.since(span.start));
        Sleeper {
            state,
            tick_stopped: path.tick_stopped,
            jiffy,
            settles: self.skips && path.now + model.states[state].entry_latency <= until,
            energy: energy - asleep,
        }
    }
}
