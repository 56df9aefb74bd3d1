// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What a handful of seeds can say about a difference.

use serde::Serialize;

/// The mean of paired differences, and where it lies with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
    pub pairs: usize,
}

impl Interval {
    /// By Student's t; two differences at least.
    pub fn of(differences: &[f64]) -> Option<Interval> {
        let pairs = differences.len();
        if pairs < 2 {
            return None;
        }
        let mean = differences.iter().sum::<f64>() / pairs as f64;
        let squares: f64 = differences.iter().map(|d| (d - mean) * (d - mean)).sum();
        let error = (squares / (pairs - 1) as f64 / pairs as f64).sqrt();
        let half = t_975(pairs - 1) * error;
        Some(Interval { mean, low: mean - half, high: mean + half, pairs })
    }

    /// It says which way the difference goes.
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// The t distribution's 97.5 % point for 1 to 30 degrees of freedom.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

fn t_975(freedom: usize) -> f64 {
    // Beyond the table, the first terms of Fisher's expansion about the normal point.
    const Z: f64 = 1.959_964;
    T_975.get(freedom - 1).copied().unwrap_or_else(|| {
        let n = freedom as f64;
        let (z3, z5) = (Z.powi(3), Z.powi(5));
        Z + (z3 + Z) / (4.0 * n) + (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / (96.0 * n * n)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_the_textbooks() {
        // Mean 3, standard deviation 1.5811, standard error 0.7071, t(4) = 2.776.
        let interval = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(interval.mean, 3.0);
        assert!((interval.high - (3.0 + 2.776 * 0.5f64.sqrt())).abs() < 1e-9);
        assert!(interval.excludes_zero());
        assert!(Interval::of(&[1.0]).is_none());
        let same = Interval::of(&[0.0, 0.0]).unwrap();
        assert!(!same.excludes_zero());
    }

    #[test]
    fn the_expansion_meets_the_table() {
        assert!((t_975(31) - 2.0395).abs() < 5e-4);
        assert!((t_975(100) - 1.9840).abs() < 5e-4);
    }
}
