// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Wake-up latencies: exact count, sum and maximum, and a histogram for the percentiles.

use hdrhistogram::Histogram;
use torpor_units::Duration;

/// Three significant digits: a percentile is off by at most 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;

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
    /// `count` wake-ups with the same latency.
    pub fn record(&mut self, latency: Duration, count: u64) {
        if count == 0 {
            return;
        }
        let ns = latency.0.max(0) as u64;
        self.counts.record_n(ns, count).expect("auto-resizing histograms record");
        self.sum_ns += i128::from(latency.0) * i128::from(count);
        self.max = self.max.max(latency);
    }

    pub fn add(&mut self, other: &LatencyHistogram) {
        // Both resize on demand, so adding cannot overflow the range.
        self.counts.add(&other.counts).expect("auto-resizing histograms add");
        self.sum_ns += other.sum_ns;
        self.max = self.max.max(other.max);
    }

    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    pub fn mean(&self) -> Option<Duration> {
        let count = i128::from(self.count());
        (count > 0).then(|| Duration((self.sum_ns / count) as i64))
    }

    /// The latency that `share` (0 to 1) of the wake-ups do not exceed, to 0.1 %.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        (self.count() > 0).then(|| {
            let bound = self.counts.value_at_quantile(share);
            Duration(i64::try_from(bound).unwrap_or(i64::MAX)).min(self.max)
        })
    }

    pub fn max(&self) -> Option<Duration> {
        (self.count() > 0).then_some(self.max)
    }

    /// (upper bound in ns, count) of every bucket that is not empty, in order.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.counts
            .iter_recorded()
            .map(|v| (self.counts.highest_equivalent(v.value_iterated_to()), v.count_at_value()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_to_a_thousandth() {
        let mut latencies = LatencyHistogram::default();
        for us in 1..=100 {
            latencies.record(Duration::from_us(us), 1);
        }
        let p50 = latencies.quantile(0.5).unwrap().0 as f64;
        assert!((p50 / 50_000.0 - 1.0).abs() < 0.001, "{p50}");
        assert_eq!(latencies.max(), Some(Duration::from_us(100)));
        assert_eq!(latencies.mean(), Some(Duration(50_500)));
    }

    #[test]
    fn nothing_recorded_has_no_percentiles() {
        assert_eq!(LatencyHistogram::default().quantile(0.99), None);
    }
}
