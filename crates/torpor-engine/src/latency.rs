// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Wake-up latencies: quick to count while a replay runs, small and mergeable afterwards.

use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use torpor_units::Duration;

/// Three significant digits: a latency is off by at most 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Counts latencies as they come.
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    counts: Histogram<u64>,
    sum_ns: i128,
    max: Duration,
}

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        let counts = Histogram::new(SIGNIFICANT_DIGITS).expect("3 digits are within 0..=5");
        LatencyHistogram { counts, sum_ns: 0, max: Duration::ZERO }
    }
}

impl LatencyHistogram {
    pub fn record(&mut self, latency: Duration) {
        let ns = latency.0.max(0) as u64;
        self.counts.record(ns).expect("auto-resizing histograms record");
        self.sum_ns += i128::from(latency.0);
        self.max = self.max.max(latency);
    }

    /// The counts without the empty bins.
    pub fn close(self) -> Latencies {
        let counts = self
            .counts
            .iter_recorded()
            .map(|v| {
                let upper = self.counts.highest_equivalent(v.value_iterated_to());
                (upper.min(self.max.0 as u64), v.count_at_value())
            })
            .collect();
        Latencies { counts, sum_ns: self.sum_ns, max: self.max }
    }
}

/// How often each latency came, to 0.1 %; count, sum and maximum are exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// By upper bound in ns.
    counts: BTreeMap<u64, u64>,
    sum_ns: i128,
    max: Duration,
}

impl Latencies {
    /// `count` wake-ups with exactly this latency.
    pub fn record(&mut self, latency: Duration, count: u64) {
        if count > 0 {
            *self.counts.entry(latency.0.max(0) as u64).or_default() += count;
            self.sum_ns += i128::from(latency.0) * i128::from(count);
            self.max = self.max.max(latency);
        }
    }

    pub fn add(&mut self, other: &Latencies) {
        for (ns, count) in &other.counts {
            *self.counts.entry(*ns).or_default() += count;
        }
        self.sum_ns += other.sum_ns;
        self.max = self.max.max(other.max);
    }

    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    pub fn mean(&self) -> Option<Duration> {
        let count = i128::from(self.count());
        (count > 0).then(|| Duration((self.sum_ns / count) as i64))
    }

    /// The latency that `share` (0 to 1) of the wake-ups do not exceed.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let wanted = (share * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        self.counts.iter().find_map(|(ns, count)| {
            seen += count;
            (seen >= wanted).then_some(Duration(*ns as i64))
        })
    }

    pub fn max(&self) -> Option<Duration> {
        (!self.counts.is_empty()).then_some(self.max)
    }

    /// (upper bound in ns, count), in order.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.counts.iter().map(|(ns, count)| (*ns, *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_to_a_thousandth() {
        let mut histogram = LatencyHistogram::default();
        for us in 1..=100 {
            histogram.record(Duration::from_us(us));
        }
        let latencies = histogram.close();
        let p50 = latencies.quantile(0.5).unwrap().0 as f64;
        assert!((p50 / 50_000.0 - 1.0).abs() < 0.001, "{p50}");
        assert_eq!(latencies.max(), Some(Duration::from_us(100)));
        assert_eq!(latencies.quantile(1.0), latencies.max());
        assert_eq!(latencies.mean(), Some(Duration(50_500)));
    }

    #[test]
    fn sums_hold_both_parts() {
        let mut both = Latencies::default();
        both.record(Duration(1_000), 3);
        let mut other = Latencies::default();
        other.record(Duration(160_000), 1);
        both.add(&other);
        assert_eq!(both.buckets(), [(1_000, 3), (160_000, 1)]);
        assert_eq!(both.quantile(0.75), Some(Duration(1_000)));
        assert_eq!(both.quantile(0.76), Some(Duration(160_000)));
    }

    #[test]
    fn nothing_recorded_has_no_percentiles() {
        assert_eq!(Latencies::default().quantile(0.99), None);
        assert_eq!(LatencyHistogram::default().close().max(), None);
    }
}
