// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Intervals that hold a difference with 95 % confidence.
//!
//! For means over seeds or rounds that two governors shared: Student's interval for the paired
//! differences, in which a round's common conditions (a warm machine, a busy neighbour) drop out.
//!
//! For shares, such as 120 of 4,000 sleeps too deep: sleeps of one CPU resemble each other, so
//! 4,000 of them carry less information than 4,000 independent draws. The variance of the share
//! between CPUs (or between CPUs of several rounds), divided by that of independent draws, is the
//! design effect, and both counts are divided by it (Rao and Scott, Biometrics 48, 1992, 577-585).
//! The interval of one share is Wilson's, that of the difference Newcombe's method 10 (Statistics
//! in Medicine 17, 1998, 873-890): closed forms that are valid for small shares and counts.
//!
//! For times of matched events, whose outliers are larger than what is asked for: the shift between
//! both, by the ranks of the pairs' differences.

use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// Two-sided 95 % quantile of the normal distribution.
const Z_95: f64 = 1.959_963_984_540_054;

/// A difference and its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub difference: f64,
    pub low: f64,
    pub high: f64,
    /// The interval says which way the difference goes.
    pub is_significant: bool,
}

impl Interval {
    fn new(difference: f64, low: f64, high: f64) -> Interval {
        Interval { difference, low, high, is_significant: low > 0.0 || high < 0.0 }
    }

    pub fn half(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// Count, mean and spread of a sample: all that Student's interval of its mean needs, however large
/// it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    pub count: usize,
    pub mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
}

impl Moments {
    /// Adds a value to a sample that is not kept (Welford, Technometrics 4, 1962, 419-420).
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let gap = value - self.mean;
        self.mean += gap / self.count as f64;
        self.squares += gap * (value - self.mean);
    }

    /// Returns the standard error of the mean; `None` for less than two values.
    pub fn error(&self) -> Option<f64> {
        let error = || (self.squares / (self.count - 1) as f64 / self.count as f64).sqrt();
        (self.count > 1).then(error)
    }

    /// Returns Student's 95 % interval of the mean; `None` for less than two values.
    pub fn interval(&self) -> Option<Interval> {
        let half = half_width(self.error()?, self.count - 1);
        Some(Interval::new(self.mean, self.mean - half, self.mean + half))
    }
}

/// Sums in two passes, which lose fewer digits.
impl From<&[f64]> for Moments {
    fn from(values: &[f64]) -> Moments {
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares = values.iter().map(|d| (d - mean) * (d - mean)).sum();
        Moments { count, mean, squares }
    }
}

/// Returns half of Student's 95 % interval of an estimate with this standard error.
pub fn half_width(error: f64, freedom: usize) -> f64 {
    student(0.95, freedom) * error
}

/// Returns the interval of the mean of paired differences; two of them at least.
pub fn paired(differences: &[f64]) -> Option<Interval> {
    Moments::from(differences).interval()
}

/// The two-sided p-value of the mean difference, by Student's
/// paired test. `None` for less than two pairs.
pub fn paired_p(differences: &[f64]) -> Option<f64> {
    let found = Moments::from(differences);
    let error = found.error()?;
    if found.mean == 0.0 {
        return Some(1.0);
    }
    Some((1.0 - within(found.mean.abs() / error, differences.len() - 1)).max(0.0))
}

/// Corrects the p-values of several tests for their number by Holm's method (Scandinavian Journal
/// of Statistics 6, 1979, 65-70): the chance that any true null hypothesis falls below 5 % is at
/// most 5 %, even for dependent tests such as metrics of one run.
pub fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut adjusted = vec![1.0; chances.len()];
    let mut most = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        most = f64::max(most, (chances.len() - rank) as f64 * chances[index]).min(1.0);
        adjusted[index] = most;
    }
    adjusted
}

/// Largest number of pairs to recommend.
pub const PAIRS_MAX: usize = 10_000;
/// Power of the recommended sample: the share of such samples that show the difference.
const POWER: f64 = 0.8;

/// Returns the number of pairs that show a mean difference as large as the observed one in 80 % of
/// cases, with a test at 5 % over `tests`. `None` for no difference, and for more than
/// [`PAIRS_MAX`].
pub fn pairs_needed(differences: &[f64], tests: usize) -> Option<usize> {
    let found = Moments::from(differences);
    let (mean, error) = (found.mean, found.error()?);
    let spread = error * (differences.len() as f64).sqrt();
    let is_enough = |pairs: usize| {
        // From here on, Student's points are the normal distribution's to a thousandth.
        let freedom = (pairs - 1).min(1_000);
        let points = student(1.0 - 0.05 / tests.max(1) as f64, freedom)
            + student(2.0 * POWER - 1.0, freedom);
        mean.abs() * (pairs as f64).sqrt() >= points * spread
    };
    if mean == 0.0 || !is_enough(PAIRS_MAX) {
        return None;
    }
    let (mut few, mut enough) = (1, PAIRS_MAX);
    while enough - few > 1 {
        let middle = (few + enough) / 2;
        if is_enough(middle) { enough = middle } else { few = middle }
    }
    Some(enough)
}

/// Returns the shift of paired times: the estimate of Hodges and Lehmann, the median of the means of
/// every two differences, and its interval by Wilcoxon's signed ranks (Annals of Mathematical
/// Statistics 34, 1963, 598-611; the normal approximation with a correction for continuity). All
/// `tests` intervals together hold their shifts with 95 % confidence, by Bonferroni's inequality.
/// `None` for fewer than [`SHIFT_PAIRS_MIN`] pairs.
pub fn shift(differences: &[i64], tests: usize) -> Option<Interval> {
    if differences.len() < SHIFT_PAIRS_MIN {
        return None;
    }
    let mut sorted = differences.to_vec();
    sorted.sort_unstable();
    let pairs = sorted.len() as u64;
    let means = pairs * (pairs + 1) / 2;
    let count = pairs as f64;
    let error = (count * (count + 1.0) * (2.0 * count + 1.0) / 24.0).sqrt();
    let point = student(1.0 - 0.05 / tests.max(1) as f64, 1_000);
    let rank = ((means as f64 / 2.0 - point * error + 0.5) as u64).max(1);
    let mean = |rank: u64| nth_sum(&sorted, rank) as f64 / 2.0;
    let middle = (mean(means.div_ceil(2)) + mean(means / 2 + 1)) / 2.0;
    Some(Interval::new(middle, mean(rank), mean(means + 1 - rank)))
}

/// The fewest pairs for which signed ranks are close to normal.
pub const SHIFT_PAIRS_MIN: usize = 20;

/// Returns the sum of this rank, from 1, among those of every two sorted values, each with itself
/// included.
fn nth_sum(sorted: &[i64], rank: u64) -> i64 {
    let [first, .., last] = sorted else { return 2 * sorted[0] };
    let (mut low, mut high) = (2 * first, 2 * last);
    while low < high {
        let middle = low + (high - low) / 2;
        if sums_up_to(sorted, middle) >= rank { high = middle } else { low = middle + 1 }
    }
    low
}

/// Returns the number of sums of every two sorted values that are not above `limit`.
fn sums_up_to(sorted: &[i64], limit: i64) -> u64 {
    let (mut end, mut count) = (sorted.len(), 0);
    for (index, value) in sorted.iter().enumerate() {
        while end > 0 && value + sorted[end - 1] > limit {
            end -= 1;
        }
        count += end.saturating_sub(index) as u64;
    }
    count
}

/// The t of which this share of Student's distribution is in [-t, t].
fn student(share: f64, freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0, 16.0);
    while within(high, freedom) < share && high < 1e9 {
        high *= 2.0;
    }
    // A double has no more digits than this halves.
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if within(middle, freedom) < share { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Returns the share of Student's distribution in [-t, t] (Abramowitz and Stegun, 26.7.3 and
/// 26.7.4). It uses `libm`, so that every machine computes the same digits.
fn within(t: f64, freedom: usize) -> f64 {
    let angle = libm::atan(t / (freedom as f64).sqrt());
    let (sine, cosine) = (libm::sin(angle), libm::cos(angle));
    let is_odd = freedom % 2 == 1;
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut total = if freedom > 1 { term } else { 0.0 };
    let mut k = if is_odd { 2 } else { 1 };
    while k + 1 < freedom {
        term *= cosine * cosine * k as f64 / (k + 1) as f64;
        total += term;
        k += 2;
    }
    if is_odd { 2.0 / PI * (angle + sine * total) } else { sine * total }
}

/// Hits and tries of one CPU in one round.
pub type Cluster = (u64, u64);

/// The difference of two shares, the second minus the first; `None` if one has no tries.
pub fn shares(first: &[Cluster], second: &[Cluster]) -> Option<Interval> {
    let (p1, low1, high1) = share(first)?;
    let (p2, low2, high2) = share(second)?;
    let difference = p2 - p1;
    let low = difference - libm::hypot(p2 - low2, high1 - p1);
    let high = difference + libm::hypot(high2 - p2, p1 - low1);
    Some(Interval::new(difference, low, high))
}

pub fn share(clusters: &[Cluster]) -> Option<(f64, f64, f64)> {
    let (hits, counted) = sums(clusters);
    if counted == 0.0 {
        return None;
    }
    let share = hits / counted;
    let tries = counted / design_effect(clusters);
    let square = Z_95 * Z_95;
    let middle = share + square / (2.0 * tries);
    let half =
        Z_95 * (share * (1.0 - share) / tries + square / (4.0 * tries * tries)).max(0.0).sqrt();
    let scale = 1.0 + square / tries;
    Some((share, ((middle - half) / scale).max(0.0), ((middle + half) / scale).min(1.0)))
}

/// Returns the design effect: the variance between clusters relative to that of independent tries,
/// at least 1.
pub fn design_effect(clusters: &[Cluster]) -> f64 {
    let used: Vec<(f64, f64)> =
        clusters.iter().filter(|(_, n)| *n > 0).map(|&(x, n)| (x as f64, n as f64)).collect();
    let (hits, tries) = sums(clusters);
    let share = hits / tries;
    let independent = share * (1.0 - share) / tries;
    if used.len() < 2 || independent <= 0.0 {
        return 1.0;
    }
    let spread: f64 = used.iter().map(|(x, n)| (x - share * n) * (x - share * n)).sum();
    let count = used.len() as f64;
    let variance = count / (count - 1.0) * spread / (tries * tries);
    (variance / independent).max(1.0)
}

fn sums(clusters: &[Cluster]) -> (f64, f64) {
    let hits: u64 = clusters.iter().map(|(x, _)| x).sum();
    let tries: u64 = clusters.iter().map(|(_, n)| n).sum();
    (hits as f64, tries as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(value: f64, wanted: f64, within: f64) {
        assert!((value - wanted).abs() <= within, "{value} is not {wanted}");
    }

    /// Student's own example, ten patients and two drugs (Biometrika 6, 1908, 1-25).
    #[test]
    fn paired_differences_are_students() {
        let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| b - a).collect();
        let found = paired(&differences).unwrap();
        is_near(found.difference, 1.58, 1e-9);
        is_near(found.low, 0.7001, 5e-5);
        is_near(found.high, 2.4599, 5e-5);
        assert!(found.is_significant);
        assert!(paired(&[1.0]).is_none());
        assert!(!paired(&[0.0, 0.0]).unwrap().is_significant);
    }

    #[test]
    fn moments_need_no_sample() {
        let values = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];
        let mut streamed = Moments::default();
        values.iter().for_each(|value| streamed.add(*value));
        let (whole, found) = (paired(&values).unwrap(), streamed.interval().unwrap());
        is_near(found.difference, whole.difference, 1e-12);
        is_near(found.half(), whole.half(), 1e-12);
        assert_eq!(Moments::default().interval(), None);
    }

    /// Student's own ten patients: t = 4.062 with 9 degrees of freedom, p = 0.002833 (R's `sleep`).
    #[test]
    fn the_paired_test_is_students() {
        let differences = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];
        is_near(paired_p(&differences).unwrap(), 0.002_833, 5e-7);
        assert_eq!(paired_p(&[0.0, 0.0]), Some(1.0));
        assert_eq!(paired_p(&[1.0, 1.0]), Some(0.0));
        assert_eq!(paired_p(&[1.0]), None);
    }

    /// By the definition: all means of every two, sorted.
    #[test]
    fn an_outlier_hardly_moves_a_shift() {
        let mut differences: Vec<i64> = (0..20).collect();
        differences.push(1_000);
        let found = shift(&differences, 1).unwrap();
        let mut means: Vec<f64> = Vec::new();
        for (index, first) in differences.iter().enumerate() {
            means.extend(differences[index..].iter().map(|second| (first + second) as f64 / 2.0));
        }
        means.sort_by(f64::total_cmp);
        // 231 means. Their ranks have the mean 115.5 and the deviation 28.77: from rank 59.6 on.
        assert_eq!(found.difference, means[115]);
        assert_eq!((found.low, found.high), (means[58], means[231 - 59]));
        assert!(shift(&differences, 10).unwrap().half() > found.half());
        let same = shift(&[7; 20], 1).unwrap();
        assert_eq!((same.difference, same.low, same.high), (7.0, 7.0, 7.0));
        assert_eq!(shift(&[7; 19], 1), None);
    }

    /// By hand: 0.01 * 4, 0.02 * 3, then 0.03 * 2 = 0.06 and 0.04 * 1, which may not be less.
    #[test]
    fn holm_corrects_for_the_number_of_tests() {
        let found = holm(&[0.03, 0.01, 0.04, 0.02]);
        for (value, wanted) in found.iter().zip([0.06, 0.04, 0.06, 0.06]) {
            is_near(*value, wanted, 1e-12);
        }
        assert_eq!(holm(&[0.5]), [0.5]);
        assert!(holm(&[]).is_empty());
    }

    /// Cohen (1988), table 2.4.1, for paired means: of an effect of 0.5 standard deviations, 80 %
    /// power at 5 % takes 34 pairs (R's `power.t.test` gives 33.4); of 1.0, 10 (9.94).
    #[test]
    fn so_many_pairs_show_the_difference() {
        let spread = |mean: f64| [mean - 0.5_f64.sqrt(), mean + 0.5_f64.sqrt()];
        assert_eq!(pairs_needed(&spread(0.5), 1), Some(34));
        assert_eq!(pairs_needed(&spread(1.0), 1), Some(10));
        assert!(pairs_needed(&spread(0.5), 28) > Some(34));
        assert_eq!(pairs_needed(&[0.0, 0.0], 1), None);
        assert_eq!(pairs_needed(&spread(0.001), 1), None);
    }

    #[test]
    fn student_quantiles_match_tables() {
        for (freedom, point) in [(1, 12.706), (2, 4.303), (9, 2.262), (30, 2.042), (1000, 1.962)] {
            is_near(half_width(1.0, freedom), point, 5e-4);
        }
    }

    #[test]
    fn a_difference_of_shares_is_newcombes() {
        // Newcombe 1998, example (a).
        let found = shares(&[(48, 80)], &[(56, 70)]).unwrap();
        is_near(found.difference, 0.2, 1e-9);
        is_near(found.low, 0.0524, 5e-5);
        is_near(found.high, 0.3339, 5e-5);
        assert!(found.is_significant);
        assert_eq!(shares(&[(0, 0)], &[(1, 2)]), None);
    }

    #[test]
    fn a_share_has_wilsons_interval() {
        let (middle, low, high) = share(&[(15, 148)]).unwrap();
        is_near(middle, 0.1014, 5e-5);
        is_near(low, 0.0624, 5e-5);
        is_near(high, 0.1605, 5e-5);
    }

    #[test]
    fn diverging_clusters_raise_the_design_effect() {
        assert_eq!(design_effect(&[(30, 100), (30, 100)]), 1.0);
        is_near(design_effect(&[(10, 100), (50, 100)]), 38.1, 0.05);
    }
}
