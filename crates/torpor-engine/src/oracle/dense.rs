// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Runs of short spans, where resting in the shallowest state is the cheapest way to pass time.
//!
//! A pipe's reader is idle for microseconds. A trip to a deep state makes a path late for hundreds
//! of such spans, by an amount of its own; no two such paths ever wait at the same moment, and in
//! spans shorter than the entry none replaces another by [`Safe`](super::Safe). Their number would
//! grow with the recording. What drops them here is this:
//!
//! - Call a span dense if no sleep that fits it is cheaper than as long a rest. Then, whatever a
//!   path does there, each moment costs it at least the power of the rest.
//! - A path that rests in every dense span pays that power and no more, and is never later than a
//!   rest's latencies.
//! - All paths see the same idleness, so at the end of the run each has passed as much time as the
//!   other, but for what they differ by at both ends.
//!
//! So from place `j` on, a punctual path costs at most `power · (later - punctual) + G[j]` more
//! than a later one. `G` is summed from the end of the run backwards: what they may differ by
//! there, where the power of the rest changes between spans, and ticks that cannot be stopped.
//! The run ends where all paths meet whatever they did: at the end of the recording, or in a span
//! so long that all have settled before its event. The bound is no estimate; nothing is lost.

use super::{Path, Search};
use crate::input::Span;
use torpor_machine::units::{Duration, Energy, Instant, Power};

/// Constants of one dense span.
#[derive(Clone, Copy)]
pub(super) struct Dense {
    /// Power of the rest.
    rest: Power,
    /// Latest end of a punctual path.
    punctual: Instant,
    /// `G` at the place after the span.
    margin: Energy,
}

impl Dense {
    /// Returns true if `ending`, a way past this span, surely costs no more in the end than `path`,
    /// which waits in it.
    pub(super) fn beats(&self, ending: &Path, path: &Path) -> bool {
        let later = self.rest.over(ending.now.since(path.now));
        ending.now <= self.punctual && ending.energy - later + self.margin <= path.energy
    }
}

/// Parts of the model that the bound needs.
struct Bounds<'a> {
    search: &'a Search<'a>,
    rest: usize,
    /// Longest delay after an event of a path that rests.
    punctual: Duration,
    handling: Duration,
}

impl Search<'_> {
    /// Returns the constants of each span; nothing if no span is dense.
    pub(super) fn dense(&self, spans: &[Span]) -> Vec<Option<Dense>> {
        let model = self.model;
        let rests_deep = self.credit.is_some() && self.allowed[0] == model.deepest;
        let is_unfit = self.polls() || rests_deep || self.price > Power::ZERO;
        if !self.bounds || is_unfit || self.trip.is_none() {
            return Vec::new();
        }
        let rest = &model.states[self.allowed[0]];
        let handling = model.tick_handling;
        let punctual = rest.entry_latency + rest.exit_latency + handling;
        let bounds = Bounds { search: self, rest: self.allowed[0], punctual, handling };
        let mut margin = spans.last().map(|last| bounds.at_end(last));
        let mut dense = Vec::with_capacity(spans.len());
        for (k, span) in spans.iter().enumerate().rev() {
            let before = k.checked_sub(1).map(|k| &spans[k]);
            let earliest = before.map_or(span.start, |b| b.wake + span.start.since(b.resume));
            let is_dense = bounds.is_dense(span, earliest);
            let here = margin.filter(|_| is_dense).map(|margin| Dense {
                rest: bounds.power(span.opp),
                punctual: span.wake + punctual,
                margin,
            });
            dense.push(here);
            let Some(before) = before else { break };
            let meeting = bounds.at_meeting(before, span, earliest);
            let through = here.map(|h| h.margin + bounds.through(before, span, earliest));
            margin = match (meeting, through) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        dense.reverse();
        dense
    }
}

impl Bounds<'_> {
    /// Returns the power of the rest state, which is free to enter.
    fn power(&self, opp: u16) -> Power {
        self.search.model.costs.power(opp, self.rest)
    }

    /// Returns true if no sleep here is cheaper than a rest of the same length, and no tick is.
    fn is_dense(&self, span: &Span, earliest: Instant) -> bool {
        let (model, rest) = (self.search.model, self.power(span.opp));
        let idle = span.wake.since(earliest);
        let credit = self.search.credit_about(span, earliest);
        let is_no_cheaper = |state: usize| {
            let s = &model.states[state];
            let longest = idle + s.entry_latency + s.exit_latency;
            let credit = if state == model.deepest { credit } else { Energy::ZERO };
            // A deep state's cost line that starts above the rest's and crosses it late lies above
            // it all along.
            [Duration::ZERO, longest]
                .iter()
                .all(|&time| model.costs.sleep(span.opp, state, time) >= rest.over(time) + credit)
        };
        idle >= Duration::ZERO
            && model.costs.awake(span.opp, Duration(1)) >= rest.over(Duration(1))
            && self.search.allowed.iter().all(|&state| is_no_cheaper(state))
    }

    /// Returns the margin at the end: being later there gains nothing, but was paid for.
    fn at_end(&self, last: &Span) -> Energy {
        self.power(last.opp).over(self.punctual)
    }

    /// Returns the margin in a span in which all paths sleep alike up to the event or the tick, the
    /// earlier one for longer.
    fn at_meeting(&self, before: &Span, span: &Span, earliest: Instant) -> Option<Energy> {
        let search = self.search;
        let settled = earliest + search.latest_ending + search.longest_entry;
        let tick = search.model.tick.next(earliest);
        if !before.ends_visit || settled >= span.wake || settled >= tick {
            return None;
        }
        let power = |&state: &usize| search.model.costs.power(span.opp, state);
        let most = search.allowed.iter().map(power).max().unwrap_or(Power::ZERO);
        let sooner = (most - self.power(before.opp)).over(search.latest_ending);
        let at_end = self.at_end(before);
        // The later path has less time left for a credited rest.
        let credit = search.credit.map_or(Energy::ZERO, |credit| {
            credit.between(earliest, earliest + search.latest_ending)
        });
        Some(at_end.max(sooner) + credit)
    }

    /// Returns the margin that a dense span adds: a change of the rest state's power, and ticks
    /// that the resting CPU may have to handle.
    fn through(&self, before: &Span, span: &Span, earliest: Instant) -> Energy {
        let search = self.search;
        let tick = search.model.tick.hz.tick();
        let [was, is] = [before, span].map(|s| self.power(s.opp).over(search.latest_ending));
        let change = was.max(is) - was.min(is);
        let can_stop = !span.rcu_holds_tick && span.next_wheel > span.wake + tick;
        let first = search.model.tick.floor(earliest);
        let ticks = if can_stop { 0 } else { span.wake.since(first).0 / tick.0 };
        let awake = search.model.costs.awake(span.opp, self.handling);
        let dearer = awake - self.power(span.opp).over(self.handling);
        change + Energy(dearer.0 * i128::from(ticks))
    }
}
