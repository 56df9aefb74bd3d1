// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Idle states in hardware: the state that driver and hardware enter in place of the requested one,
//! the events that end it, and the clock of a sleeping CPU.

use super::{Entry, IdleCpu, Pending, Spared};
use crate::input::Span;
use crate::model::{Sleep, SleepEnd, Verdict};
use crate::totals::hardware_parts;
use torpor_machine::units::{Duration, Instant};

impl IdleCpu<'_> {
    /// Returns the state that the hardware enters for a request.
    #[cold]
    pub(super) fn enter_hardware(&self, state: usize, wake: Instant) -> (Sleep, Entry) {
        let to = self.history.got(state, self.model.demotion(state));
        if to == state {
            return (self.model.sleep(state, self.now, wake, self.alarms), Entry::Entered);
        }
        let none = Spared::default();
        let (sleep, is_undemoted) =
            self.model.sleep_demoted((state, to), self.now, wake, self.alarms, none);
        (sleep, Entry::Demoted { to: to as u8, is_undemoted })
    }

    /// When a demoted CPU goes on to the state that was requested, if nothing wakes it before.
    pub fn undemoted_at(&self, pending: &Pending) -> Option<Instant> {
        self.model.undemoted_at(pending.state, pending.from)
    }

    /// The driver refuses the state, after `time`. What comes meanwhile is seen afterwards.
    #[cold]
    pub fn reject(&self, pending: &mut Pending, time: Duration) {
        let resume = pending.from + time;
        pending.entry = Entry::Rejected;
        pending.sleep = Sleep {
            resume,
            end: SleepEnd::PollTimeout,
            got_tick: self.alarms.tick <= resume,
            got_timer: self.alarms.timer <= resume,
        };
    }

    /// The event that ends the sleep comes at `wake`, earlier than was known when it began.
    pub fn interrupt(&self, pending: &mut Pending, wake: Instant) {
        if pending.is_rejected() {
            return;
        }
        let Pending { from, state, spared, .. } = *pending;
        pending.sleep = if self.model.states[state].is_polling {
            self.model.poll(from, wake, self.alarms, self.give_up)
        } else if let Entry::Demoted { to, is_undemoted } = &mut pending.entry {
            let states = (state, usize::from(*to));
            let (sleep, is_deep) =
                self.model.sleep_demoted(states, from, wake, self.alarms, spared);
            *is_undemoted = is_deep;
            sleep
        } else {
            self.model.sleep_sparing(state, from, wake, self.alarms, spared)
        };
    }

    /// Other CPUs spare this one a part of its latencies, in place of what they spared it before.
    pub fn spare(&self, pending: &mut Pending, wake: Instant, spared: Spared) {
        pending.spared = spared;
        self.interrupt(pending, wake);
    }

    /// The states that the hardware was in until `now`, one after the other, and for how long.
    pub(super) fn parts(
        &self,
        pending: &Pending,
        now: Instant,
    ) -> impl Iterator<Item = (usize, Duration)> + use<> {
        let (first, last) = pending.got();
        let undemoted_at = self.undemoted_at(pending).filter(|_| first != last);
        hardware_parts((first, pending.from), undemoted_at.map(|at| (last, at)), now)
    }

    /// Counts a sleep of hardware that demotes.
    #[cold]
    pub(super) fn slept_in_hardware(
        &mut self,
        span: &Span,
        pending: &Pending,
        to: Instant,
        verdict: Verdict,
    ) {
        let Pending { from, state, .. } = *pending;
        let Entry::Demoted { .. } = pending.entry else {
            return self.tally.slept(span.opp, state, from, to, verdict);
        };
        let parts = self.parts(pending, to);
        self.tally.slept_demoted(span.opp, state, (from, to), verdict, parts);
    }

    /// The clock goes over to another OPP in the middle of a sleep.
    pub fn change_opp(&mut self, pending: &Pending, opp: u16, next: u16, now: Instant) {
        if pending.is_rejected() {
            return;
        }
        for (state, time) in self.parts(pending, now) {
            self.tally.slept_before(opp, next, state, time);
        }
    }

    /// Nobody looks on any more: the sleep counts up to `now`, as neither too deep nor too shallow.
    pub fn cut(&mut self, span: &Span, pending: &Pending, now: Instant) {
        if pending.is_rejected() {
            return;
        }
        self.slept_in_hardware(span, pending, now, Verdict::Fit);
    }
}
