// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Histograms of wake-up latencies: fast to count during a replay, small and mergeable afterwards.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use torpor_machine::units::Duration;

/// Bits of the exact bins, each 1 ns wide. Each next octave has half as many bins, so that a
/// latency is off by at most 0.1 %, as in HdrHistogram with three significant digits.
const EXACT_BITS: u32 = 11;
/// Number of latencies to keep as a list before bins are allocated: bins take some KiB, and there
/// may be thousands of histograms.
const FEW: usize = 64;

/// Counter of latencies.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Latencies", into = "Latencies")]
pub struct LatencyHistogram {
    /// The first ones, in ns, until they are more than a few.
    few: Vec<u64>,
    many: Option<Bins>,
    sum_ns: i128,
    max: Duration,
    /// Latencies added from other counters.
    others: Latencies,
}

impl From<LatencyHistogram> for Latencies {
    fn from(histogram: LatencyHistogram) -> Latencies {
        histogram.latencies()
    }
}

/// Converts to a histogram. Converting that again gives the same, since a bin includes its end.
impl From<Latencies> for LatencyHistogram {
    fn from(closed: Latencies) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::default();
        for (ns, count) in closed.counts {
            match &mut histogram.many {
                None => histogram.record_early(ns, count),
                Some(many) => many.add(ns, count),
            }
        }
        LatencyHistogram { sum_ns: closed.sum_ns, max: closed.max, ..histogram }
    }
}

impl LatencyHistogram {
    #[inline]
    pub fn record(&mut self, latency: Duration) {
        let ns = latency.0.max(0) as u64;
        match &mut self.many {
            Some(many) => many.add(ns, 1),
            None => self.record_early(ns, 1),
        }
        self.sum_ns += i128::from(latency.0);
        self.max = self.max.max(latency);
    }

    #[cold]
    fn record_early(&mut self, ns: u64, count: u64) {
        if self.few.len() as u64 + count <= FEW as u64 {
            self.few.extend((0..count).map(|_| ns));
        } else {
            self.spill().add(ns, count);
        }
    }

    fn spill(&mut self) -> &mut Bins {
        let mut many = Bins::default();
        for ns in std::mem::take(&mut self.few) {
            many.add(ns, 1);
        }
        self.many.insert(many)
    }

    pub fn add(&mut self, other: &LatencyHistogram) {
        self.others.add(&other.latencies());
    }

    /// The sum of the recorded latencies.
    pub fn total(&self) -> Duration {
        Duration(self.sum_ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    /// The number of recorded latencies.
    pub fn count(&self) -> u64 {
        self.few.len() as u64 + self.many.iter().flat_map(Bins::counts).map(|(_, n)| n).sum::<u64>()
    }

    /// The counts without the empty bins.
    pub fn latencies(&self) -> Latencies {
        let max_ns = self.max.0 as u64;
        let mut counts = BTreeMap::new();
        for ns in &self.few {
            *counts.entry(bin_end(*ns).min(max_ns)).or_default() += 1;
        }
        for (ns, count) in self.many.iter().flat_map(Bins::counts) {
            *counts.entry(bin_end(ns).min(max_ns)).or_default() += count;
        }
        let mut all = Latencies { counts, sum_ns: self.sum_ns, max: self.max };
        all.add(&self.others);
        all
    }
}

/// Bins of a block.
const BLOCK_BINS: usize = 128;

/// Counts by bin, in blocks: those without counts have no memory. Latencies lie close together, and
/// memory that is touched first costs a short replay more than all its counting.
#[derive(Clone, Debug, Default)]
struct Bins(Vec<Box<[u64]>>);

impl Bins {
    #[inline]
    fn add(&mut self, ns: u64, count: u64) {
        let bin = bin_of(ns);
        let block = self.0.get_mut(bin / BLOCK_BINS);
        match block.and_then(|block| block.get_mut(bin % BLOCK_BINS)) {
            Some(counted) => *counted += count,
            None => self.grow(bin, count),
        }
    }

    #[cold]
    fn grow(&mut self, bin: usize, count: u64) {
        let block = bin / BLOCK_BINS;
        if block >= self.0.len() {
            self.0.resize_with(block + 1, Box::default);
        }
        self.0[block] = vec![0; BLOCK_BINS].into();
        self.0[block][bin % BLOCK_BINS] = count;
    }

    /// Returns a latency of each nonempty bin, with its count.
    fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let bins = self.0.iter().enumerate().flat_map(|(block, counts)| {
            counts.iter().zip(block * BLOCK_BINS..).filter(|(count, _)| **count > 0)
        });
        bins.map(|(count, bin)| (start_of(bin), *count))
    }
}

/// Returns the binary logarithm of a bin's width in ns.
#[inline]
fn width_bits(ns: u64) -> u32 {
    (u64::BITS - ns.leading_zeros()).saturating_sub(EXACT_BITS)
}

/// Returns the index of a bin. There are no gaps: an octave has 2^(EXACT_BITS - 1) bins.
#[inline]
fn bin_of(ns: u64) -> usize {
    let bits = width_bits(ns);
    ((u64::from(bits) << (EXACT_BITS - 1)) + (ns >> bits)) as usize
}

/// The least latency of a bin.
fn start_of(bin: usize) -> u64 {
    let bits = (bin >> (EXACT_BITS - 1)).saturating_sub(1);
    ((bin - (bits << (EXACT_BITS - 1))) as u64) << bits
}

/// The greatest latency that shares a histogram's bin with this one.
fn bin_end(ns: u64) -> u64 {
    ns | ((1 << width_bits(ns)) - 1)
}

/// Histogram of latencies, to 0.1 %; count, sum and maximum are exact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    /// Counts by upper bound in ns.
    counts: BTreeMap<u64, u64>,
    sum_ns: i128,
    max: Duration,
}

impl Latencies {
    /// Adds `count` wake-ups with exactly this latency.
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

    pub fn total(&self) -> Duration {
        Duration(self.sum_ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
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

    /// Returns pairs of upper bound in ns and count, in ascending order.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        self.counts.iter().map(|(ns, count)| (*ns, *count)).collect()
    }
}

/// Returns the note on the source of a machine's exit latencies, given its states by whether
/// theirs was measured.
pub fn source_note(platform: &str, measured: &[&str], advertised: &[&str]) -> String {
    let (measured, names) = (measured.join(", "), advertised.join(", "));
    match (measured.is_empty(), advertised.is_empty()) {
        (_, true) => format!("exit latencies of {platform} are measured"),
        (true, false) => format!(
            "exit latencies of {platform} are the advertised ones; measured ones can differ \
             (i5-10600K: 1,034 µs advertised, 18 µs measured)"
        ),
        (false, false) => {
            format!(
                "exit latencies of {platform} are measured ({measured}) or advertised ({names})"
            )
        }
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
        let latencies = histogram.latencies();
        let p50 = latencies.quantile(0.5).unwrap().0 as f64;
        assert!((p50 / 50_000.0 - 1.0).abs() < 0.001, "{p50}");
        assert_eq!(latencies.max(), Some(Duration::from_us(100)));
        assert_eq!(latencies.quantile(1.0), latencies.max());
        assert_eq!(latencies.mean(), Some(Duration(50_500)));
    }

    #[test]
    fn bins_are_the_histograms() {
        let mut histogram = hdrhistogram::Histogram::<u64>::new(3).unwrap();
        for bits in 0..62 {
            let border = 1u64 << bits;
            for ns in [border - 1, border, border + 1, border + border / 3] {
                histogram.record(ns).unwrap();
                assert_eq!(bin_end(ns), histogram.highest_equivalent(ns), "{ns}");
                assert_eq!(start_of(bin_of(ns)), histogram.lowest_equivalent(ns), "{ns}");
            }
        }
    }

    #[test]
    fn bins_are_numbered_without_a_gap() {
        for bin in 0..50_000 {
            assert_eq!(bin_of(start_of(bin)), bin);
            assert_eq!(bin_end(start_of(bin)) + 1, start_of(bin + 1), "{bin}");
        }
    }

    #[test]
    fn list_and_bins_give_the_same_counts() {
        let closed = |count: usize| {
            let mut histogram = LatencyHistogram::default();
            (0..count).for_each(|n| histogram.record(Duration(1_000_003 * (n as i64 % 7))));
            histogram.latencies()
        };
        let (few, many) = (closed(FEW), closed(FEW + 7));
        assert_eq!(few.count() + 7, many.count());
        let more_by_one = few.buckets().into_iter().map(|(ns, count)| (ns, count + 1));
        assert_eq!(more_by_one.collect::<Vec<_>>(), many.buckets());
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
        assert_eq!(LatencyHistogram::default().latencies().max(), None);
    }
}
