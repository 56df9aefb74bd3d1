// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Random lengths of time. The functions are `libm`'s, which give the same bits on every
//! machine; those of the system's C library do not.

use super::stream::Stream;
use torpor_machine::toml::Distribution;
use torpor_machine::units::Duration;

/// An hour: longer draws are cut to this. Only the tails of distributions get there.
pub(crate) const LONGEST_NS: f64 = 3.6e12;

/// A distribution of lengths of time. Parameters are in ns.
#[derive(Clone, Debug, PartialEq)]
pub enum Dist {
    Constant(Duration),
    Uniform {
        min: f64,
        max: f64,
    },
    Exponential {
        mean: f64,
    },
    /// Log-normal: mean and standard deviation of the logarithm.
    LogNormal {
        mu: f64,
        sigma: f64,
    },
    /// A width that is negligible compared to the mean has an infinite shape and scale 0; draws
    /// are then the mean.
    Gamma {
        mean: f64,
        shape: f64,
        scale: f64,
    },
    /// Values, each with the share of draws that are at or below it.
    Empirical {
        values: Vec<(f64, f64)>,
    },
}

/// From us, as files have it, to ns.
impl From<&Distribution> for Dist {
    fn from(distribution: &Distribution) -> Dist {
        match distribution {
            Distribution::Constant(us) => Dist::Constant(Duration((us * 1e3).round() as i64)),
            Distribution::Uniform { min, max } => Dist::Uniform { min: min * 1e3, max: max * 1e3 },
            Distribution::Exponential { mean } => Dist::Exponential { mean: mean * 1e3 },
            Distribution::LogNormal { mean, sd } => Dist::log_normal(mean * 1e3, sd * 1e3),
            Distribution::Gamma { mean, sd } => Dist::gamma(mean * 1e3, sd * 1e3),
            Distribution::Empirical { values, weights } => {
                let values: Vec<f64> = values.iter().map(|us| us * 1e3).collect();
                Dist::empirical(&values, weights)
            }
        }
    }
}

impl Dist {
    pub fn log_normal(mean: f64, sd: f64) -> Dist {
        let ratio = (sd / mean).min(f64::MAX);
        // The square of a large ratio is no number; its logarithm is.
        let variance = match ratio * ratio {
            square if square.is_finite() => libm::log1p(square),
            _ => 2.0 * libm::log(ratio),
        };
        Dist::LogNormal { mu: libm::log(mean) - variance / 2.0, sigma: libm::sqrt(variance) }
    }

    pub fn gamma(mean: f64, sd: f64) -> Dist {
        Dist::Gamma { mean, shape: (mean / sd) * (mean / sd), scale: sd * sd / mean }
    }

    /// `weights` has one entry per value, none negative, and not all 0.
    pub fn empirical(values: &[f64], weights: &[f64]) -> Dist {
        let mut values: Vec<(f64, f64)> =
            values.iter().copied().zip(weights.iter().copied()).collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let whole: f64 = weights.iter().sum();
        let mut sum = 0.0;
        for value in &mut values {
            sum += value.1;
            value.1 = sum / whole;
        }
        Dist::Empirical { values }
    }

    /// Whether every draw is 0.
    pub fn is_zero(&self) -> bool {
        match self {
            Dist::Constant(length) => *length == Duration::ZERO,
            Dist::Uniform { max, .. } => *max < 0.5,
            Dist::Empirical { values } => values.iter().all(|v| v.0 < 0.5),
            Dist::Exponential { mean } => *mean < 0.5,
            Dist::LogNormal { .. } | Dist::Gamma { .. } => false,
        }
    }

    #[inline]
    pub fn draw(&self, stream: &mut Stream) -> Duration {
        let ns = match self {
            Dist::Constant(length) => return *length,
            Dist::Uniform { min, max } => min + (max - min) * stream.unit(),
            Dist::Exponential { mean } => -mean * libm::log(stream.positive_unit()),
            Dist::LogNormal { mu, sigma } => libm::exp(mu + sigma * normal(stream)),
            Dist::Gamma { mean, shape, .. } if *shape > SHAPE_TESTED_MAX => {
                let cube_root = 1.0 + normal(stream) / libm::sqrt(9.0 * shape);
                mean * cube_root * cube_root * cube_root
            }
            Dist::Gamma { shape, scale, .. } => match scale * gamma(*shape, stream) {
                draw if draw.is_nan() => 0.0,
                draw => draw,
            },
            Dist::Empirical { values } => {
                let share = stream.unit();
                let index = values.partition_point(|v| v.1 <= share);
                values[index.min(values.len() - 1)].0
            }
        };
        Duration(libm::round(ns.clamp(0.0, LONGEST_NS)) as i64)
    }
}

/// Box and Muller, without keeping the second one: a draw always takes as many numbers.
pub(crate) fn normal(stream: &mut Stream) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(stream.positive_unit()));
    radius * libm::cos(2.0 * std::f64::consts::PI * stream.unit())
}

/// Above this shape, proposals are accepted without a test: the method below rejects fewer than 53
/// bits can express, and its test subtracts large numbers.
const SHAPE_TESTED_MAX: f64 = 1e12;

/// Marsaglia and Tsang (2000), of scale 1. Not a number where `shape` is next to 0.
fn gamma(shape: f64, stream: &mut Stream) -> f64 {
    if shape < 1.0 {
        let below_one = libm::pow(stream.positive_unit(), 1.0 / shape);
        return gamma(shape + 1.0, stream) * below_one;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let x = normal(stream);
        let v = 1.0 + c * x;
        if v <= 0.0 {
            continue;
        }
        let v = v * v * v;
        if libm::log(stream.positive_unit()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::StreamName;
    use proptest::prelude::*;

    /// Mean and standard deviation of many draws, in us.
    fn moments(dist: &Dist) -> (f64, f64) {
        let mut stream = StreamName::new(1).stream();
        let draws: Vec<f64> = (0..200_000).map(|_| dist.draw(&mut stream).as_us_f64()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
        (mean, (variance / draws.len() as f64).sqrt())
    }

    #[test]
    fn distributions_have_the_given_mean_and_deviation() {
        let cases = [
            (Dist::Exponential { mean: 300e3 }, 300.0, 300.0),
            (Dist::Uniform { min: 100e3, max: 400e3 }, 250.0, 300.0 / 12f64.sqrt()),
            (Dist::log_normal(300e3, 150e3), 300.0, 150.0),
            (Dist::gamma(300e3, 100e3), 300.0, 100.0),
            (Dist::gamma(300e3, 600e3), 300.0, 600.0),
            // On both sides of the shape up to which draws are tested.
            (Dist::gamma(1e12, 1.001e6), 1e9, 1001.0),
            (Dist::gamma(1e12, 0.999e6), 1e9, 999.0),
            // Three in four are 100, one is 500: mean 200, variance 0.75*100^2 + 0.25*300^2.
            (Dist::empirical(&[500e3, 100e3], &[1.0, 3.0]), 200.0, 30_000f64.sqrt()),
        ];
        for (dist, mean, sd) in cases {
            let found = moments(&dist);
            // Twelve standard errors of the widest one.
            assert!((found.0 - mean).abs() < 0.02 * mean, "{dist:?}: {found:?}");
            assert!((found.1 - sd).abs() < 0.04 * sd, "{dist:?}: {found:?}");
        }
    }

    /// Every length that a file may hold, by its magnitude: down to the smallest number there is.
    fn length() -> impl Strategy<Value = f64> {
        prop_oneof![
            (-323.0..9.5f64).prop_map(|exponent| 10f64.powf(exponent)),
            Just(f64::from_bits(1)),
            Just(3.6e9),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn draw_of_any_width_is_a_valid_length(mean in length(), sd in length(), seed: u64) {
            let mut stream = StreamName::new(seed).stream();
            let (mean_ns, sd_ns) = (mean * 1e3, sd * 1e3);
            let all = [
                Dist::gamma(mean_ns, sd_ns),
                Dist::log_normal(mean_ns, sd_ns),
                Dist::Exponential { mean: mean_ns },
                Dist::Uniform { min: mean_ns.min(sd_ns), max: mean_ns.max(sd_ns) },
                Dist::empirical(&[mean_ns, sd_ns], &[mean, sd]),
            ];
            for dist in all {
                for _ in 0..20 {
                    let drawn = dist.draw(&mut stream).0;
                    prop_assert!((0..=LONGEST_NS as i64).contains(&drawn), "{dist:?}: {drawn}");
                }
            }
        }

        #[test]
        fn zero_width_draws_the_mean(mean in 1e-3..3.6e9f64, exponent in 20.0..300.0f64) {
            let mut stream = StreamName::new(1).stream();
            let (mean_ns, sd_ns) = (mean * 1e3, mean * 1e3 * 10f64.powf(-exponent));
            for dist in [Dist::gamma(mean_ns, sd_ns), Dist::log_normal(mean_ns, sd_ns)] {
                let drawn = dist.draw(&mut stream).0 as f64;
                let near = 0.5 + 1e-13 * mean_ns;
                prop_assert!((drawn - mean_ns).abs() <= near, "{dist:?}: {drawn}");
            }
        }
    }
}
