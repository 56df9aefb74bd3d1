// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The end of a sleep while a recording is read: its cause, and the latency since then.

use super::{CauseTime, LeftOut};
use crate::model::Verdict;
use crate::timeline::Sleep;
use torpor_machine::units::{Duration, Instant};
use torpor_trace::{FunctionId, InterruptCause, Name};

/// Cause of a sleep's end. The kinds without a name come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    Timer(FunctionId),
    /// Only the tick's timer.
    Tick,
    Irq(u32, Option<Name>),
    Ipi(InterruptCause),
    /// Another CPU gave it a task. The recording does not show whether by an IPI.
    Waking,
    /// No interrupt: a polling CPU saw `TIF_NEED_RESCHED`.
    Poll,
    Unknown,
}

/// Events of a CPU's own from the entry of a sleep until the next one, or until a task ran.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ending {
    /// The kernel's verdict, if recorded.
    pub miss: Option<Verdict>,
    /// An IPI that was sent before the sleep had not arrived.
    pub is_sent_before: bool,
    /// The recording shows the IPIs that arrive, or the machine polls in this state.
    pub shows_polling: bool,
    /// The earliest expiry of the hrtimers that ended the sleep or were due at its end.
    pub due: Option<Instant>,
    /// Entry of the first interrupt, and the last return or end of a softirq inside the state.
    pub handled: Option<Instant>,
    pub returned: Option<Instant>,
    /// Another interrupt followed the first.
    pub is_followed: bool,
    pub cause: Option<Cause>,
    /// The interrupt that ended it has not returned: its handler shows its purpose.
    pub is_in_first: bool,
}

impl Ending {
    pub(super) fn interrupted(&mut self, cause: Cause, time: Instant) {
        if self.cause.is_none() {
            self.cause = Some(cause);
            self.is_in_first = true;
            self.handled = Some(time);
        } else {
            self.is_followed |= !self.is_in_first;
        }
    }

    /// Marks the interrupt of this number as an IPI.
    pub(super) fn is_ipi(&mut self, sleep: &Sleep, number: u32) {
        if matches!(self.cause, Some(Cause::Irq(irq, _)) if irq == number) {
            let purpose = sleep.sent.map_or(InterruptCause::Other, |(_, purpose)| purpose);
            self.cause = Some(Cause::Ipi(purpose));
        }
    }

    pub(super) fn interrupt_returned(&mut self, sleep: &Sleep, time: Instant) {
        self.is_in_first = false;
        self.softirq_ended(sleep, time);
    }

    pub(super) fn softirq_ended(&mut self, sleep: &Sleep, time: Instant) {
        if sleep.exit.is_none() {
            self.returned = Some(time);
        }
    }

    /// Notes that an hrtimer expired. It is the cause if it expired in the interrupt that ended the
    /// sleep, or if the recording has no interrupts. A timer that expires with the tick replaces
    /// the tick as the cause. The hardware was armed for the earliest of all.
    pub(super) fn hrtimer(&mut self, sleep: &Sleep, cause: Cause, due: Option<Instant>) {
        let is_first = match self.cause {
            None => true,
            Some(
                Cause::Irq(..)
                | Cause::Ipi(InterruptCause::LocalTimer)
                | Cause::Tick
                | Cause::Timer(_),
            ) => self.is_in_first,
            _ => false,
        };
        let is_pending = due.zip(sleep.exit).is_some_and(|(due, exit)| due <= exit);
        if is_first || is_pending {
            self.due = self.due.into_iter().chain(due).min();
        }
        if is_first && !matches!(self.cause, Some(Cause::Timer(_))) {
            self.cause = Some(cause);
        }
    }

    /// Notes that a wheel timer expired, which the tick's interrupt handles.
    pub(super) fn wheel_timer(&mut self, cause: Cause) {
        if matches!(self.cause, None | Some(Cause::Tick)) {
            self.cause = Some(cause);
        }
    }

    /// Returns the cause. Without an interrupt it is the other CPU's event, unless that is known to
    /// have reached a CPU that polled.
    pub(super) fn cause(&self, sleep: &Sleep) -> Cause {
        match (self.cause, sleep.sent, sleep.woken) {
            (Some(cause), ..) => cause,
            (None, None, None) => Cause::Unknown,
            _ if self.shows_polling => Cause::Poll,
            (None, Some((_, purpose)), _) => Cause::Ipi(purpose),
            (None, None, Some(_)) => Cause::Waking,
        }
    }

    /// Returns the time from the cause to the exit, without that of handlers inside the state, and
    /// what shows the cause. `advertised` is the state's latency, if known.
    pub(super) fn latency(
        &self,
        sleep: &Sleep,
        advertised: Duration,
    ) -> Result<(CauseTime, Duration), LeftOut> {
        let exit = sleep.exit.ok_or(LeftOut::Unknown)?;
        let (cause, at) = self.caused(sleep)?;
        if at < sleep.entry {
            return Err(LeftOut::BeforeEntry);
        }
        if at < sleep.entry + advertised {
            return Err(LeftOut::DuringEntry);
        }
        let handled = self.handled.filter(|&handled| handled < exit);
        let inside = match handled {
            Some(handled) => self.returned.ok_or(LeftOut::Unknown)?.since(handled),
            None => Duration::ZERO,
        };
        // Then not even the order of the two is known.
        if cause == CauseTime::Interrupt && handled.is_some() {
            return Err(LeftOut::Unknown);
        }
        Ok((cause, exit.since(at) - inside))
    }

    /// Returns the event that shows when the cause came, and that time.
    fn caused(&self, sleep: &Sleep) -> Result<(CauseTime, Instant), LeftOut> {
        let sent = sleep.sent.map(|(at, _)| (CauseTime::Ipi, at));
        let called = sent.or(sleep.woken.map(|at| (CauseTime::Waking, at)));
        // A broadcast: the CPU's timer stops in the state, and another CPU's timer wakes it.
        let is_broadcast = matches!(sleep.sent, Some((_, InterruptCause::LocalTimer)));
        let shown = match self.cause(sleep) {
            _ if self.is_followed => return Err(LeftOut::SeveralCauses),
            Cause::Unknown => None,
            Cause::Timer(_) | Cause::Tick | Cause::Ipi(InterruptCause::LocalTimer)
                if is_broadcast =>
            {
                called
            }
            Cause::Timer(_)
            | Cause::Tick
            | Cause::Irq(..)
            | Cause::Ipi(InterruptCause::LocalTimer)
                if called.is_some() =>
            {
                return Err(LeftOut::SeveralCauses);
            }
            // Without interrupt events, the cause of an exit before the timer was due may be
            // invisible.
            Cause::Timer(_) | Cause::Tick => self
                .due
                .filter(|&due| self.handled.is_some() || Some(due) <= sleep.exit)
                .map(|due| (CauseTime::Timer, due)),
            _ if self.due.is_some() => return Err(LeftOut::SeveralCauses),
            Cause::Ipi(_) if self.is_sent_before => return Err(LeftOut::BeforeEntry),
            _ => called.or(self.handled.map(|handled| (CauseTime::Interrupt, handled))),
        };
        shown.ok_or(LeftOut::Unknown)
    }
}
