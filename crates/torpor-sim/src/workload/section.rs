// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Sections of a load, which follow one another and repeat, each with its own tasks and interrupts.

use super::keys::TIME;
use super::names::Names;
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
        let mut begin = from.0 - from.0.rem_euclid(self.cycle.0) + cycles * self.cycle.0;
        let mut at = from.0 + cycles * self.cycle.0;
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

/// Names of the sections, with their begins and ends.
#[derive(Default)]
pub(super) struct Sections {
    all: Vec<(String, Duration, Duration)>,
}

impl Sections {
    pub(super) fn read(report: &mut Report, tables: &[Table], names: &mut Names) {
        let mut sections = Sections::default();
        for table in tables {
            let (Some(name), Some(us)) = (table.text("name"), table.number("duration_us")) else {
                continue;
            };
            let begin = sections.cycle();
            let length = super::read::from_us(us);
            if length == Duration::ZERO {
                report.push(table.finding("duration_us", "the section has no length".to_owned()));
            } else if sections.all.iter().any(|(known, ..)| known == name) {
                report.push(table.finding("name", "another section has this name".to_owned()));
            } else {
                sections.all.push((name.to_owned(), begin, begin + length));
            }
        }
        names.sections = sections;
    }

    fn cycle(&self) -> Duration {
        self.all.last().map_or(Duration::ZERO, |(.., end)| *end)
    }

    /// Returns the time of a task or an interrupt that some sections have.
    pub(super) fn during(&self, report: &mut Report, table: &Table) -> Option<During> {
        let mut windows = Vec::new();
        for name in table.texts("during") {
            match self.all.iter().find(|(known, ..)| known == name) {
                Some((_, begin, end)) => windows.push((*begin, *end)),
                None => {
                    let message = format!("there is no section `{name}`");
                    let mut finding = table.finding("during", message);
                    let known: Vec<&str> = self.all.iter().map(|(name, ..)| &name[..]).collect();
                    finding.allowed = Some(match known.is_empty() {
                        true => "names of `[[section]]`, of which the file has none".to_owned(),
                        false => known.join(", "),
                    });
                    report.push(finding);
                }
            }
        }
        windows.sort();
        windows.dedup();
        (!windows.is_empty()).then(|| During { cycle: self.cycle(), windows })
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
        // Steps of 1 add up to one long step.
        let mut now = Instant(7);
        for length in 1..=123 {
            now = own.after(now, Duration(1));
            assert_eq!(now, own.after(Instant(7), Duration(length)), "{length}");
        }
    }
}
