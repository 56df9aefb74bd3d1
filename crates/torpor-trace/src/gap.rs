// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Implausible gaps in time. A damaged time is far before or after all others.

use crate::model::Event;
use torpor_machine::units::{Duration, Instant};

/// The longest plausible gap: watchdogs alone wake each CPU every few seconds, and no ring buffer
/// lasts 30 days.
pub(crate) const GAP_MAX: Duration = Duration(30 * 86_400 * 1_000_000_000);

/// Drops the events that an implausible gap separates from most of the first ones.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    /// Time of the last event that was kept.
    last: Option<Instant>,
}

impl Gaps {
    /// Drops separated events, and returns their number. Events are in order of time and follow
    /// those of earlier calls.
    pub(crate) fn cut(&mut self, events: &mut Vec<Event>) -> u64 {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return 0 };
        let begins_at = self.last.unwrap_or(first.time);
        if last.time.since(begins_at) <= GAP_MAX {
            self.last = Some(last.time);
            return 0;
        }
        let (from, to) = match self.last {
            None => longest_run(events),
            Some(last) => (0, run_from(events, 0, last)),
        };
        let count = events.len() as u64;
        events.truncate(to);
        events.drain(..from);
        self.last = events.last().map(|event| event.time).or(self.last);
        count.saturating_sub(events.len() as u64)
    }
}

/// Returns the end of the run at `from`, which follows an event at `last`.
fn run_from(events: &[Event], from: usize, mut last: Instant) -> usize {
    let run = events.iter().skip(from).take_while(|event| {
        let follows = event.time.since(last) <= GAP_MAX;
        last = event.time;
        follows
    });
    from.saturating_add(run.count())
}

/// Returns the run without a gap that has most events, the first one on a tie.
fn longest_run(events: &[Event]) -> (usize, usize) {
    let (mut longest, mut from) = ((0_usize, 0_usize), 0);
    while let Some(first) = events.get(from) {
        let to = run_from(events, from, first.time);
        if to.saturating_sub(from) > longest.1.saturating_sub(longest.0) {
            longest = (from, to);
        }
        from = to;
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::EventKind;
    use torpor_machine::units::{CpuId, StateIdx};

    const DAY: i64 = 86_400_000_000_000;

    fn at(days: &[i64]) -> Vec<Event> {
        let kind = EventKind::CpuIdle { state: StateIdx(0) };
        days.iter().map(|d| Event { time: Instant(d * DAY), cpu: CpuId(0), kind }).collect()
    }

    #[test]
    fn the_largest_run_stays() {
        let mut gaps = Gaps::default();
        let mut events = at(&[0, 100, 101, 131, 400]);
        assert_eq!(gaps.cut(&mut events), 2);
        assert_eq!(events, at(&[100, 101, 131]));
        // Later events are compared with the last one kept.
        let mut events = at(&[161, 162, 500, 501, 502]);
        assert_eq!(gaps.cut(&mut events), 3);
        assert_eq!(events, at(&[161, 162]));
        let mut events = at(&[503, 504]);
        assert_eq!(gaps.cut(&mut events), 2);
        assert!(events.is_empty());
        let mut events = at(&[192]);
        assert_eq!(gaps.cut(&mut events), 0);
    }

    #[test]
    fn thirty_days_are_no_gap() {
        let mut events = at(&[0, 7, 30, 60]);
        assert_eq!(Gaps::default().cut(&mut events), 0);
        assert_eq!(events.len(), 4);
    }
}
