// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Sections of a load, which follow one another and repeat, each with its own tasks and interrupts.

use super::keys::TIME;
use super::read::from_us;
use torpor_machine::shape;
use torpor_machine::toml::{Kind, Report, Shape, Table};
use torpor_machine::units::{Duration, Instant};

pub(super) static SECTION: Shape = shape! {
    required name: Kind::Word, "Its name, as `during` has it.";
    required duration_us: TIME, "Its length.";
};

/// The time of some sections of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct During {
    /// Length of all sections together.
    cycle: Duration,
    /// Begin and end of each of them, from the begin of a cycle, in order; not empty.
    windows: Vec<(Duration, Duration)>,
}

impl During {
    /// Returns the time at which the sections have lasted for `length` since `from`.
    pub fn after(&self, from: Instant, length: Duration) -> Instant {
        let own: i64 = self.windows.iter().map(|(begin, end)| end.0 - begin.0).sum();
        let cycles = length.0 / own;
        let mut left = length.0 % own;
        let Some(skipped) = cycles.checked_mul(self.cycle.0) else { return Instant::NEVER };
        let from = from + Duration(skipped);
        if from.0 > i64::MAX - 2 * self.cycle.0 {
            return Instant::NEVER;
        }
        let mut begin = from.0 - from.0.rem_euclid(self.cycle.0);
        let mut at = from.0;
        loop {
            for (window_begin, window_end) in &self.windows {
                at = at.max(begin + window_begin.0);
                let lasts = begin + window_end.0 - at;
                if lasts > left {
                    return Instant(at + left);
                }
                left -= lasts.max(0);
            }
            begin += self.cycle.0;
        }
    }
}

/// Returns the begin and the end of each section from the begin of a cycle.
pub(super) fn read(report: &mut Report, tables: &[Table]) -> Vec<(Duration, Duration)> {
    let mut spans: Vec<(Duration, Duration)> = Vec::new();
    for table in tables {
        let begin = spans.last().map_or(Duration::ZERO, |(_, end)| *end);
        let length = from_us(table.number("duration_us").unwrap_or_default());
        if length == Duration::ZERO && table.has("duration_us") {
            report.push(table.finding("duration_us", "the section has no length".to_owned()));
        }
        spans.push((begin, begin + length));
    }
    spans
}

impl During {
    /// Returns the time of sections by their numbers among all; none for no section.
    pub(super) fn new(spans: &[(Duration, Duration)], numbers: &[usize]) -> Option<During> {
        let mut windows: Vec<_> = numbers.iter().map(|number| spans[*number]).collect();
        windows.retain(|(begin, end)| begin < end);
        windows.sort();
        windows.dedup();
        let cycle = spans.last()?.1;
        (!windows.is_empty()).then_some(During { cycle, windows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn during(windows: &[(i64, i64)]) -> During {
        let windows = windows.iter().map(|(a, b)| (Duration(*a), Duration(*b))).collect();
        During { cycle: Duration(100), windows }
    }

    #[test]
    fn time_passes_in_its_own_sections_alone() {
        let own = during(&[(0, 30), (60, 70)]);
        let at = |from, length| own.after(Instant(from), Duration(length)).0;
        assert_eq!([at(0, 0), at(10, 19), at(10, 20), at(35, 0)], [0, 29, 60, 60]);
        assert_eq!([at(65, 4), at(65, 5), at(99, 29), at(99, 30)], [69, 100, 129, 160]);
        assert_eq!([at(10, 40), at(10, 400)], [110, 1010]);
        // An hour in sections of 1 ns each is beyond all time.
        let seldom =
            During { cycle: Duration(3_600_000_000_000), windows: during(&[(0, 1)]).windows };
        assert_eq!(seldom.after(Instant(5), Duration(3_600_000_000_000)), Instant::NEVER);
        assert_eq!(own.after(Instant::NEVER, Duration(1)), Instant::NEVER);
        // Steps of 1 add up to one long step.
        let mut now = Instant(7);
        for length in 1..=123 {
            now = own.after(now, Duration(1));
            assert_eq!(now, own.after(Instant(7), Duration(length)), "{length}");
        }
    }
}
