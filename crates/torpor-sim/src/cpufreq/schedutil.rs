// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `schedutil`: a frequency in proportion to utilization (`kernel/sched/cpufreq_schedutil.c`).
//!
//! FIDELITY(sim-schedutil): of `effective_cpu_util()` there is the fair class alone: interrupts count
//! as the tasks' time, 6.12's boost of queues that tasks wait in is left out.

use crate::sched::Clamp;
use torpor_platform::Clock;
use torpor_units::{Duration, Instant};

const NSEC_PER_USEC: i64 = 1_000;
/// Without a transition latency: `LATENCY_MULTIPLIER` or `USEC_PER_MSEC` us.
const RATE_LIMIT_UNKNOWN: Duration = Duration::from_us(1_000);
/// 6.1 multiplies the latency by 1000, up to this.
const RATE_LIMIT_MAX_6_1: Duration = Duration::from_us(10_000);

/// Whose order of steps is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Release {
    V6_1,
    #[default]
    V6_12,
}

impl Release {
    pub const ALL: [Release; 2] = [Release::V6_1, Release::V6_12];

    pub fn name(self) -> &'static str {
        match self {
            Release::V6_1 => "6.1",
            Release::V6_12 => "6.12",
        }
    }

    pub fn named(name: &str) -> Option<Release> {
        Release::ALL.into_iter().find(|release| release.name() == name)
    }
}

/// `cpufreq_policy_transition_delay_us()`: the least time between two changes.
pub fn rate_limit(clock: &Clock, release: Release) -> Duration {
    if let Some(delay) = clock.transition_delay {
        return delay;
    }
    let latency_us = clock.transition_latency.0 / NSEC_PER_USEC;
    match release {
        _ if latency_us == 0 => RATE_LIMIT_UNKNOWN,
        Release::V6_1 => Duration::from_us(latency_us * 1_000).min(RATE_LIMIT_MAX_6_1),
        Release::V6_12 => Duration::from_us(latency_us + (latency_us >> 1)),
    }
}

/// What `sugov_get_util()` reads of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuDemand {
    /// `cpu_util_cfs()`.
    pub util: u64,
    pub boost: u64,
    /// Of its runqueue.
    pub clamp: Clamp,
    pub capacity: u64,
}

impl CpuDemand {
    /// What `sg_cpu->util` becomes: with 6.12 the headroom is in it, and the boost under the clamp.
    pub fn performance(&self, release: Release) -> u64 {
        let CpuDemand { util, boost, clamp, capacity } = *self;
        match release {
            Release::V6_1 => clamp.of(util).min(capacity).max(clamp.of(boost)),
            Release::V6_12 => {
                let wanted = with_headroom(util.min(capacity).max(boost));
                wanted.min(capacity.min(clamp.max.into())).max(clamp.min.into())
            }
        }
    }
}

/// `map_util_perf()`: a quarter more.
pub fn with_headroom(util: u64) -> u64 {
    util + (util >> 2)
}

/// `struct sugov_policy`: the governor of CPUs that share a clock.
#[derive(Clone, Debug)]
pub struct Schedutil {
    release: Release,
    /// Of the OPPs, rising.
    freqs_khz: Vec<u32>,
    rate_limit: Duration,
    /// The OPP that was decided for last; `None` before any.
    next: Option<usize>,
    cached_raw_khz: u64,
    last_change: Instant,
    saved_idle_calls: u64,
}

impl Schedutil {
    pub fn new(release: Release, freqs_khz: Vec<u32>, rate_limit: Duration) -> Schedutil {
        assert!(!freqs_khz.is_empty(), "a policy has an OPP");
        Schedutil {
            release,
            freqs_khz,
            rate_limit,
            next: None,
            cached_raw_khz: 0,
            last_change: Instant(0),
            saved_idle_calls: 0,
        }
    }

    pub fn release(&self) -> Release {
        self.release
    }

    /// `sugov_should_update_freq()`: the rate limit counts from the last change, not the last look.
    pub fn is_due(&self, now: Instant) -> bool {
        now.since(self.last_change) >= self.rate_limit
    }

    /// `sugov_update_shared()`: `performance` is the greatest of the CPUs'. The OPP to go to, if
    /// that is another.
    pub fn update_shared(
        &mut self,
        now: Instant,
        performance: u64,
        capacity: u64,
    ) -> Option<usize> {
        let next = self.next_freq(performance, capacity);
        self.change(now, next)
    }

    /// `sugov_update_single_freq()`: a CPU that has not been idle since the last look does not slow
    /// down, unless `is_capped` by its `uclamp_max`.
    pub fn update_single(
        &mut self,
        now: Instant,
        demand: &CpuDemand,
        idle_calls: u64,
        is_capped: bool,
    ) -> Option<usize> {
        let cached_raw_khz = self.cached_raw_khz;
        let mut next = self.next_freq(demand.performance(self.release), demand.capacity);
        if !is_capped {
            let has_idled = idle_calls != self.saved_idle_calls;
            self.saved_idle_calls = idle_calls;
            if let Some(held) = self.next.filter(|held| !has_idled && next < *held) {
                next = held;
                self.cached_raw_khz = cached_raw_khz;
            }
        }
        self.change(now, next)
    }

    /// `get_next_freq()`: the lowest OPP at or above `max_freq * util / max`.
    fn next_freq(&mut self, performance: u64, capacity: u64) -> usize {
        let wanted = match self.release {
            Release::V6_1 => with_headroom(performance),
            Release::V6_12 => performance,
        };
        let fastest = self.freqs_khz.len() - 1;
        let raw_khz = u64::from(self.freqs_khz[fastest]) * wanted / capacity;
        if let Some(next) = self.next.filter(|_| raw_khz == self.cached_raw_khz) {
            return next;
        }
        self.cached_raw_khz = raw_khz;
        self.freqs_khz.partition_point(|khz| u64::from(*khz) < raw_khz).min(fastest)
    }

    /// `sugov_update_next_freq()`.
    fn change(&mut self, now: Instant, next: usize) -> Option<usize> {
        if self.next == Some(next) {
            return None;
        }
        self.next = Some(next);
        self.last_change = now;
        Some(next)
    }
}
