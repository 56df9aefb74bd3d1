// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Moves hrtimer times from `CLOCK_MONOTONIC`, in which the kernel keeps them, to the trace's
//! clock, so that an expiry can be compared with an event.
//!
//! FIDELITY(hrtimer-clock): timers of other clock bases (real time) keep their own offset.

use crate::loss::{self, Tally};
use crate::model::{Event, EventKind};
use torpor_units::Instant;

#[derive(Debug, Default)]
pub(crate) struct Hrtimers {
    /// The trace's clock minus the monotonic one, as the recording has it; else it is read off the
    /// timers that fired.
    pub known_offset_ns: Option<i64>,
    /// Settled by the first hrtimers that are met.
    decided: Option<Decided>,
}

#[derive(Clone, Copy, Debug)]
enum Decided {
    InTraceClock,
    Known(i64),
    Estimated(i64),
    Unknown,
}

impl Hrtimers {
    /// `hrtimers` of the events are such.
    pub(crate) fn align(
        &mut self,
        events: &mut [Event],
        hrtimers: u64,
        clock: &str,
        losses: &mut Tally,
    ) {
        let decided = *self.decided.get_or_insert_with(|| match self.known_offset_ns {
            Some(offset_ns) => Decided::Known(offset_ns),
            None if clock == "mono" => Decided::InTraceClock,
            None => estimated(events).map_or(Decided::Unknown, Decided::Estimated),
        });
        let offset_ns = match decided {
            Decided::InTraceClock | Decided::Known(0) => return,
            Decided::Known(offset_ns) => offset_ns,
            Decided::Estimated(offset_ns) => {
                losses.add(&loss::HRTIMER_CLOCK_ESTIMATED, hrtimers);
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

/// A timer's `now` was taken just before the event of its firing. The least delay between the two
/// is the closest to none. Timers of other clocks are hours away from the median, and left out.
fn estimated(events: &[Event]) -> Option<i64> {
    let mut offsets: Vec<i64> = events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::HrtimerExpireEntry { now, .. } => event.time.0.checked_sub(now.0),
            _ => None,
        })
        .collect();
    offsets.sort_unstable();
    let median = *offsets.get(offsets.len() / 2)?;
    offsets.into_iter().find(|offset| median.saturating_sub(*offset) < 1_000_000)
}

pub(crate) fn is_hrtimer(kind: &EventKind) -> bool {
    matches!(kind, EventKind::HrtimerStart { .. } | EventKind::HrtimerExpireEntry { .. })
}

fn shift(instant: &mut Instant, offset_ns: i64) {
    if *instant != Instant::NEVER {
        instant.0 = instant.0.saturating_add(offset_ns).max(0);
    }
}
