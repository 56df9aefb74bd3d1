// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Counters of one CPU under one governor, and their sums.

use crate::cluster::DeepTimes;
use crate::input::SleepSource;
use crate::latency::LatencyHistogram;
use crate::model::Verdict;
use torpor_units::{Duration, Energy};

/// Counters of one idle state, named as in sysfs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateTotals {
    pub usage: u64,
    pub above: u64,
    pub below: u64,
    pub rejected: u64,
    pub time: Duration,
}

/// Everything counted for one CPU.
#[derive(Clone, Debug)]
pub struct CpuTotals {
    pub states: Vec<StateTotals>,
    pub decisions: u64,
    /// Events of the recording that found the CPU asleep.
    pub wakeups: u64,
    pub tick_wakeups: u64,
    pub poll_timeouts: u64,
    /// Recorded idle spans in which the CPU was still busy with delayed work.
    pub absorbed_spans: u64,
    /// Sleeps in a state that is disabled or slower than the latency limit.
    pub forbidden: u64,
    /// Sum over wake-ups of how much later than recorded the work behind them began.
    pub delay_total: Duration,
    pub energy: Energy,
    pub latency: LatencyHistogram,
    /// Decisions by where the sleep length came from.
    pub sources: [u64; SleepSource::ALL.len()],
    /// When the CPU was in its deepest state; kept only where a cluster's power hangs on it.
    pub deep: Option<DeepTimes>,
}

impl CpuTotals {
    pub fn new(states: usize) -> CpuTotals {
        CpuTotals {
            states: vec![StateTotals::default(); states],
            decisions: 0,
            wakeups: 0,
            tick_wakeups: 0,
            poll_timeouts: 0,
            absorbed_spans: 0,
            forbidden: 0,
            delay_total: Duration::ZERO,
            energy: Energy::ZERO,
            latency: LatencyHistogram::default(),
            sources: [0; SleepSource::ALL.len()],
            deep: None,
        }
    }

    #[inline]
    pub fn slept(&mut self, state: usize, residency: Duration, verdict: Verdict) {
        let s = &mut self.states[state];
        s.usage += 1;
        s.time += residency;
        match verdict {
            Verdict::Fit => {}
            Verdict::Above => s.above += 1,
            Verdict::Below => s.below += 1,
        }
    }

    #[inline]
    pub fn woken(&mut self, latency: Duration) {
        self.wakeups += 1;
        self.latency.record(latency);
    }

    /// Adds another CPU's counters; states are added by index, so both must share a table.
    pub fn add(&mut self, other: &CpuTotals) {
        if self.states.len() < other.states.len() {
            self.states.resize(other.states.len(), StateTotals::default());
        }
        for (mine, theirs) in self.states.iter_mut().zip(&other.states) {
            mine.usage += theirs.usage;
            mine.above += theirs.above;
            mine.below += theirs.below;
            mine.rejected += theirs.rejected;
            mine.time += theirs.time;
        }
        self.decisions += other.decisions;
        self.wakeups += other.wakeups;
        self.tick_wakeups += other.tick_wakeups;
        self.poll_timeouts += other.poll_timeouts;
        self.absorbed_spans += other.absorbed_spans;
        self.forbidden += other.forbidden;
        self.delay_total += other.delay_total;
        self.energy += other.energy;
        self.latency.add(&other.latency);
        for (mine, theirs) in self.sources.iter_mut().zip(other.sources) {
            *mine += theirs;
        }
    }

    pub fn idle_time(&self) -> Duration {
        self.states.iter().fold(Duration::ZERO, |sum, s| sum + s.time)
    }
}
