// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Runs of short and of long sleeps, as on real machines.

use crate::random::{LONGEST_NS, Stream, StreamName, normal};
use torpor_machine::units::{Duration, Instant};

/// A factor that the lengths of tasks and interrupts share for a while, so that sleeps come in
/// runs; the mean rate stays the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Activity {
    pub name: String,
    /// Mean length of a run, in ns, of an exponential distribution.
    pub mean_ns: f64,
    /// Standard deviation of the natural logarithm of the factor, which is normally distributed.
    pub sd: f64,
}

/// The factor over time. It does not depend on the times of the queries, so that every governor
/// sees the same.
#[derive(Clone, Debug)]
pub struct Runs {
    stream: Stream,
    mean_ns: f64,
    sd: f64,
    until: Instant,
    factor: f64,
}

impl Runs {
    pub fn new(activity: &Activity, seed: u64) -> Runs {
        let stream = StreamName::new(seed).text("activity").text(&activity.name).stream();
        let Activity { mean_ns, sd, .. } = *activity;
        Runs { stream, mean_ns, sd, until: Instant(0), factor: 1.0 }
    }

    /// Scales a length that was drawn at `now`.
    pub fn scale(&mut self, length: Duration, now: Instant) -> Duration {
        while self.until <= now {
            let run = -self.mean_ns * libm::log(self.stream.positive_unit());
            self.until += Duration(libm::round(run.clamp(1.0, LONGEST_NS)) as i64);
            // The mean of 1 / factor, and so the relative rate, is 1.
            let deviation = self.sd * normal(&mut self.stream);
            self.factor = libm::exp(deviation + self.sd * self.sd / 2.0);
        }
        let scaled = length.0 as f64 * self.factor;
        Duration(libm::round(scaled.clamp(0.0, LONGEST_NS)) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(seed: u64) -> Runs {
        let activity = Activity { name: "page".to_owned(), mean_ns: 1e6, sd: 1.0 };
        Runs::new(&activity, seed)
    }

    #[test]
    fn runs_keep_the_mean_rate() {
        let mut runs = runs(1);
        let length = Duration(1_000);
        // Sampled at fixed times, the mean rate is the same as without an activity.
        let rates = (0..400_000).map(|n| {
            let scaled = runs.scale(length, Instant(n * 20_000));
            length.0 as f64 / scaled.0 as f64
        });
        let mean = rates.sum::<f64>() / 400_000.0;
        // 8 s hold 8000 runs, whose factors' inverse has a deviation of 1.3: six of 0.015.
        assert!((mean - 1.0).abs() < 0.09, "{mean}");
    }

    #[test]
    fn runs_do_not_depend_on_query_times() {
        let (mut often, mut seldom) = (runs(3), runs(3));
        let length = Duration(1_000_000);
        let mut factors = std::collections::BTreeSet::new();
        for n in 0..1_000 {
            let now = Instant(n * 10_000);
            let scaled = often.scale(length, now);
            factors.insert(scaled);
            if n % 97 == 0 {
                assert_eq!(seldom.scale(length, now), scaled);
            }
        }
        // 10 ms hold some ten runs of 1 ms.
        assert!((4..=25).contains(&factors.len()), "{factors:?}");
    }
}
