// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A gap in time that no recording has: a damaged time stands alone, before or after all others.

use crate::model::Event;
use torpor_machine::units::{Duration, Instant};

/// No machine goes without an event for 30 days: its watchdogs alone wake each CPU every few
/// seconds, and the largest buffer does not last so long.
pub(crate) const GAP_MAX: Duration = Duration(30 * 86_400 * 1_000_000_000);

/// Keeps what is together in time with most of the first events.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    /// The last event that was kept.
    last: Option<Instant>,
}

impl Gaps {
    /// Cuts what implausible gaps separate from the rest, of events in order of time that follow
    /// those of the calls before; how many there were.
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

/// The end of the run at `from`, which follows an event at `last`.
fn run_from(events: &[Event], from: usize, mut last: Instant) -> usize {
    let run = events.iter().skip(from).take_while(|event| {
        let follows = event.time.since(last) <= GAP_MAX;
        last = event.time;
        follows
    });
    from.saturating_add(run.count())
}

/// The run without such a gap that has most events; the first of those as long.
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
    fn the_most_events_that_are_together_stay() {
        let mut gaps = Gaps::default();
        let mut events = at(&[0, 100, 101, 131, 400]);
        assert_eq!(gaps.cut(&mut events), 2);
        assert_eq!(events, at(&[100, 101, 131]));
        // Later events are compared with those that stayed.
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
    fn a_week_of_idleness_is_none() {
        let mut events = at(&[0, 7, 30, 60]);
        assert_eq!(Gaps::default().cut(&mut events), 0);
        assert_eq!(events.len(), 4);
    }
}
