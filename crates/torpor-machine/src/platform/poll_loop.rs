// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Times at which a polling loop notices work, and its time limit.

use crate::units::{Duration, Instant};

/// Poll loop of a polling state, and when it reads the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollLoop {
    /// `poll_idle()` of `drivers/cpuidle/poll_state.c`: work is noticed after each relaxation, the
    /// time is checked after every [`PollLoop::RELAX_COUNT`].
    PollIdle { relax: Duration },
    /// `arm_poll_idle`, as posted for arm64 in April 2024: waits for an event (`wfe`), which work
    /// is, and otherwise checks the time when the timer's event stream wakes it; without one
    /// `wfet` does, exactly at the limit.
    ArmPollIdle { event_stream: Option<Duration> },
}

impl PollLoop {
    /// The kernel's `POLL_IDLE_RELAX_COUNT` is 200, compared after counting.
    pub const RELAX_COUNT: i64 = 201;

    /// Returns the time at which a loop that began at `from` sees the task that is there since `wake`.
    #[inline]
    pub fn notices(self, from: Instant, wake: Instant) -> Instant {
        match self {
            PollLoop::PollIdle { relax } => next(from, wake, relax),
            // The loop waits for the write that makes the task visible.
            PollLoop::ArmPollIdle { .. } => wake,
        }
    }

    /// Returns the time at which a loop that began at `from` gives up: it checks the time only now and
    /// then.
    #[inline]
    pub fn gives_up(self, from: Instant, limit: Duration) -> Instant {
        // Governors may set any limit.
        let limit = limit.0.clamp(0, i64::MAX / 4);
        let up = Instant(from.0.saturating_add(limit));
        match self {
            PollLoop::PollIdle { relax: Duration::ZERO } => up,
            PollLoop::PollIdle { relax } => {
                let check = Duration(relax.0.saturating_mul(PollLoop::RELAX_COUNT));
                // More time than the limit must have passed.
                next(from, Instant(up.0.saturating_add(1)), check)
            }
            // FIDELITY(event-stream): its phase is the hardware counter's, which no recording shows.
            PollLoop::ArmPollIdle { event_stream: Some(period) } => next(Instant(0), up, period),
            PollLoop::ArmPollIdle { event_stream: None } => up,
        }
    }
}

/// Returns the first of the times `from`, `from` + `period`, ... that is not before `time`.
#[inline]
fn next(from: Instant, time: Instant, period: Duration) -> Instant {
    if period <= Duration::ZERO {
        return time;
    }
    let over = time.0.saturating_sub(from.0).rem_euclid(period.0);
    let left = if over == 0 { 0 } else { period.0.saturating_sub(over) };
    Instant(time.0.saturating_add(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: Instant = Instant(1_000_030);
    const LIMIT: Duration = Duration::from_us(20);

    #[test]
    fn poll_idle_checks_the_limit_every_201_rounds() {
        let poll_idle = PollLoop::PollIdle { relax: Duration(40) };
        let after = |ns: i64| poll_idle.notices(FROM, FROM + Duration(ns)).since(FROM).0;
        assert_eq!((after(0), after(1), after(40), after(41)), (0, 40, 40, 80));
        // A check every 8.04 us: 20 us are over at the third.
        assert_eq!(poll_idle.gives_up(FROM, LIMIT), FROM + Duration(3 * 8_040));
        // If a check falls exactly on the limit, the loop continues.
        assert_eq!(poll_idle.gives_up(FROM, Duration(8_040)), FROM + Duration(2 * 8_040));
        assert_eq!(poll_idle.gives_up(FROM, Duration::ZERO), FROM + Duration(8_040));
    }

    #[test]
    fn arm_poll_idle_checks_at_stream_events() {
        let arm = PollLoop::ArmPollIdle { event_stream: Some(Duration::from_us(100)) };
        assert_eq!(arm.notices(FROM, FROM + Duration(7)), FROM + Duration(7));
        // 1000.03 us + 20 us: the stream's events are at 1000, 1100, ... us.
        assert_eq!(arm.gives_up(FROM, LIMIT), Instant(1_100_000));
        assert_eq!(arm.gives_up(Instant(1_080_000), LIMIT), Instant(1_100_000));
        assert_eq!(arm.gives_up(Instant(1_080_001), LIMIT), Instant(1_200_000));
    }

    #[test]
    fn with_wfet_the_limit_is_exact() {
        let arm = PollLoop::ArmPollIdle { event_stream: None };
        assert_eq!(arm.notices(FROM, FROM + Duration(7)), FROM + Duration(7));
        assert_eq!(arm.gives_up(FROM, LIMIT), FROM + LIMIT);
        assert!(arm.gives_up(FROM, Duration::MAX) > Instant(i64::MAX / 8));
    }

    #[test]
    fn huge_limits_and_zero_periods_are_harmless() {
        for period in [0, 47, 100_000] {
            let period = Duration(period);
            let loops = [
                PollLoop::PollIdle { relax: period },
                PollLoop::ArmPollIdle { event_stream: Some(period) },
            ];
            for poll_loop in loops {
                assert!(poll_loop.gives_up(FROM, Duration::MAX) > Instant(i64::MAX / 8));
                assert!(poll_loop.gives_up(FROM, LIMIT) >= FROM + LIMIT);
            }
        }
    }
}
