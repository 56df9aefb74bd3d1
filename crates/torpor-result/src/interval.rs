// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Where a difference lies with 95 % confidence.
//!
//! Of means over seeds or rounds that two governors shared: Student's interval for the paired
//! differences, in which what a round has in common (a warm machine, a busy neighbour) drops out.
//!
//! Of shares, such as 120 of 4,000 sleeps too deep: sleeps of one CPU resemble each other, so 4,000
//! of them say less than 4,000 draws of a coin would. How much less shows in how far the CPUs (or
//! the CPUs of several rounds) lie apart: their share's variance, over that of independent draws,
//! is the design effect, and both counts are divided by it (Rao and Scott, Biometrics 48, 1992,
//! 577-585). The interval of one share is Wilson's, that of the difference Newcombe's method 10
//! (Statistics in Medicine 17, 1998, 873-890): closed forms that hold for small shares and counts.

use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// Two-sided 95 % of the normal distribution.
const Z_95: f64 = 1.959_963_984_540_054;

/// A difference, and where it lies.
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

/// Of the mean of paired differences; two of them at least.
pub fn paired(differences: &[f64]) -> Option<Interval> {
    let pairs = differences.len();
    if pairs < 2 {
        return None;
    }
    let mean = differences.iter().sum::<f64>() / pairs as f64;
    let squares: f64 = differences.iter().map(|d| (d - mean) * (d - mean)).sum();
    let error = (squares / (pairs - 1) as f64 / pairs as f64).sqrt();
    let half = student_95(pairs - 1) * error;
    Some(Interval::new(mean, mean - half, mean + half))
}

/// The two-sided 95 % point of Student's distribution.
pub fn student_95(freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0, 16.0);
    // A double has no more digits than this halves.
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if within(middle, freedom) < 0.95 { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The share of Student's distribution in [-t, t]: Abramowitz and Stegun, 26.7.3 and 26.7.4. By
/// `libm`, so that every machine finds the same digits.
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

/// The difference of two shares, the second less the first; `None` where one has no tries.
pub fn shares(first: &[Cluster], second: &[Cluster]) -> Option<Interval> {
    let (p1, low1, high1) = share(first)?;
    let (p2, low2, high2) = share(second)?;
    let difference = p2 - p1;
    let low = difference - libm::hypot(p2 - low2, high1 - p1);
    let high = difference + libm::hypot(high2 - p2, p1 - low1);
    Some(Interval::new(difference, low, high))
}

/// A share and its interval.
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

/// By how much the clusters vary more than independent tries would; 1 at least.
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
    fn students_points_are_those_of_the_tables() {
        for (freedom, point) in [(1, 12.706), (2, 4.303), (9, 2.262), (30, 2.042), (1000, 1.962)] {
            is_near(student_95(freedom), point, 5e-4);
        }
    }

    /// Newcombe 1998, example (a).
    #[test]
    fn a_difference_of_shares_is_newcombes() {
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
    fn clusters_that_lie_apart_say_less() {
        assert_eq!(design_effect(&[(30, 100), (30, 100)]), 1.0);
        is_near(design_effect(&[(10, 100), (50, 100)]), 38.1, 0.05);
    }
}
