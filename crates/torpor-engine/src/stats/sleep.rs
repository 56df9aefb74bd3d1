// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One CPU's sleeps while a recording is read: the cause of each end, and the task that ran next.

use crate::model::Verdict;
use torpor_machine::units::Instant;
use torpor_trace::{Function, InterruptCause, Name};

/// Cause of a sleep's end. The kinds without a name come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    Timer(FunctionKey),
    /// Only the tick's timer.
    Tick,
    Irq(u32, Option<Name>),
    Ipi(InterruptCause),
    /// No interrupt: a polling CPU saw `TIF_NEED_RESCHED`.
    Poll,
    Unknown,
}

/// A function by its symbol, or by its address where the recording has no symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FunctionKey {
    Symbol(Name),
    Address(u64),
}

impl From<Function> for FunctionKey {
    fn from(function: Function) -> FunctionKey {
        function.symbol.map_or(FunctionKey::Address(function.address), FunctionKey::Symbol)
    }
}

/// A sleep from its entry until the next entry, or until a task ran after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleep {
    pub state: usize,
    pub entry: Instant,
    pub exit: Option<Instant>,
    /// The kernel's verdict, if recorded.
    pub miss: Verdict,
    /// Time of another CPU's event that wakes this one.
    pub called: Option<Instant>,
    /// Purpose of the first IPI sent to the CPU during the sleep.
    pub sent: Option<InterruptCause>,
    /// Expiry of the timer that ended it.
    pub due: Option<Instant>,
    /// The task that ran first after it.
    pub ran: Option<Option<Name>>,
    cause: Option<Cause>,
    /// The interrupt that ended it has not returned: its handler shows its purpose.
    is_in_first: bool,
}

impl Sleep {
    pub(super) fn new(state: usize, entry: Instant) -> Sleep {
        Sleep {
            state,
            entry,
            exit: None,
            miss: Verdict::Fit,
            called: None,
            sent: None,
            due: None,
            ran: None,
            cause: None,
            is_in_first: false,
        }
    }

    /// Returns true if the CPU was asleep at that time.
    pub(super) fn covers(&self, time: Instant) -> bool {
        self.entry <= time && self.exit.is_none_or(|exit| time <= exit)
    }

    pub(super) fn interrupted(&mut self, cause: Cause) {
        if self.cause.is_none() {
            self.cause = Some(cause);
            self.is_in_first = true;
        }
    }

    /// Marks the interrupt of this number as an IPI.
    pub(super) fn is_ipi(&mut self, number: u32) {
        if matches!(self.cause, Some(Cause::Irq(irq, _)) if irq == number) {
            self.cause = Some(Cause::Ipi(self.sent.unwrap_or(InterruptCause::Other)));
        }
    }

    pub(super) fn interrupt_returned(&mut self) {
        self.is_in_first = false;
    }

    /// Notes that an hrtimer expired. It is the cause if it expired in the interrupt that ended the
    /// sleep, or if the recording has no interrupts. A timer that expires with the tick replaces
    /// the tick as the cause.
    pub(super) fn hrtimer(&mut self, cause: Cause, due: Option<Instant>) {
        let is_first = match self.cause {
            None => true,
            Some(Cause::Irq(..) | Cause::Ipi(InterruptCause::LocalTimer) | Cause::Tick) => {
                self.is_in_first
            }
            _ => false,
        };
        if is_first {
            self.cause = Some(cause);
            self.due = due;
        }
    }

    /// Notes that a wheel timer expired, which the tick's interrupt handles.
    pub(super) fn wheel_timer(&mut self, cause: Cause) {
        if matches!(self.cause, None | Some(Cause::Tick)) {
            self.cause = Some(cause);
        }
    }

    pub(super) fn cause(&self) -> Cause {
        match (self.cause, self.called) {
            (Some(cause), _) => cause,
            (None, Some(_)) => Cause::Poll,
            (None, None) => Cause::Unknown,
        }
    }

    /// Returns the time of the event that ended the sleep, if it is within the sleep.
    pub(super) fn event(&self) -> Option<Instant> {
        let event = match self.cause() {
            Cause::Timer(_) | Cause::Tick => self.due,
            Cause::Ipi(_) | Cause::Poll => self.called,
            Cause::Irq(..) | Cause::Unknown => None,
        };
        event.filter(|&event| self.exit.is_some() && self.covers(event))
    }
}
