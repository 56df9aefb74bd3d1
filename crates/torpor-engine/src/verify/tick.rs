// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One CPU's tick by its timer's events: whether it runs, and its next expiry.

use torpor_machine::units::Instant;

/// Event of the tick's timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TickEvent {
    /// Part of the interrupt that handles the tick.
    Handler,
    /// The idle loop stopped the tick or reprogrammed the stopped tick's timer.
    Stopping,
    /// The idle loop was left, which restarts a stopped tick.
    Restart,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TickTimer {
    /// Expiry of the timer; `None` if it is not armed or not known.
    pub armed: Option<Instant>,
    pub is_stopped: bool,
    /// It fired while the tick ran, so the handler arms it again.
    is_handled: bool,
    /// The last event of the CPU was `tick_stop`, which the timer's next event belongs to.
    is_stopping: bool,
    /// The last event of the CPU was the timer's cancellation.
    is_cancelled: bool,
    /// State at the select call; the events that stop the tick come between it and the idle entry.
    asked: Option<(Option<Instant>, bool)>,
}

impl TickTimer {
    pub(super) fn stop(&mut self) {
        self.asked.get_or_insert((self.armed, self.is_stopped));
        self.is_stopped = true;
        self.is_stopping = true;
    }

    pub(super) fn expire(&mut self) {
        self.armed = None;
        self.is_handled = !self.is_stopped;
    }

    pub(super) fn start(&mut self, expires: Instant) -> TickEvent {
        if std::mem::take(&mut self.is_handled) {
            self.armed = Some(expires);
            return TickEvent::Handler;
        }
        // The tick's restart cancels its timer first; reprogramming a stopped tick's timer does
        // not.
        let is_restart = !self.is_stopping && (self.is_cancelled || !self.is_stopped);
        self.is_stopping = false;
        if is_restart {
            self.leave();
            self.armed = Some(expires);
            return TickEvent::Restart;
        }
        self.asked.get_or_insert((self.armed, self.is_stopped));
        self.armed = Some(expires);
        TickEvent::Stopping
    }

    pub(super) fn cancel(&mut self) {
        self.asked.get_or_insert((self.armed, self.is_stopped));
        // Stopping the tick without a next timer only cancels its timer.
        self.is_cancelled = !std::mem::take(&mut self.is_stopping);
        self.armed = None;
    }

    /// Notes an event of another kind on the CPU.
    pub(super) fn other_event(&mut self) {
        self.is_stopping = false;
        self.is_cancelled = false;
    }

    /// Notes that the idle loop was left or began again.
    pub(super) fn leave(&mut self) {
        self.is_stopped = false;
        self.asked = None;
    }

    /// Returns the timer's expiry, and whether the tick was stopped, at the select call for the
    /// coming sleep.
    pub(super) fn when_asked(&self) -> (Option<Instant>, bool) {
        self.asked.unwrap_or((self.armed, self.is_stopped))
    }

    /// Notes that the sleep has begun.
    pub(super) fn entered(&mut self) {
        self.asked = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// The handler's restart and the idle loop's differ only in the events before them.
    #[test]
    fn start_after_expiry_belongs_to_the_handler() {
        let mut tick = TickTimer { armed: Some(at(4)), ..TickTimer::default() };
        tick.expire();
        assert_eq!(tick.start(at(8)), TickEvent::Handler);
        tick.stop();
        assert_eq!(tick.start(at(300)), TickEvent::Stopping);
        assert!(tick.is_stopped);
        assert_eq!(tick.when_asked(), (Some(at(8)), false), "the governor was asked before");
        tick.entered();
        tick.other_event();
        assert_eq!(tick.when_asked(), (Some(at(300)), true));
        tick.cancel();
        assert_eq!(tick.start(at(12)), TickEvent::Restart);
        assert_eq!(tick.when_asked(), (Some(at(12)), false));
    }

    #[test]
    fn fired_stopped_tick_is_not_rearmed() {
        let mut tick = TickTimer::default();
        tick.stop();
        tick.start(at(20));
        tick.entered();
        tick.expire();
        tick.other_event();
        assert_eq!(tick.start(at(40)), TickEvent::Stopping);
        assert_eq!(tick.when_asked(), (None, true));
    }

    #[test]
    fn tick_without_a_next_timer_is_only_cancelled() {
        let mut tick = TickTimer { armed: Some(at(4)), ..TickTimer::default() };
        tick.stop();
        tick.cancel();
        tick.entered();
        tick.other_event();
        assert_eq!((tick.armed, tick.is_stopped), (None, true));
        assert_eq!(tick.start(at(80)), TickEvent::Stopping, "a timer has come since");
    }
}
