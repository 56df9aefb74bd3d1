// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Converts hrtimer times from `CLOCK_MONOTONIC` to the trace's clock, so that expiries can be
//! compared with events.
//!
//! FIDELITY(hrtimer-clock): timers of other clock bases (real time) keep their own offset.

use crate::loss::{self, Tally};
use crate::model::{Event, EventKind, Slim};
use torpor_machine::units::Instant;

#[derive(Debug, Default)]
pub(crate) struct Hrtimers {
    /// The trace's clock minus the monotonic one, if the recording states it; else it is estimated
    /// from the timers that fired.
    pub known_offset_ns: Option<i64>,
    /// Decided by the first batch with hrtimers.
    decided: Option<Decided>,
}

#[derive(Clone, Copy, Debug)]
enum Decided {
    Known(i64),
    Estimated(i64),
    /// The timers that fired contradict the clock that the recording names.
    Contradicted(i64),
    Unknown,
}

impl Hrtimers {
    /// Shifts the times of hrtimers, `hrtimers` of the events. A clock that they contradict loses
    /// its name.
    pub(crate) fn align(
        &mut self,
        events: &mut [Event],
        hrtimers: u64,
        clock: &mut String,
        losses: &mut Tally,
    ) {
        let known_ns = self.known_offset_ns.or((clock == "mono").then_some(0));
        let decided = *self.decided.get_or_insert_with(|| decide(known_ns, &delays_of(events)));
        let offset_ns = match decided {
            Decided::Known(0) => return,
            Decided::Known(offset_ns) => offset_ns,
            Decided::Estimated(offset_ns) => {
                losses.add(&loss::HRTIMER_CLOCK_ESTIMATED, hrtimers);
                offset_ns
            }
            Decided::Contradicted(offset_ns) => {
                losses.add(&loss::HRTIMER_CLOCK_CONTRADICTED, hrtimers);
                UNKNOWN_CLOCK.clone_into(clock);
                offset_ns
            }
            Decided::Unknown => return losses.add(&loss::HRTIMER_CLOCK_UNKNOWN, hrtimers),
        };
        for event in events {
            match &mut event.kind {
                EventKind::HrtimerStart { expires, softexpires, .. } => {
                    shift(expires, offset_ns);
                    shift(softexpires, offset_ns);
                }
                EventKind::HrtimerExpireEntry { now, .. } => shift(now, offset_ns),
                _ => {}
            }
        }
    }
}

const UNKNOWN_CLOCK: &str = "unknown";

/// Largest plausible delay from a timer's `now` to the event of its expiry, and the largest lead
/// of `now`, as the two clocks are read one after the other.
const DELAY_MAX_NS: i64 = 20_000_000;
const EARLY_MAX_NS: i64 = 1_000_000;

/// Fired timers needed to contradict a known offset.
const FIRED_MIN: usize = 4;
/// Divisor of the share of timers that must agree with a known offset; timers of other clock bases
/// do not.
const AGREE_DIVISOR: usize = 10;

fn decide(known_ns: Option<i64>, delays: &[i64]) -> Decided {
    let estimated = estimated(delays);
    let Some(known_ns) = known_ns else {
        return estimated.map_or(Decided::Unknown, Decided::Estimated);
    };
    let agrees = |delay: &&i64| {
        let rest = delay.saturating_sub(known_ns);
        (-EARLY_MAX_NS..=DELAY_MAX_NS).contains(&rest)
    };
    let agree = delays.iter().filter(agrees).count();
    match estimated {
        Some(offset_ns)
            if delays.len() >= FIRED_MIN && agree.saturating_mul(AGREE_DIVISOR) < delays.len() =>
        {
            Decided::Contradicted(offset_ns)
        }
        _ => Decided::Known(known_ns),
    }
}

/// Returns the delays from each timer's `now` to the event of its expiry, in ns, shortest first. The
/// two are in different clocks.
fn delays_of(events: &[Event]) -> Vec<i64> {
    let mut delays: Vec<i64> = events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::HrtimerExpireEntry { now, .. } => event.time.0.checked_sub(now.get().0),
            _ => None,
        })
        .collect();
    delays.sort_unstable();
    delays
}

/// Estimates the offset as the shortest delay: `now` is read just before the event is recorded.
/// Timers of other clock bases are hours away from the median, and ignored.
fn estimated(delays: &[i64]) -> Option<i64> {
    let median = *delays.get(delays.len() / 2)?;
    delays.iter().copied().find(|delay| median.saturating_sub(*delay) < EARLY_MAX_NS)
}

pub(crate) fn is_hrtimer(kind: &EventKind) -> bool {
    matches!(kind, EventKind::HrtimerStart { .. } | EventKind::HrtimerExpireEntry { .. })
}

fn shift(time: &mut Slim<Instant>, offset_ns: i64) {
    let instant = time.get();
    if instant != Instant::NEVER {
        *time = Instant(instant.0.saturating_add(offset_ns).max(0)).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FunctionId, Timer};
    use torpor_machine::units::CpuId;

    const SECOND_NS: i64 = 1_000_000_000;

    /// Timers that expire 2 us late, in a clock this far ahead of theirs.
    fn aligned(ahead_ns: &[i64], clock: &str) -> (Vec<Event>, String, Vec<String>) {
        let function = FunctionId(0);
        let fired = ahead_ns.iter().zip(1..).map(|(ahead, n)| {
            let now = Instant(n * SECOND_NS);
            let kind = EventKind::HrtimerExpireEntry { timer: Timer(0), function, now: now.into() };
            Event { time: Instant(now.0 + ahead + 2_000), cpu: CpuId(0), kind }
        });
        let mut events: Vec<Event> = fired.collect();
        let (mut clock, mut losses) = (clock.to_owned(), Tally::default());
        let count = events.len() as u64;
        Hrtimers::default().align(&mut events, count, &mut clock, &mut losses);
        (events, clock, losses.into_losses().into_iter().map(|loss| loss.key).collect())
    }

    #[test]
    fn timers_overrule_a_wrong_clock_name() {
        let (events, clock, losses) = aligned(&[1_000 * SECOND_NS; 8], "mono");
        assert_eq!(delays_of(&events), [0; 8]);
        assert_eq!(
            (clock.as_str(), losses.as_slice()),
            ("unknown", &["hrtimers_against_the_clock".to_owned()][..])
        );
    }

    #[test]
    fn a_clock_that_timers_confirm_stays() {
        // One timer in five is in real time, years away.
        let mut ahead = [0, 0, 0, 0, -1_700_000_000 * SECOND_NS].repeat(2);
        let (events, clock, losses) = aligned(&ahead, "mono");
        assert_eq!(delays_of(&events)[2..], [2_000; 8]);
        assert_eq!((clock.as_str(), losses.len()), ("mono", 0));
        // Three timers are too few to contradict.
        ahead = vec![1_000 * SECOND_NS; 3];
        assert_eq!(aligned(&ahead, "mono").1, "mono");
    }

    #[test]
    fn another_clock_is_estimated() {
        let (events, clock, losses) = aligned(&[3 * SECOND_NS; 3], "local");
        assert_eq!(delays_of(&events), [0; 3]);
        assert_eq!((clock.as_str(), losses[0].as_str()), ("local", "hrtimers_in_estimated_clock"));
    }
}
