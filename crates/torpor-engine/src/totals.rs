// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Counters of one CPU under one governor.

use crate::input::SleepSource;
use crate::model::{CpuModel, Verdict};
use torpor_machine::units::{Duration, Energy, Instant};
pub use torpor_result::{CpuTotals, StateTotals};
use torpor_result::{DeepTimes, LatencyHistogram};

/// Sleeps in one state at one OPP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slept {
    pub count: u64,
    pub time: Duration,
}

/// Sleeps in another state than the requested one.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    count: i64,
    time: Duration,
}

impl Moved {
    /// Returns the hardware's sleeps, given the requested ones.
    fn add(self, slept: Slept) -> Slept {
        let count = slept.count.saturating_add_signed(self.count);
        Slept { count, time: slept.time + self.time }
    }
}

/// Returns the states that the hardware is in until `now`, and the time in each: `first` from its
/// time on, and then perhaps another.
pub fn hardware_parts(
    (first, from): (usize, Instant),
    then: Option<(usize, Instant)>,
    now: Instant,
) -> impl Iterator<Item = (usize, Duration)> {
    let then = then.filter(|(_, at)| *at < now);
    let until = then.map_or(now, |(_, at)| at);
    let rest = then.map(|(state, at)| (state, now.since(at)));
    [(first, until.passed_since(from))].into_iter().chain(rest)
}

/// Counters that every decision updates. They are few and cheap: [`Tally::close`] computes the sums
/// that follow from them.
#[derive(Clone, Debug)]
pub struct Tally {
    states: usize,
    /// `[opp][state]`, flat.
    slept: Vec<Slept>,
    /// Ticks that woke the CPU, by OPP.
    ticks: Vec<u64>,
    /// The governor's own timers that woke the CPU, by OPP.
    timers: Vec<u64>,
    /// The governor's own timers that it started, by OPP.
    timer_starts: Vec<u64>,
    /// Time spent on entries that the driver refused, by OPP.
    rejected: Vec<Duration>,
    /// Hardware's sleeps minus the requested ones, indexed like `slept`; empty if the hardware does
    /// not demote.
    moved: Vec<Moved>,
    /// Above and below, by state.
    wrong: Vec<(u64, u64)>,
    /// Wake-ups whose latency was exactly the state's exit latency, by state.
    plain_exits: Vec<u64>,
    latency: LatencyHistogram,
    delays: LatencyHistogram,
    /// Sleeps in states that became forbidden after these sleeps had begun.
    begun_allowed: u64,
    /// Counters that are final; [`Tally::close`] sets the rest.
    pub totals: CpuTotals,
    deepest: usize,
}

impl Tally {
    pub fn new(model: &CpuModel) -> Tally {
        let (states, opps) = (model.states.len(), model.costs.opp_count());
        Tally {
            states,
            slept: vec![Slept::default(); opps * states],
            ticks: vec![0; opps],
            timers: vec![0; opps],
            timer_starts: vec![0; opps],
            rejected: vec![Duration::ZERO; opps],
            moved: match model.demotions.is_empty() {
                true => Vec::new(),
                false => vec![Moved::default(); opps * states],
            },
            wrong: vec![(0, 0); states],
            plain_exits: vec![0; states],
            latency: LatencyHistogram::default(),
            delays: LatencyHistogram::default(),
            begun_allowed: 0,
            totals: CpuTotals {
                deep: model.watches_deepest.then(DeepTimes::default),
                ..CpuTotals::new(states)
            },
            // A CPU that polls does not let its cluster rest.
            deepest: if model.states[model.deepest].is_polling {
                usize::MAX
            } else {
                model.deepest
            },
        }
    }

    #[inline]
    pub fn asked(&mut self, source: SleepSource) {
        self.totals.sources[source as usize] += 1;
    }

    #[inline(always)]
    pub fn slept(&mut self, opp: u16, state: usize, from: Instant, to: Instant, verdict: Verdict) {
        let slept = &mut self.slept[opp as usize * self.states + state];
        slept.count += 1;
        slept.time += to.passed_since(from);
        match verdict {
            Verdict::Fit => {}
            Verdict::Above => self.wrong[state].0 += 1,
            Verdict::Below => self.wrong[state].1 += 1,
        }
        if state == self.deepest {
            if let Some(deep) = &mut self.totals.deep {
                deep.push(from, to);
            }
        }
    }

    /// Counts a sleep in which the hardware entered other states than `state`, in order and each
    /// for its time.
    #[cold]
    pub fn slept_demoted(
        &mut self,
        opp: u16,
        state: usize,
        (from, to): (Instant, Instant),
        verdict: Verdict,
        parts: impl Iterator<Item = (usize, Duration)>,
    ) {
        let deep = self.totals.deep.take();
        self.slept(opp, state, from, to, verdict);
        self.totals.deep = deep;
        let mut parts = parts.peekable();
        match parts.peek() {
            Some((got, _)) if *got > state => self.totals.promoted += 1,
            _ => self.totals.states[state].demoted += 1,
        }
        let row = opp as usize * self.states;
        let requested = &mut self.moved[row + state];
        requested.count -= 1;
        requested.time -= to.passed_since(from);
        let mut now = from;
        for (got, time) in parts {
            let moved = &mut self.moved[row + got];
            moved.count += 1;
            moved.time += time;
            if got == self.deepest {
                if let Some(deep) = &mut self.totals.deep {
                    deep.push(now, now + time);
                }
            }
            now += time;
        }
    }

    /// Moves `time` of a current sleep from the OPP at its end to another.
    pub fn slept_before(&mut self, opp: u16, ends_at: u16, state: usize, time: Duration) {
        self.slept[opp as usize * self.states + state].time += time;
        self.slept[ends_at as usize * self.states + state].time -= time;
    }

    /// Counts time of a sleep that has not ended.
    pub fn sleeps_for(&mut self, opp: u16, state: usize, time: Duration) {
        self.slept[opp as usize * self.states + state].time += time;
    }

    /// Counts a wake-up `latency` after the event; `exit_latency` is the state's own.
    #[inline(always)]
    pub fn woken(&mut self, state: usize, latency: Duration, exit_latency: Duration) {
        if latency == exit_latency {
            self.plain_exits[state] += 1;
        } else {
            self.latency.record(latency);
        }
    }

    /// Returns the number of sleeps, and of those in a state too deep or too shallow.
    pub fn counts(&self) -> (u64, u64, u64) {
        let sleeps = self.slept.iter().map(|slept| slept.count).sum();
        let wrong = |of: fn(&(u64, u64)) -> u64| self.wrong.iter().map(of).sum();
        (sleeps, wrong(|(above, _)| *above), wrong(|(_, below)| *below))
    }

    /// Returns the sum of all wake-ups' latencies and their number.
    pub fn latency_so_far(&self, model: &CpuModel) -> (Duration, u64) {
        let (mut sum, mut count) = (self.latency.total(), self.latency.count());
        for (state, &exits) in model.states.iter().zip(&self.plain_exits) {
            sum += Duration(state.exit_latency.0 * exits as i64);
            count += exits;
        }
        (sum, count)
    }

    /// Returns the total delay of events' work.
    pub fn delay_so_far(&self) -> Duration {
        self.delays.total()
    }

    #[inline]
    pub fn ticked(&mut self, opp: u16) {
        self.ticks[opp as usize] += 1;
    }

    #[cold]
    pub fn timer_expired(&mut self, opp: u16) {
        self.timers[opp as usize] += 1;
    }

    /// Counts `number` timers that the governor has started.
    #[inline]
    pub fn timers_started(&mut self, opp: u16, number: u64) {
        self.timer_starts[opp as usize] += number;
    }

    /// Counts an entry that the driver refused; the CPU was awake for `time`.
    #[cold]
    pub fn rejected(&mut self, opp: u16, state: usize, time: Duration) {
        self.totals.states[state].rejected += 1;
        self.rejected_for(opp, time);
    }

    /// Counts the time of an entry that the driver has not yet reported as refused.
    pub fn rejected_for(&mut self, opp: u16, time: Duration) {
        self.rejected[opp as usize] += time;
    }

    #[inline]
    pub fn poll_timed_out(&mut self) {
        self.totals.poll_timeouts += 1;
    }

    /// Counts polling with the governor's own limit.
    #[inline]
    pub fn poll_limit_set(&mut self) {
        self.totals.own_poll_limits += 1;
    }

    #[inline]
    pub fn poll_interrupted(&mut self) {
        self.totals.poll_interrupts += 1;
    }

    /// A state is forbidden from now on. Its sleeps so far, and one under way, were allowed.
    pub fn forbid(&mut self, state: usize, is_under_way: bool) {
        let so_far = self.slept.chunks(self.states).map(|row| row[state].count).sum::<u64>();
        self.begun_allowed += so_far + u64::from(is_under_way);
    }

    #[inline]
    pub fn ipi_saved(&mut self) {
        self.totals.ipis_saved += 1;
    }

    pub fn absorbed(&mut self) {
        self.totals.absorbed_spans += 1;
    }

    #[inline]
    pub fn resumed(&mut self, delay: Duration) {
        self.delays.record(delay.max(Duration::ZERO));
    }

    pub fn energy(&self, model: &CpuModel) -> Energy {
        let mut energy = self.totals.energy;
        for (opp, row) in self.slept.chunks(self.states).enumerate() {
            for (state, slept) in row.iter().enumerate() {
                let moved = self.moved.get(opp * self.states + state).copied().unwrap_or_default();
                let Slept { count, time } = moved.add(*slept);
                energy += model.costs.sleeps(opp as u16, state, count, time);
            }
        }
        for (opp, rejected) in self.rejected.iter().enumerate() {
            let handled = model.tick_handling.0 * (self.ticks[opp] + self.timers[opp]) as i64;
            let started = model.timer_start.0 * self.timer_starts[opp] as i64;
            let awake = Duration(handled + started) + *rejected;
            energy += model.costs.awake(opp as u16, awake);
        }
        energy
    }

    /// Computes the sums and the energy.
    pub fn close(self, model: &CpuModel) -> CpuTotals {
        let energy = self.energy(model);
        let mut totals = self.totals;
        totals.energy = energy;
        totals.delays = self.delays.latencies();
        totals.decisions = totals.sources.iter().sum();
        totals.tick_wakeups = self.ticks.iter().sum();
        totals.governor_timer_wakeups = self.timers.iter().sum();
        totals.governor_timer_starts += self.timer_starts.iter().sum::<u64>();
        totals.latency = self.latency.latencies();
        totals.rejected_time = self.rejected.iter().fold(Duration::ZERO, |sum, time| sum + *time);
        for (opp, row) in self.slept.chunks(self.states).enumerate() {
            for (state, slept) in row.iter().enumerate() {
                totals.states[state].usage += slept.count;
                totals.states[state].time += slept.time;
                let moved = self.moved.get(opp * self.states + state).copied().unwrap_or_default();
                totals.states[state].got_time += moved.add(*slept).time;
            }
        }
        for (index, state) in totals.states.iter_mut().enumerate() {
            (state.above, state.below) = self.wrong[index];
            totals.latency.record(model.states[index].exit_latency, self.plain_exits[index]);
            if !model.states[index].is_allowed {
                totals.forbidden += state.usage;
            }
        }
        totals.forbidden = totals.forbidden.saturating_sub(self.begun_allowed);
        totals.wakeups = totals.latency.count();
        totals
    }
}
