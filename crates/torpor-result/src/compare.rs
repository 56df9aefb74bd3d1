// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compares columns metric by metric: values, differences from the base, and the best.
//!
//! The base is the first column that did not fail. A *change* is better or worse only if it is
//! significant: over seeds or rounds if Student's paired test is significant at 5 %, corrected by
//! Holm's method for the number of metrics in the table; without randomness if the two values read
//! differently; never with one recording, which has no measure of chance. An interval is not
//! corrected. *Best* are the governor with the best value and those that cannot be distinguished
//! from it; none, if that is all of them.

use crate::interval;
use crate::metric::{Direction, Info, Kind};
use crate::number;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const NOT_KNOWN: &str = "not known";
const FAILED: &str = "failed";

/// One compared column: a governor, under one policy.
#[derive(Clone, Debug, Deserialize)]
pub struct Column {
    pub label: String,
    /// Whether it ended early; it then has no values.
    #[serde(default)]
    pub has_failed: bool,
    /// Whether it is an oracle, which does not compete.
    #[serde(default = "yes")]
    pub competes: bool,
    pub samples: Vec<Sample>,
}

fn yes() -> bool {
    true
}

/// One seed, one round, or the whole run.
#[derive(Clone, Debug, Deserialize)]
pub struct Sample {
    /// Samples of the same number are a pair.
    pub number: u64,
    pub values: BTreeMap<String, Option<f64>>,
}

/// Unit that a sample stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// Without randomness: any difference is real.
    Exact,
    /// One draw of many, such as a recording: a difference may be chance, and nothing shows whether.
    Single,
    /// One draw of many: differences are paired by number, and may be chance.
    Paired,
}

/// The table.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Comparison {
    pub sampling: Sampling,
    /// In the order of the columns.
    pub labels: Vec<String>,
    /// The column that others are compared with; null if none finished.
    pub base: Option<usize>,
    /// The number of samples of each value.
    pub samples: usize,
    /// The number of metrics that `is_significant` is corrected for, by Holm's method: the most of
    /// any column. 0 where differences are exact.
    pub tests: usize,
    pub rows: Vec<Row>,
}

/// One metric over all columns.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Row {
    pub key: String,
    pub title: String,
    pub unit: String,
    pub kind: Kind,
    pub direction: Direction,
    pub definition: String,
    pub cells: Vec<Cell>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Cell {
    /// The mean over samples; null if unknown or failed.
    pub value: Option<f64>,
    pub text: String,
    pub has_failed: bool,
    pub is_best: bool,
    /// Against the base; null for the base itself.
    pub change: Option<Change>,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Change {
    pub difference: f64,
    /// Change relative to the base; null if the base is 0, and for a percentage, whose change is in
    /// points.
    pub relative_pct: Option<f64>,
    /// 95 %; null if the difference is exact or comes from one pair.
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub pairs: usize,
    /// The p-value of the difference, corrected for the number of metrics; null where the
    /// difference is exact, or of one pair alone.
    pub p: Option<f64>,
    /// Significant: `p` is below 0.05. Null for a single pair or recording.
    pub is_significant: Option<bool>,
    /// The number of pairs that would show a difference of this size in 80 % of cases; null where
    /// it is shown, exact, 0, or more than 10,000 would be needed.
    pub pairs_needed: Option<usize>,
    /// Null if neither direction is better, or the difference is not significant.
    pub is_better: Option<bool>,
    /// Empty where the two values read alike.
    pub text: String,
}

/// Compares columns by these metrics, in their order.
pub fn compare(metrics: &[Info], columns: &[Column], sampling: Sampling) -> Comparison {
    let base = columns.iter().position(|column| !column.has_failed);
    let lines: Vec<Line<'_>> = metrics
        .iter()
        .map(|info| Line { info, columns, sampling })
        .filter(Line::is_shown)
        .collect();
    let chances = Chances::new(&lines);
    let rows = lines.iter().enumerate().map(|(number, line)| line.row(number, base, &chances));
    let rows = rows.collect();
    let tests =
        |base: usize| (0..columns.len()).map(|other| chances.tests(base, other)).max().unwrap_or(0);
    Comparison {
        tests: base.map_or(0, tests),
        sampling,
        labels: columns.iter().map(|column| column.label.clone()).collect(),
        base,
        samples: base.map_or(0, |base| columns[base].samples.len()),
        rows,
    }
}

/// P values of each pair of columns.
struct Chances {
    columns: usize,
    /// By pair and metric, corrected for the number of metrics; `None` where there is no test.
    corrected: Vec<Vec<Option<f64>>>,
}

impl Chances {
    fn new(lines: &[Line<'_>]) -> Chances {
        let columns = lines.first().map_or(0, |line| line.columns.len());
        let pairs = (0..columns).flat_map(|a| (0..columns).map(move |b| (a, b)));
        let corrected = pairs.map(|(a, b)| if a < b { corrected(lines, a, b) } else { Vec::new() });
        Chances { columns, corrected: corrected.collect() }
    }

    fn of(&self, a: usize, b: usize) -> &[Option<f64>] {
        self.corrected.get(a.min(b) * self.columns + a.max(b)).map_or(&[], Vec::as_slice)
    }

    fn tests(&self, a: usize, b: usize) -> usize {
        self.of(a, b).iter().flatten().count()
    }
}

/// Metrics that are alike in each pair are no test: they cannot differ by chance.
fn corrected(lines: &[Line<'_>], a: usize, b: usize) -> Vec<Option<f64>> {
    let chance = |line: &Line<'_>| {
        let differences = line.paired(a, b).filter(|all| all.iter().any(|d| *d != 0.0))?;
        interval::paired_p(&differences)
    };
    let mut chances: Vec<Option<f64>> = lines.iter().map(chance).collect();
    let known: Vec<f64> = chances.iter().flatten().copied().collect();
    let mut corrected = interval::holm(&known).into_iter();
    for chance in chances.iter_mut().filter(|chance| chance.is_some()) {
        *chance = corrected.next();
    }
    chances
}

/// Chance alone would do more with one comparison in twenty.
const LEVEL: f64 = 0.05;

/// One metric of all columns.
struct Line<'a> {
    info: &'a Info,
    columns: &'a [Column],
    sampling: Sampling,
}

impl Line<'_> {
    /// An optional metric that is 0 or unknown in all columns carries no information.
    fn is_shown(&self) -> bool {
        let mut known = (0..self.columns.len()).filter_map(|index| self.mean(index));
        !self.info.is_optional || known.any(|value| value != 0.0)
    }

    fn row(&self, number: usize, base: Option<usize>, chances: &Chances) -> Row {
        let values: Vec<Option<f64>> = (0..self.columns.len()).map(|i| self.mean(i)).collect();
        let test = Test { number, chances };
        let best = self.best(&values, &test);
        let cells = values.iter().enumerate().map(|(index, value)| Cell {
            value: *value,
            text: match value {
                Some(value) => self.text(*value),
                None if self.columns[index].has_failed => FAILED.to_owned(),
                None => NOT_KNOWN.to_owned(),
            },
            has_failed: self.columns[index].has_failed,
            is_best: best.contains(&index),
            change: base.filter(|base| *base != index).and_then(|base| {
                Some(self.change((base, values[base]?), (index, (*value)?), &test))
            }),
        });
        let text = |text: &str| text.to_owned();
        Row {
            key: text(&self.info.key),
            title: text(&self.info.title),
            unit: text(&self.info.unit),
            kind: self.info.kind,
            direction: self.info.direction,
            definition: text(&self.info.definition),
            cells: cells.collect(),
        }
    }

    fn of(&self, column: usize) -> impl Iterator<Item = (u64, Option<f64>)> + '_ {
        let samples = self.columns[column].samples.iter();
        samples.map(|s| (s.number, s.values.get(self.info.key.as_ref()).copied().flatten()))
    }

    /// Not known as soon as one sample is not.
    fn mean(&self, column: usize) -> Option<f64> {
        if self.columns[column].has_failed {
            return None;
        }
        let values: Vec<f64> = self.of(column).map(|(_, value)| value).collect::<Option<_>>()?;
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    fn text(&self, value: f64) -> String {
        match self.info.kind {
            Kind::Count => number::count(value),
            _ => number::value(value),
        }
    }

    /// The second column less the first, over the samples that both have.
    fn differences(&self, first: usize, second: usize) -> Vec<f64> {
        let others: BTreeMap<u64, Option<f64>> = self.of(second).collect();
        let pairs = self.of(first).filter_map(|(n, a)| Some((*others.get(&n)?)? - a?));
        pairs.collect()
    }

    /// The differences that are draws, of at least two pairs.
    fn paired(&self, first: usize, second: usize) -> Option<Vec<f64>> {
        let differences = (self.sampling == Sampling::Paired)
            .then(|| self.differences(first, second))
            .filter(|differences| differences.len() > 1);
        differences.filter(|_| !self.columns[first].has_failed && !self.columns[second].has_failed)
    }

    /// Whether the difference is significant; `None` if there is only one pair.
    fn differs(&self, first: (usize, f64), second: (usize, f64), test: &Test<'_>) -> Option<bool> {
        match self.sampling {
            Sampling::Exact => Some(self.text(first.1) != self.text(second.1)),
            Sampling::Single => None,
            Sampling::Paired => {
                self.paired(first.0, second.0)?;
                Some(test.chance(first.0, second.0).is_some_and(|p| p < LEVEL))
            }
        }
    }

    fn change(&self, from: (usize, f64), to: (usize, f64), test: &Test<'_>) -> Change {
        let ((base, base_value), (column, value)) = (from, to);
        let differences = self.paired(base, column);
        let interval = differences.as_deref().and_then(interval::paired);
        // Samples that both have: without holes the difference of the means.
        let difference = interval.map_or(value - base_value, |i| i.difference);
        let is_significant = self.differs(from, to, test);
        let tests = test.chances.tests(base, column);
        let is_lower_better = match self.info.direction {
            Direction::Lower => Some(true),
            Direction::Higher => Some(false),
            Direction::None => None,
        };
        let half = interval.map(|i| i.half());
        let is_share = self.info.kind == Kind::Share;
        let text = if self.text(value) == self.text(base_value) {
            String::new()
        } else if is_share {
            number::points(difference, half)
        } else {
            number::change(base_value, difference, half, &self.info.unit)
        };
        Change {
            difference,
            relative_pct: (!is_share && base_value != 0.0)
                .then(|| 100.0 * difference / base_value.abs()),
            low: interval.map(|i| i.low),
            high: interval.map(|i| i.high),
            pairs: match self.sampling {
                Sampling::Exact | Sampling::Single => 1,
                Sampling::Paired => self.differences(base, column).len(),
            },
            p: differences.as_ref().map(|_| test.chance(base, column).unwrap_or(1.0)),
            is_significant,
            pairs_needed: differences
                .filter(|_| is_significant == Some(false))
                .and_then(|differences| interval::pairs_needed(&differences, tests)),
            is_better: is_lower_better
                .filter(|_| is_significant == Some(true))
                .map(|is_lower| (difference < 0.0) == is_lower),
            text,
        }
    }

    /// The competitors that no other one beats.
    fn best(&self, values: &[Option<f64>], test: &Test<'_>) -> Vec<usize> {
        let known: Vec<(usize, f64)> = values
            .iter()
            .enumerate()
            .filter(|(index, _)| self.columns[*index].competes)
            .filter_map(|(index, value)| Some((index, (*value)?)))
            .collect();
        let leader = match self.info.direction {
            Direction::Lower => known.iter().min_by(|a, b| a.1.total_cmp(&b.1)),
            Direction::Higher => known.iter().max_by(|a, b| a.1.total_cmp(&b.1)),
            Direction::None => None,
        };
        let Some(&leader) = leader else { return Vec::new() };
        let is_beaten = |one: (usize, f64)| self.differs(leader, one, test) == Some(true);
        let best: Vec<usize> =
            known.iter().filter(|one| !is_beaten(**one)).map(|(index, _)| *index).collect();
        if best.len() == known.len() { Vec::new() } else { best }
    }
}

/// The metric of this number among all of the table.
struct Test<'a> {
    number: usize,
    chances: &'a Chances,
}

impl Test<'_> {
    fn chance(&self, first: usize, second: usize) -> Option<f64> {
        self.chances.of(first, second).get(self.number).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn info(key: &'static str, kind: Kind, direction: Direction) -> Info {
        Info {
            key: Cow::Borrowed(key),
            title: Cow::Borrowed(key),
            unit: Cow::Borrowed(if kind == Kind::Share { "%" } else { "" }),
            kind,
            direction,
            definition: Cow::Borrowed(""),
            is_optional: false,
            lead: Default::default(),
        }
    }

    fn column(label: &str, key: &str, values: &[f64]) -> Column {
        let samples = values.iter().enumerate().map(|(number, value)| Sample {
            number: number as u64,
            values: [(key.to_owned(), Some(*value))].into(),
        });
        Column {
            label: label.to_owned(),
            has_failed: false,
            competes: true,
            samples: samples.collect(),
        }
    }

    fn texts(row: &Row) -> Vec<&str> {
        row.cells.iter().map(|c| c.change.as_ref().map_or("", |change| &change.text)).collect()
    }

    /// The published table (LKML, 15 Sep 2022, Pixel 6) has −10.17 % and −1.71 %, from power values
    /// that were rounded later.
    #[test]
    fn one_recording_has_changes_and_no_best() {
        let power = info("idle_power_mw", Kind::Power, Direction::Lower);
        let one = |label: &str, mw| column(label, "idle_power_mw", &[mw]);
        let columns = [one("menu", 209.1), one("teo", 187.8), one("shallowest", 205.5)];
        let found = |sampling| compare(std::slice::from_ref(&power), &columns, sampling);
        let best = |found: &Comparison| -> Vec<bool> {
            found.rows[0].cells.iter().map(|cell| cell.is_best).collect()
        };
        let change = |found: &Comparison| found.rows[0].cells[1].change.clone().unwrap();
        let (single, exact) = (found(Sampling::Single), found(Sampling::Exact));
        assert_eq!(texts(&single.rows[0]), ["", "−10.19 %", "−1.72 %"]);
        assert_eq!((best(&single), change(&single).is_better), (vec![false; 3], None));
        assert_eq!((change(&single).is_significant, change(&single).p), (None, None));
        // The same values without randomness.
        assert_eq!(
            (best(&exact), change(&exact).is_better),
            (vec![false, true, false], Some(true))
        );
    }

    /// 8, 0 and 0 missed periods against 8, 3 and 1: means 2.67 and 4, of which no rounding may
    /// come into the change; and three seeds that lie so far apart tell nothing.
    #[test]
    fn noise_has_no_best() {
        let missed = info("missed_periods", Kind::Count, Direction::Lower);
        let columns = [
            column("menu", "missed_periods", &[8.0, 3.0, 1.0]),
            column("teo", "missed_periods", &[8.0, 0.0, 0.0]),
        ];
        let found = compare(&[missed], &columns, Sampling::Paired);
        let row = &found.rows[0];
        let change = row.cells[1].change.as_ref().unwrap();
        assert_eq!((row.cells[0].text.as_str(), row.cells[1].text.as_str()), ("4", "2.67"));
        assert!((change.relative_pct.unwrap() + 100.0 / 3.0).abs() < 1e-9);
        assert!(change.text.starts_with("−33.3 ±"), "{}", change.text);
        assert_eq!((change.is_significant, change.is_better, change.pairs), (Some(false), None, 3));
        assert!(row.cells.iter().all(|cell| !cell.is_best));
    }

    #[test]
    fn ties_with_the_best_share_its_place() {
        let power = info("power_mw", Kind::Power, Direction::Lower);
        let columns = [
            column("menu", "power_mw", &[200.0, 202.0, 201.0]),
            column("teo", "power_mw", &[100.0, 103.0, 101.0]),
            column("mine", "power_mw", &[102.0, 101.0, 102.0]),
        ];
        let row = &compare(&[power], &columns, Sampling::Paired).rows[0];
        assert_eq!(row.cells.iter().map(|c| c.is_best).collect::<Vec<_>>(), [false, true, true]);
    }

    /// Differences of 1, 2 and 3: t = 3.46 with 2 degrees of freedom, p = 0.0742. Of 9, 10 and 11:
    /// t = 17.3, p = 0.00332, which 20 metrics turn into 0.0664.
    #[test]
    fn a_metric_among_many_needs_more_evidence() {
        let keys: Vec<String> = (0..20).map(|n| format!("m{n}")).collect();
        let infos: Vec<Info> = keys
            .iter()
            .map(|key| Info {
                key: Cow::Owned(key.clone()),
                ..info("", Kind::Power, Direction::Lower)
            })
            .collect();
        let sample = |number: u64, strong: f64, weak: f64| Sample {
            number,
            values: keys
                .iter()
                .map(|key| (key.clone(), Some(if key == "m0" { strong } else { weak })))
                .collect(),
        };
        let columns = |count: u64| {
            let mut columns = [column("a", "", &[]), column("b", "", &[])];
            columns[0].samples = (0..count).map(|n| sample(n, 20.0, 20.0)).collect();
            columns[1].samples = (0..count)
                .map(|n| sample(n, 29.0 + (n % 3) as f64, 21.0 + (n % 3) as f64))
                .collect();
            columns
        };
        let alone = compare(&infos[..1], &columns(3), Sampling::Paired);
        let among = compare(&infos, &columns(3), Sampling::Paired);
        let change = |found: &Comparison| found.rows[0].cells[1].change.clone().unwrap();
        assert_eq!((alone.tests, change(&alone).is_significant), (1, Some(true)));
        assert_eq!((among.tests, change(&among).is_significant), (20, Some(false)));
        assert!((change(&among).p.unwrap() - 20.0 * change(&alone).p.unwrap()).abs() < 1e-12);
        // It says how many pairs are enough, and that many are.
        let needed = change(&among).pairs_needed.unwrap();
        assert_eq!((change(&alone).pairs_needed, needed), (None, 4));
        let enough = compare(&infos, &columns(6), Sampling::Paired);
        assert_eq!(change(&enough).is_significant, Some(true));
        // Metrics that are alike are no tests.
        let alike = [columns(3)[0].clone(), columns(3)[0].clone()];
        assert_eq!(compare(&infos, &alike, Sampling::Paired).tests, 0);
    }

    #[test]
    fn a_table_without_metrics_has_no_tests() {
        let columns = [column("a", "m", &[1.0, 2.0]), column("b", "m", &[1.0, 2.0])];
        let found = compare(&[], &columns, Sampling::Paired);
        assert_eq!((found.tests, found.base, found.rows.len()), (0, Some(0), 0));
    }

    #[test]
    fn one_seed_tells_nothing() {
        let power = info("power_mw", Kind::Power, Direction::Lower);
        let columns = [column("a", "power_mw", &[2.0]), column("b", "power_mw", &[1.0])];
        let row = &compare(&[power], &columns, Sampling::Paired).rows[0];
        let change = row.cells[1].change.as_ref().unwrap();
        assert_eq!((change.text.as_str(), change.is_significant), ("−50.00 %", None));
        assert!(change.is_better.is_none() && !row.cells[1].is_best);
    }

    #[test]
    fn next_column_replaces_a_failed_base() {
        let above = info("above_pct", Kind::Share, Direction::Lower);
        let mut columns = [
            column("mine", "above_pct", &[]),
            column("menu", "above_pct", &[16.64]),
            column("teo", "above_pct", &[9.61]),
        ];
        columns[0].has_failed = true;
        let found = compare(&[above], &columns, Sampling::Exact);
        assert_eq!(found.base, Some(1));
        let cells = &found.rows[0].cells;
        assert_eq!((cells[0].text.as_str(), cells[0].has_failed), ("failed", true));
        assert!(cells[0].change.is_none() && cells[1].change.is_none());
        assert_eq!(texts(&found.rows[0])[2], "−7.03 pp");
    }

    #[test]
    fn equal_looking_values_tie_and_oracle_is_out() {
        let energy = info("idle_energy_uj", Kind::Energy, Direction::Lower);
        let one = |label: &str, uj| column(label, "idle_energy_uj", &[uj]);
        let mut columns = [
            one("menu", 1000.01),
            one("teo", 1000.02),
            one("deepest", 1200.0),
            one("oracle", 900.0),
        ];
        columns[3].competes = false;
        let row = &compare(&[energy], &columns, Sampling::Exact).rows[0];
        assert_eq!(texts(row)[1], "");
        assert_eq!(row.cells[1].change.as_ref().unwrap().is_better, None);
        let best: Vec<bool> = row.cells.iter().map(|c| c.is_best).collect();
        assert_eq!(best, [true, true, false, false]);
    }
}
