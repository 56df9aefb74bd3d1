// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Sections of a recording: parts of its time, each with a load of its own.
//!
//! Busy time and switches to tasks are counted in bins. The bins are split where a normal
//! distribution for each part, with its own mean and variance, explains them best, by dynamic
//! programming over all splits (Jackson et al., IEEE Signal Processing Letters 12, 2005, 105-108). A
//! split costs twice what the Bayesian information criterion asks, as neighboring bins resemble each
//! other. Parts that only vary differently are one section.

use super::folded;
use crate::error::SimError;
use serde::Serialize;
use torpor_engine::Progress;
use torpor_engine::timeline::{Change, Fold, Moment, Run, Timeline};
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_trace::{EventKind, Trace};

/// Length of a bin: this part of the recording, within these bounds.
const BINS: i64 = 200;
const BIN_NS: (i64, i64) = (10_000_000, 100_000_000);
/// Most bins; those of a longer recording are longer.
const BINS_MAX: i64 = 1_000;
/// Fewest bins of a section.
const SHORTEST: usize = 8;
/// Price of a split, in logarithms of the number of bins: two means, two variances, and the place,
/// twice.
const PENALTY: f64 = 10.0;
/// Least spread of bins, as a share of the recording's mean: less is no noise of a machine.
const SPREAD_MIN: f64 = 0.02;
/// Neighboring sections differ by this share of the larger one, in busy time or in switches.
const CHANGE_MIN: f64 = 0.25;

/// A part of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Section {
    /// From the recording's begin.
    pub begin_ns: i64,
    pub duration_ns: i64,
    /// Mean number of CPUs that run a task.
    pub busy_cpus: f64,
    pub switches_per_s: f64,
}

/// Returns the sections of a recording, in order; at least one.
pub(super) fn find(trace: &Trace, progress: &dyn Progress) -> Result<Vec<Section>, SimError> {
    let (start, end) = trace.window.unwrap_or((Instant(0), Instant(0)));
    let span_ns = end.since(start).0.max(1);
    let bin_ns = (span_ns / BINS).clamp(BIN_NS.0, BIN_NS.1).max(span_ns / BINS_MAX);
    let count = (span_ns / bin_ns).max(1) as usize;
    let load = Load { start, end, bin_ns, cpus: trace.meta.cpu_count, bins: vec![[0.0; 2]; count] };
    let load = folded(trace, load, progress)?;
    let sums = Sums::of(&load.bins);
    let mut edges = split(&sums);
    join(&mut edges, &sums);
    let of = |edge: &[usize]| {
        let begin_ns = edge[0] as i64 * bin_ns;
        let end_ns = if edge[1] == count { span_ns } else { edge[1] as i64 * bin_ns };
        let [busy_ns, switches] = sums.mean(edge[0], edge[1]);
        Section {
            begin_ns,
            duration_ns: end_ns - begin_ns,
            busy_cpus: busy_ns / bin_ns as f64,
            switches_per_s: switches * 1e9 / bin_ns as f64,
        }
    };
    Ok(edges.windows(2).map(of).collect())
}

/// Busy time in ns, and switches to tasks, by bin.
struct Load {
    start: Instant,
    end: Instant,
    bin_ns: i64,
    cpus: u32,
    bins: Vec<[f64; 2]>,
}

impl Load {
    fn bin(&self, at: Instant) -> usize {
        let bin = at.since(self.start).0.max(0) / self.bin_ns;
        (bin as usize).min(self.bins.len() - 1)
    }

    /// Adds a task's time on a CPU.
    fn ran(&mut self, run: Run, until: Instant) {
        if run.pid == 0 {
            return;
        }
        let mut from = run.since.max(self.start);
        while from < until {
            let bin = self.bin(from);
            let is_last = bin + 1 == self.bins.len();
            let edge = self.start + Duration((bin as i64 + 1) * self.bin_ns);
            let to = if is_last { until } else { until.min(edge) };
            self.bins[bin][0] += to.since(from).0 as f64;
            from = to;
        }
    }
}

impl Fold for Load {
    fn take(&mut self, moment: &Moment<'_>) {
        let now = moment.event.time;
        let (Change::Switched { left, .. } | Change::Slept { lost: left, .. }) = moment.change
        else {
            return;
        };
        if let Some(run) = left {
            self.ran(run, now);
        }
        if matches!(moment.event.kind, EventKind::SchedSwitch { next_pid, .. } if next_pid != 0) {
            let bin = self.bin(now);
            self.bins[bin][1] += 1.0;
        }
    }

    fn end(&mut self, timeline: &Timeline) {
        for run in (0..self.cpus).filter_map(|cpu| timeline.running(CpuId(cpu))) {
            self.ran(run, self.end);
        }
    }
}

/// Sums of values and of their squares over the first bins.
struct Sums {
    sums: Vec<[[f64; 2]; 2]>,
    least: [f64; 2],
}

impl Sums {
    fn of(bins: &[[f64; 2]]) -> Sums {
        let mut sums = vec![[[0.0; 2]; 2]];
        for bin in bins {
            let [[a, aa], [b, bb]] = *sums.last().expect("a sum of nothing");
            let [x, y] = *bin;
            sums.push([[a + x, aa + x * x], [b + y, bb + y * y]]);
        }
        let mut of = Sums { sums, least: [0.0; 2] };
        let floor = |mean: f64| (SPREAD_MIN * mean) * (SPREAD_MIN * mean) + f64::MIN_POSITIVE;
        of.least = of.mean(0, bins.len()).map(floor);
        of
    }

    fn mean(&self, from: usize, to: usize) -> [f64; 2] {
        [0, 1].map(|nth| (self.sums[to][nth][0] - self.sums[from][nth][0]) / (to - from) as f64)
    }

    /// Returns twice the negative logarithm of the likelihood of these bins as one section.
    fn cost(&self, from: usize, to: usize) -> f64 {
        let count = (to - from) as f64;
        let means = self.mean(from, to);
        let of = |nth: usize| {
            let squares = (self.sums[to][nth][1] - self.sums[from][nth][1]) / count;
            let variance = (squares - means[nth] * means[nth]).max(self.least[nth]);
            count * libm::log(variance)
        };
        of(0) + of(1)
    }
}

/// Returns the edges of the cheapest split, the first and the last one among them.
fn split(sums: &Sums) -> Vec<usize> {
    let count = sums.sums.len() - 1;
    let price = PENALTY * libm::log(count as f64);
    let mut best = vec![(f64::INFINITY, 0); count + 1];
    best[0].0 = -price;
    for end in SHORTEST..=count {
        let from = (0..=end - SHORTEST).filter(|begin| best[*begin].0.is_finite());
        let costs = from.map(|begin| (best[begin].0 + price + sums.cost(begin, end), begin));
        best[end] = costs.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or(best[end]);
    }
    let mut edges = vec![count];
    while let Some(&end) = edges.last().filter(|end| **end > 0) {
        edges.push(best[end].1);
    }
    edges.reverse();
    edges
}

/// Joins neighbors that do not differ enough, the most similar ones first.
fn join(edges: &mut Vec<usize>, sums: &Sums) {
    loop {
        let change = |middle: usize| {
            let [before, after] = [(middle - 1, middle), (middle, middle + 1)]
                .map(|(from, to)| sums.mean(edges[from], edges[to]));
            let of = |nth: usize| {
                let larger = before[nth].max(after[nth]);
                if larger > 0.0 { (after[nth] - before[nth]).abs() / larger } else { 0.0 }
            };
            of(0).max(of(1))
        };
        let inner = (1..edges.len() - 1).map(|middle| (change(middle), middle));
        match inner.min_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((change, middle)) if change < CHANGE_MIN => edges.remove(middle),
            _ => return,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the inner edges of bins whose busy times are these, and whose switches are all alike.
    fn edges(busy: impl Iterator<Item = f64>) -> Vec<usize> {
        let bins: Vec<[f64; 2]> = busy.map(|busy| [busy, 5.0]).collect();
        let sums = Sums::of(&bins);
        let mut edges = split(&sums);
        join(&mut edges, &sums);
        edges[1..edges.len() - 1].to_vec()
    }

    /// A number in 0..1 that looks random.
    fn noise(at: usize) -> f64 {
        (at as f64 * 0.618_033_988_749_895).fract()
    }

    #[test]
    fn edges_are_where_the_load_changes() {
        let load =
            |at: usize| [100.0, 300.0, 150.0][usize::from(at >= 60) + usize::from(at >= 140)];
        let found = edges((0..200).map(|at| load(at) * (0.5 + noise(at))));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].abs_diff(60) <= 1 && found[1].abs_diff(140) <= 1, "{found:?}");
    }

    #[test]
    fn noise_has_no_edges() {
        let is_one = |busy: &dyn Fn(usize) -> f64, bins| edges((0..bins).map(busy)).is_empty();
        assert!(is_one(&|at| 100.0 * (0.5 + noise(at)), 200));
        assert!(is_one(&|_| 0.0, 200));
        assert!(is_one(&|at| at as f64, 3));
        // Less than a fourth.
        assert!(is_one(&|at| if at < 100 { 100.0 } else { 120.0 }, 200));
    }
}
