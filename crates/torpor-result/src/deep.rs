// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Intervals in which a CPU was in its deepest state.

use serde::{Deserialize, Serialize};
use torpor_machine::units::{Duration, Instant};

/// Ordered intervals without overlap.
///
/// A governor that keeps the tick through a sleep of days makes millions of them, equally long and
/// a tick apart: those are stored as one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeepTimes {
    trains: Vec<Train>,
}

/// The same interval again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Train {
    from: Instant,
    length: Duration,
    every: Duration,
    times: i64,
}

impl Train {
    fn start(&self, index: i64) -> Instant {
        self.from + Duration(self.every.0 * index)
    }
}

impl DeepTimes {
    /// Adds an interval that begins after all others.
    #[inline]
    pub fn push(&mut self, from: Instant, to: Instant) {
        let length = to.since(from);
        if let Some(last) = self.trains.last_mut().filter(|last| last.length == length) {
            if last.times == 1 {
                last.every = from.since(last.from);
            }
            if last.start(last.times) == from {
                last.times += 1;
                return;
            }
        }
        self.trains.push(Train { from, length, every: Duration::ZERO, times: 1 });
    }

    /// Drops the intervals that end by `at`.
    pub fn drop_before(&mut self, at: Instant) {
        let mut whole = 0;
        for train in &mut self.trains {
            let first_end = train.from + train.length;
            if first_end > at {
                break;
            }
            let more = at.since(first_end).0.checked_div(train.every.0).unwrap_or(0);
            let ended = (more + 1).min(train.times);
            train.from = train.start(ended);
            train.times -= ended;
            if train.times > 0 {
                break;
            }
            whole += 1;
        }
        self.trains.drain(..whole);
    }

    pub fn iter(&self) -> impl Iterator<Item = (Instant, Instant)> {
        self.trains.iter().flat_map(|train| {
            (0..train.times).map(|index| {
                let from = train.start(index);
                (from, from + train.length)
            })
        })
    }

    /// The end of the last one.
    pub fn end(&self) -> Option<Instant> {
        self.trains.last().map(|train| train.start(train.times - 1) + train.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_intervals_are_dropped() {
        let all = [(0, 5), (10, 15), (20, 25), (40, 41), (60, 62)];
        for at in 0..64 {
            let mut times = DeepTimes::default();
            all.iter().for_each(|&(from, to)| times.push(Instant(from), Instant(to)));
            times.drop_before(Instant(at));
            let left: Vec<_> = times.iter().map(|(from, to)| (from.0, to.0)).collect();
            let expected: Vec<_> = all.iter().copied().filter(|(_, to)| *to > at).collect();
            assert_eq!(left, expected, "at {at}");
        }
    }

    #[test]
    fn intervals_keep_their_values_and_merge() {
        // Two pairs that only look like a train, then a million ticks.
        let odd = [(0, 5), (10, 15), (21, 26), (40, 41), (50, 51), (60, 62)];
        let ticks = (0..1_000_000).map(|n| (100 + n * 4, 103 + n * 4));
        let times: Vec<_> =
            odd.into_iter().chain(ticks).map(|(from, to)| (Instant(from), Instant(to))).collect();
        let mut deep = DeepTimes::default();
        times.iter().for_each(|&(from, to)| deep.push(from, to));
        assert!(deep.iter().eq(times.iter().copied()));
        assert_eq!(deep.end(), times.last().map(|(_, to)| *to));
        assert_eq!(deep.trains.len(), 5);
    }
}
