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
    /// The least performance, whatever the clamp.
    pub perf_min: u64,
    /// Of its runqueue.
    pub clamp: Clamp,
    pub capacity: u64,
}

impl CpuDemand {
    /// What `sg_cpu->util` becomes: with 6.12 the headroom is in it, and the boost under the clamp.
    pub fn performance(&self, release: Release) -> u64 {
        let CpuDemand { util, boost, perf_min, clamp, capacity } = *self;
        let performance = match release {
            Release::V6_1 => clamp.of(util).min(capacity).max(clamp.of(boost)),
            Release::V6_12 => {
                let wanted = with_headroom(util.min(capacity).max(boost));
                wanted.min(capacity.min(clamp.max.into())).max(clamp.min.into())
            }
        };
        performance.max(perf_min)
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
    /// OPPs that are never asked for.
    inefficient: Vec<bool>,
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
            inefficient: vec![false; freqs_khz.len()],
            freqs_khz,
            rate_limit,
            next: None,
            cached_raw_khz: 0,
            last_change: Instant(0),
            saved_idle_calls: 0,
        }
    }

    /// `CPUFREQ_RELATION_E`: passes over OPPs that the energy model calls inefficient. The highest
    /// is none.
    pub fn passing_over(self, inefficient: Vec<bool>) -> Schedutil {
        assert_eq!(inefficient.len(), self.freqs_khz.len(), "one answer an OPP");
        Schedutil { inefficient, ..self }
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
            if !has_idled && next < self.next {
                next = self.next;
                self.cached_raw_khz = cached_raw_khz;
            }
        }
        self.change(now, next)
    }

    /// `get_next_freq()`: the lowest efficient OPP at or above `max_freq * util / max`; none as long as
    /// nothing at all was asked for.
    fn next_freq(&mut self, performance: u64, capacity: u64) -> Option<usize> {
        let wanted = match self.release {
            Release::V6_1 => with_headroom(performance),
            Release::V6_12 => performance,
        };
        let fastest = self.freqs_khz.len() - 1;
        let raw_khz = u64::from(self.freqs_khz[fastest]) * wanted / capacity;
        if raw_khz == self.cached_raw_khz {
            return self.next;
        }
        self.cached_raw_khz = raw_khz;
        let lowest = self.freqs_khz.partition_point(|khz| u64::from(*khz) < raw_khz);
        (lowest..fastest).find(|opp| !self.inefficient[*opp]).or(Some(fastest))
    }

    /// `sugov_update_next_freq()`.
    fn change(&mut self, now: Instant, next: Option<usize>) -> Option<usize> {
        if self.next == next {
            return None;
        }
        self.next = next;
        self.last_change = now;
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torpor_engine::pelt::{Runqueue, Scale};

    const PERIOD_NS: u64 = 1_048_576;

    fn opps() -> Vec<u32> {
        vec![250_000, 500_000, 750_000, 1_000_000]
    }

    fn demand(util: u64) -> CpuDemand {
        CpuDemand { util, boost: 0, perf_min: 0, clamp: Clamp::NONE, capacity: 1024 }
    }

    /// A CPU that goes busy at its full speed: 206 is the first utilization that is more than a
    /// quarter of 1024 with a quarter on top, 411 than half, 616 than three quarters. In periods
    /// of 1.05 ms those come after 32 * log2(1024 / (1024 - util)) = 10.3, 23.7 and 42.5.
    #[test]
    fn the_frequency_climbs_with_the_utilization() {
        for release in Release::ALL {
            let mut load = Runqueue::new(0, Scale::FULL);
            load.switch(true);
            let mut governor = Schedutil::new(release, opps(), Duration::ZERO);
            let mut steps = Vec::new();
            for period in 1..=60 {
                load.update(period * PERIOD_NS);
                let demand = demand(load.util().into());
                let now = Instant((period * PERIOD_NS) as i64);
                let performance = demand.performance(release);
                steps.extend(governor.update_shared(now, performance, 1024).map(|o| (period, o)));
            }
            assert_eq!(steps, [(1, 0), (11, 1), (24, 2), (43, 3)], "{}", release.name());
        }
    }

    #[test]
    fn an_inefficient_opp_is_never_asked_for() {
        let governor = Schedutil::new(Release::V6_12, opps(), Duration::ZERO);
        let mut governor = governor.passing_over(vec![true, false, true, false]);
        let asked = |util: u64, governor: &mut Schedutil| {
            governor.update_shared(Instant(0), demand(util).performance(Release::V6_12), 1024)
        };
        assert_eq!(asked(10, &mut governor), Some(1), "250 MHz would do");
        assert_eq!(asked(500, &mut governor), Some(3), "625 MHz, which 750 MHz would do");
    }

    #[test]
    fn half_a_cpu_asks_for_five_eighths_and_four_fifths_for_nearly_all() {
        let fine: Vec<u32> = (1..=1_000).map(|mhz| mhz * 1_000).collect();
        // 512 after 33.6 ms, 816 after 77.6 ms: 640 and 1020 of 1024.
        for (util, mhz) in [(512, 625), (816, 997)] {
            let mut governor = Schedutil::new(Release::V6_12, fine.clone(), Duration::ZERO);
            let next =
                governor.update_shared(Instant(0), demand(util).performance(Release::V6_12), 1024);
            assert_eq!(next.map(|opp| fine[opp]), Some(mhz * 1_000), "{util}");
        }
    }

    #[test]
    fn the_rate_limit_is_the_drivers_or_follows_from_the_latency() {
        let clock = |ns, delay_us: Option<i64>| Clock {
            transition_latency: Duration(ns),
            transition_delay: delay_us.map(Duration::from_us),
            has_fast_switch: false,
        };
        for (clock, old_us, new_us) in [
            (clock(0, None), 1_000, 1_000),
            (clock(999, None), 1_000, 1_000),
            (clock(1_000, None), 1_000, 1),
            (clock(5_000, None), 5_000, 7),
            (clock(500_000, None), 10_000, 750),
            (clock(500_000, Some(2_000)), 2_000, 2_000),
        ] {
            assert_eq!(rate_limit(&clock, Release::V6_1), Duration::from_us(old_us), "{clock:?}");
            assert_eq!(rate_limit(&clock, Release::V6_12), Duration::from_us(new_us), "{clock:?}");
        }
    }

    #[test]
    fn the_limit_counts_from_the_last_change() {
        let mut governor = Schedutil::new(Release::V6_12, opps(), Duration(1_000));
        assert!(!governor.is_due(Instant(999)) && governor.is_due(Instant(1_000)));
        assert_eq!(governor.update_shared(Instant(1_000), 512, 1024), Some(1));
        assert!(!governor.is_due(Instant(1_999)));
        assert_eq!(governor.update_shared(Instant(2_000), 500, 1024), None, "the same OPP");
        assert!(governor.is_due(Instant(2_001)), "looking is not changing");
    }

    #[test]
    fn clamps_and_boosts_come_before_the_headroom_in_6_1_and_after_it_in_6_12() {
        let clamped = |util, min, max| CpuDemand { clamp: Clamp { min, max }, ..demand(util) };
        let both = |demand: CpuDemand| {
            let old = with_headroom(demand.performance(Release::V6_1));
            (old, demand.performance(Release::V6_12))
        };
        assert_eq!(both(clamped(800, 0, 512)), (640, 512));
        assert_eq!(both(clamped(0, 512, 1024)), (640, 512));
        assert_eq!(both(clamped(400, 0, 1024)), (500, 500));
        // A boost is clamped with 6.1; with 6.12 it gets the headroom, and both are clamped.
        let boosted = |max| CpuDemand { boost: 600, ..clamped(100, 0, max) };
        // A least performance is above the greatest clamp; as with clamps, 6.1's headroom comes
        // after.
        let least = |max| CpuDemand { perf_min: 600, ..clamped(100, 0, max) };
        assert_eq!((both(least(1024)), both(least(300))), ((750, 600), (750, 600)));
        assert_eq!((both(boosted(1024)), both(boosted(300))), ((750, 750), (375, 300)));
    }

    #[test]
    fn a_cpu_alone_that_has_not_idled_keeps_its_frequency() {
        for release in Release::ALL {
            let mut governor = Schedutil::new(release, opps(), Duration::ZERO);
            let mut next = |util, idle_calls, is_capped| {
                governor.update_single(Instant(0), &demand(util), idle_calls, is_capped)
            };
            assert_eq!(next(700, 0, false), Some(3));
            assert_eq!(next(100, 0, false), None, "not idle since");
            assert_eq!(next(100, 1, false), Some(0), "idle since");
            assert_eq!(next(700, 1, false), Some(3), "up at any time");
            assert_eq!(next(100, 1, true), Some(0), "capped, so down at any time");
        }
    }
}
