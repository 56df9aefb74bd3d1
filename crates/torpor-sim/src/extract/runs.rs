// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Measures activity: sleeps of real machines are short for a while, then long for a while.

use super::go_on;
use crate::error::SimError;
use serde::{Deserialize, Serialize};
use torpor_engine::Progress;
use torpor_engine::input::{CpuInput, Recording};
use torpor_machine::toml::{Content, Item, Value};
use torpor_machine::units::Duration;

/// Bounds of the classes of lags, in ms.
const EDGES_MS: [i64; 9] = [0, 4, 8, 16, 32, 64, 128, 256, 512];
/// First class in which an activity is measured. Correlation at smaller lags comes from bursts and
/// pairs of wake-ups, which the workload's tasks and interrupts reproduce.
const FROM_CLASS: usize = 3;
/// Most sleeps of each CPU to compare with later ones.
const SLEEPS_MAX: usize = 20_000;
/// Least number of sleeps for a measurement of a class.
const SLEEPS_MIN: u64 = 100;
/// Least correlation to count.
const SHARE_MIN: f64 = 0.02;
/// Least length of a sleep; shorter ones separate two events of one interrupt.
const SHORTEST_NS: i64 = 1_000;
/// Shortest decay time to try; each next one is 1 % longer.
const DECAYS_NS: (f64, f64) = (10e6, 2e9);

/// The autocorrelation of the logarithms of sleep lengths, and of the times to the next timer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Autocorrelation {
    pub lags: Vec<Lag>,
    /// Standard deviation of the natural logarithm of sleep lengths, over each CPU's mean.
    pub sd: f64,
}

/// Autocorrelation of a CPU's sleeps at one lag.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lag {
    pub from_ns: i64,
    pub to_ns: i64,
    /// Sleeps with later sleeps of their CPU at this lag.
    pub sleeps: u64,
    /// `None` for fewer than 100 sleeps.
    pub sleep_length: Option<f64>,
    pub timer_distance: Option<f64>,
    mean_ns: f64,
}

/// Parameters of an activity, as in a workload file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    pub sd: f64,
    pub mean_ns: i64,
    /// Its share of the variance of the logarithms of lengths.
    pub share: f64,
}

impl Measured {
    /// Returns the entry of a workload file.
    pub(super) fn table(self) -> Content {
        Content::default()
            .comment(
                "Measured: what the lengths of sleeps of a CPU have in common while they are close.",
            )
            .with("name", NAME)
            .with("mean_us", self.mean_ns / 1000)
            .with("sd", Item::from(Value::Number(format!("{:.3}", self.sd))))
    }
}

/// Name of the activity in a file.
pub(super) const NAME: &str = "recording";

#[derive(Clone, Copy, Default)]
struct Sum {
    sleeps: u64,
    products: f64,
    lag_ns: f64,
}

impl Autocorrelation {
    pub(super) fn of(
        recording: &Recording,
        counts: impl Fn(&CpuInput) -> bool,
        progress: &dyn Progress,
    ) -> Result<Autocorrelation, SimError> {
        let mut sums = [[Sum::default(); EDGES_MS.len() - 1]; 2];
        let mut squares = [(0_u64, 0.0_f64); 2];
        for input in recording.cpus.iter().filter(|input| counts(input)) {
            go_on(progress)?;
            let starts: Vec<i64> = input.spans.iter().map(|span| span.start.0).collect();
            let lengths = input.spans.iter().map(|span| Some(span.wake.since(span.start)));
            let timers = input.spans.iter().map(|span| {
                let next = span.next_hrtimer.min(span.next_wheel);
                Some(next.since(span.start)).filter(|distance| *distance != Duration::MAX)
            });
            for (what, values) in [deviations(lengths), deviations(timers)].iter().enumerate() {
                let (known, sum) = &mut squares[what];
                *known += values.iter().flatten().count() as u64;
                *sum += values.iter().flatten().map(|value| value * value).sum::<f64>();
                add(&starts, values, &mut sums[what]);
            }
        }
        let variance = |what: usize| squares[what].1 / squares[what].0.max(1) as f64;
        let of = |what: usize, class: usize| {
            let Sum { sleeps, products, .. } = sums[what][class];
            (sleeps >= SLEEPS_MIN && variance(what) > 0.0)
                .then(|| products / sleeps as f64 / variance(what))
        };
        let ms = |class: usize| EDGES_MS[class] * 1_000_000;
        let lags = (0..EDGES_MS.len() - 1).map(|class| Lag {
            from_ns: ms(class),
            to_ns: ms(class + 1),
            sleeps: sums[0][class].sleeps,
            sleep_length: of(0, class),
            timer_distance: of(1, class),
            mean_ns: sums[0][class].lag_ns / sums[0][class].sleeps.max(1) as f64,
        });
        Ok(Autocorrelation { lags: lags.collect(), sd: variance(0).sqrt() })
    }

    /// Returns the activity that fits best. The correlation of sleeps decreases exponentially with
    /// their distance, as for runs of exponential length. `None` without correlation.
    pub fn activity(&self) -> Option<Measured> {
        let known: Vec<(f64, f64, f64)> = (self.lags[FROM_CLASS..].iter())
            .filter_map(|lag| Some((lag.mean_ns, lag.sleep_length?, lag.sleeps as f64)))
            .collect();
        let fit = |decay_ns: f64| {
            let sum = |f: &dyn Fn(f64, f64, f64) -> f64| -> f64 {
                known
                    .iter()
                    .map(|&(lag, share, sleeps)| f(libm::exp(-lag / decay_ns), share, sleeps))
                    .sum()
            };
            let share = sum(&|e, r, n| n * r * e) / sum(&|e, _, n| n * e * e);
            (sum(&|e, r, n| n * (r - share * e) * (r - share * e)), share)
        };
        let (shortest, longest) = DECAYS_NS;
        let decays = std::iter::successors(Some(shortest), |ns| Some(ns * 1.01))
            .take_while(|ns| *ns < longest);
        let fitted = decays.map(|decay| (fit(decay), decay));
        let ((_, share), decay) = fitted
            .filter(|((off, _), _)| off.is_finite())
            .min_by(|a, b| a.0.0.total_cmp(&b.0.0))?;
        let share = share.min(1.0);
        let is_there = |lag: f64| share * libm::exp(-lag / decay) >= SHARE_MIN;
        // A single class could be chance.
        (known.len() >= 2 && is_there(known[1].0)).then(|| Measured {
            sd: self.sd * share.sqrt(),
            mean_ns: libm::round(decay) as i64,
            share,
        })
    }
}

/// Returns the differences of the logarithms from their mean.
fn deviations(lengths: impl Iterator<Item = Option<Duration>>) -> Vec<Option<f64>> {
    let log = |length: Duration| libm::log(length.0.max(SHORTEST_NS) as f64);
    let logs: Vec<Option<f64>> = lengths.map(|length| length.map(log)).collect();
    let known = logs.iter().flatten().count().max(1) as f64;
    let mean = logs.iter().flatten().sum::<f64>() / known;
    logs.into_iter().map(|log| log.map(|log| log - mean)).collect()
}

/// Adds each sleep's product with the mean of the later sleeps in each class. So each sleep counts
/// once; among pairs, the many short sleeps would dominate.
fn add(starts: &[i64], values: &[Option<f64>], sums: &mut [Sum]) {
    let stride = starts.len().div_ceil(SLEEPS_MAX).max(1);
    for first in (0..starts.len()).step_by(stride) {
        let Some(value) = values[first] else { continue };
        let mut second = first + 1;
        for (sum, edges) in sums.iter_mut().zip(EDGES_MS.windows(2)) {
            let (mut known, mut total, mut lags) = (0_u32, 0.0, 0.0);
            while second < starts.len() {
                let lag = starts[second] - starts[first];
                if lag >= edges[1] * 1_000_000 {
                    break;
                }
                if let Some(other) = values[second] {
                    known += 1;
                    total += other;
                    lags += lag as f64;
                }
                second += 1;
            }
            if known > 0 {
                sum.sleeps += 1;
                sum.products += value * total / f64::from(known);
                sum.lag_ns += lags / f64::from(known);
            }
        }
    }
}
