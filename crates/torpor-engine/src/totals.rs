// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Counters of one CPU under one governor, and their sums.

use crate::cluster::DeepTimes;
use crate::input::SleepSource;
use crate::latency::{Latencies, LatencyHistogram};
use crate::model::{CpuModel, Verdict};
use torpor_units::{Duration, Energy, Instant};

/// Counters of one idle state, named as in sysfs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateTotals {
    pub usage: u64,
    pub above: u64,
    pub below: u64,
    pub rejected: u64,
    pub time: Duration,
}

/// Sleeps in one state at one OPP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slept {
    pub count: u64,
    pub time: Duration,
}

/// What is counted at every decision. It is kept small and cheap: sums that follow from others
/// are made once, by [`Tally::close`].
#[derive(Clone, Debug)]
pub struct Tally {
    states: usize,
    /// `[opp][state]`, flat.
    slept: Vec<Slept>,
    /// Ticks that woke the CPU, by OPP.
    ticks: Vec<u64>,
    /// The governor's own timers that woke the CPU, by OPP.
    timers: Vec<u64>,
    /// Above and below, by state.
    wrong: Vec<(u64, u64)>,
    /// Wake-ups that cost a state's exit latency and nothing else, by state.
    plain_exits: Vec<u64>,
    latency: LatencyHistogram,
    poll_timeouts: u64,
    poll_interrupts: u64,
    ipis_saved: u64,
    absorbed_spans: u64,
    delay_total: Duration,
    sources: [u64; SleepSource::ALL.len()],
    deep: Option<DeepTimes>,
}

impl Tally {
    pub fn new(model: &CpuModel) -> Tally {
        let (states, opps) = (model.states.len(), model.costs.opp_count());
        Tally {
            states,
            slept: vec![Slept::default(); opps * states],
            ticks: vec![0; opps],
            timers: vec![0; opps],
            wrong: vec![(0, 0); states],
            plain_exits: vec![0; states],
            latency: LatencyHistogram::default(),
            poll_timeouts: 0,
            poll_interrupts: 0,
            ipis_saved: 0,
            absorbed_spans: 0,
            delay_total: Duration::ZERO,
            sources: [0; SleepSource::ALL.len()],
            deep: model.watches_deepest.then(Vec::new),
        }
    }

    #[inline]
    pub fn asked(&mut self, source: SleepSource) {
        self.sources[source as usize] += 1;
    }

    #[inline(always)]
    pub fn slept(&mut self, opp: u16, state: usize, from: Instant, to: Instant, verdict: Verdict) {
        let slept = &mut self.slept[opp as usize * self.states + state];
        slept.count += 1;
        slept.time += to.since(from);
        match verdict {
            Verdict::Fit => {}
            Verdict::Above => self.wrong[state].0 += 1,
            Verdict::Below => self.wrong[state].1 += 1,
        }
        if state + 1 == self.states
            && let Some(deep) = &mut self.deep
        {
            deep.push((from, to));
        }
    }

    /// `time` of a sleep that is still going on was spent at another OPP than the one it will end
    /// at.
    pub fn slept_before(&mut self, opp: u16, ends_at: u16, state: usize, time: Duration) {
        self.slept[opp as usize * self.states + state].time += time;
        self.slept[ends_at as usize * self.states + state].time -= time;
    }

    /// `latency` after the event; `exit_latency` is the state's own.
    #[inline]
    pub fn woken(&mut self, state: usize, latency: Duration, exit_latency: Duration) {
        if latency == exit_latency {
            self.plain_exits[state] += 1;
        } else {
            self.latency.record(latency);
        }
    }

    #[inline]
    pub fn ticked(&mut self, opp: u16) {
        self.ticks[opp as usize] += 1;
    }

    #[cold]
    pub fn timer_expired(&mut self, opp: u16) {
        self.timers[opp as usize] += 1;
    }

    #[inline]
    pub fn poll_timed_out(&mut self) {
        self.poll_timeouts += 1;
    }

    #[inline]
    pub fn poll_interrupted(&mut self) {
        self.poll_interrupts += 1;
    }

    #[inline]
    pub fn ipi_saved(&mut self) {
        self.ipis_saved += 1;
    }

    pub fn absorbed(&mut self) {
        self.absorbed_spans += 1;
    }

    #[inline]
    pub fn resumed(&mut self, delay: Duration) {
        if !delay.is_negative() {
            self.delay_total += delay;
        }
    }

    /// Works out the sums, and what they cost.
    pub fn close(self, model: &CpuModel) -> CpuTotals {
        let mut totals = CpuTotals {
            decisions: self.sources.iter().sum(),
            tick_wakeups: self.ticks.iter().sum(),
            governor_timer_wakeups: self.timers.iter().sum(),
            poll_timeouts: self.poll_timeouts,
            poll_interrupts: self.poll_interrupts,
            ipis_saved: self.ipis_saved,
            absorbed_spans: self.absorbed_spans,
            delay_total: self.delay_total,
            latency: self.latency.close(),
            sources: self.sources,
            deep: self.deep,
            ..CpuTotals::new(self.states)
        };
        for (opp, row) in self.slept.chunks(self.states).enumerate() {
            for (state, slept) in row.iter().enumerate() {
                totals.states[state].usage += slept.count;
                totals.states[state].time += slept.time;
                totals.energy += model.costs.sleeps(opp as u16, state, slept.count, slept.time);
            }
        }
        for (opp, (ticks, timers)) in self.ticks.iter().zip(&self.timers).enumerate() {
            let awake = Duration(model.tick_handling.0 * (ticks + timers) as i64);
            totals.energy += model.costs.awake(opp as u16, awake);
        }
        for (index, state) in totals.states.iter_mut().enumerate() {
            (state.above, state.below) = self.wrong[index];
            totals.latency.record(model.states[index].exit_latency, self.plain_exits[index]);
            if !model.states[index].is_allowed {
                totals.forbidden += state.usage;
            }
        }
        totals.wakeups = totals.latency.count();
        totals
    }
}

/// Everything counted for one CPU.
#[derive(Clone, Debug)]
pub struct CpuTotals {
    pub states: Vec<StateTotals>,
    pub decisions: u64,
    /// Events of the recording that found the CPU asleep.
    pub wakeups: u64,
    pub tick_wakeups: u64,
    pub governor_timer_wakeups: u64,
    pub poll_timeouts: u64,
    /// Interrupts during polling that did not end it; they count as wake-ups too.
    pub poll_interrupts: u64,
    /// Reschedule interrupts that polling made needless.
    pub ipis_saved: u64,
    /// Recorded idle spans in which the CPU was still busy with delayed work, or got new work
    /// before it was asleep.
    pub absorbed_spans: u64,
    /// Sleeps in a state that is disabled or slower than the latency limit.
    pub forbidden: u64,
    /// Sum over wake-ups of how much later than recorded the work behind them began.
    pub delay_total: Duration,
    pub energy: Energy,
    pub latency: Latencies,
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
            governor_timer_wakeups: 0,
            poll_timeouts: 0,
            poll_interrupts: 0,
            ipis_saved: 0,
            absorbed_spans: 0,
            forbidden: 0,
            delay_total: Duration::ZERO,
            energy: Energy::ZERO,
            latency: Latencies::default(),
            sources: [0; SleepSource::ALL.len()],
            deep: None,
        }
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
        self.governor_timer_wakeups += other.governor_timer_wakeups;
        self.poll_timeouts += other.poll_timeouts;
        self.poll_interrupts += other.poll_interrupts;
        self.ipis_saved += other.ipis_saved;
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
