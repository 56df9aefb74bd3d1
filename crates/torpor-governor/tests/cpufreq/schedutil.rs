// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `schedutil` by hand.

use super::{Machine, OPPS_KHZ, busy, instance};
use torpor_governor::{CpufreqCpu, CpufreqInstance};
use torpor_units::{Duration, Instant};

const RELEASES: [&str; 2] = ["schedutil@6.1", "schedutil@6.12"];

fn asked(
    policy: &mut CpufreqInstance,
    domain: usize,
    now_ns: i64,
    cpu: CpufreqCpu,
) -> Option<usize> {
    policy.show(domain, 0, cpu);
    policy.update(domain, 0, Instant(now_ns), false).unwrap()
}

/// The first answer to a CPU in a machine whose OPPs are 1 MHz apart, in thousandths.
fn wanted(release: &str, cpu: CpufreqCpu) -> usize {
    let fine: Vec<u32> = (1..=1_024).map(|mhz| mhz * 1_000).collect();
    let mut policy = Machine::new(&fine).run(release).unwrap();
    asked(&mut policy, 0, 0, cpu).map_or(0, |opp| opp + 1)
}

#[test]
fn half_a_cpu_asks_for_five_eighths_and_what_waits_counts_since_6_5() {
    for release in RELEASES {
        assert_eq!(
            [0, 512, 816, 1024].map(|util| wanted(release, busy(util))),
            [0, 640, 1020, 1024]
        );
    }
    let waiting = CpufreqCpu { runnable: 512, ..busy(100) };
    assert_eq!(RELEASES.map(|release| wanted(release, waiting)), [125, 640]);
}

#[test]
fn clamps_and_boosts_come_before_the_headroom_in_6_1_and_after_it_in_6_12() {
    let clamped = |util, min, max| CpufreqCpu { uclamp_min: min, uclamp_max: max, ..busy(util) };
    let both = |cpu: CpufreqCpu| RELEASES.map(|release| wanted(release, cpu));
    assert_eq!(both(clamped(800, 0, 512)), [640, 512]);
    assert_eq!(both(clamped(0, 512, 1024)), [640, 512]);
    assert_eq!(both(clamped(400, 0, 1024)), [500, 500]);
    // A boost is clamped with 6.1; with 6.12 it gets the headroom, and both are clamped.
    let boosted = |max| CpufreqCpu { boost: 600, ..clamped(100, 0, max) };
    // A least performance is above the greatest clamp; as with clamps, 6.1's headroom comes after.
    let least = |max| CpufreqCpu { perf_min: 600, ..clamped(100, 0, max) };
    assert_eq!((both(least(1024)), both(least(300))), ([750, 600], [750, 600]));
    assert_eq!((both(boosted(1024)), both(boosted(300))), ([750, 750], [375, 300]));
}

#[test]
fn the_busiest_cpu_of_a_clock_decides() {
    let mut policy = instance("schedutil");
    policy.show(0, 1, busy(700));
    assert_eq!(asked(&mut policy, 0, 0, busy(10)), Some(3), "the other CPU's 700");
    assert_eq!(policy.performance(0).unwrap(), 875);
    policy.show(0, 1, busy(0));
    assert_eq!(asked(&mut policy, 0, 0, busy(10)), Some(0));
}

#[test]
fn an_inefficient_opp_is_never_asked_for() {
    let mut machine = Machine::new(&OPPS_KHZ);
    [machine.opps[0].is_inefficient, machine.opps[2].is_inefficient] = [true, true];
    let mut policy = machine.run("schedutil").unwrap();
    assert_eq!(asked(&mut policy, 0, 0, busy(10)), Some(1), "250 MHz would do");
    assert_eq!(asked(&mut policy, 0, 0, busy(500)), Some(3), "625 MHz, which 750 MHz would do");
}

#[test]
fn the_rate_limit_is_the_users_or_the_drivers_or_follows_from_the_latency() {
    // When the first answer is due: as long after 0 as the limit is.
    let limit_us = |spec: &str, latency_ns, delay_us: Option<i64>| {
        let machine = Machine {
            latency: Duration(latency_ns),
            delay: delay_us.map(Duration::from_us),
            ..Machine::new(&OPPS_KHZ)
        };
        let policy = machine.run(spec).unwrap();
        let is_due = |us: i64| policy.is_due(0, Instant(us * 1_000));
        let limit = (0..20_000).find(|us| is_due(*us)).unwrap();
        assert!(limit == 0 || !policy.is_due(0, Instant(limit * 1_000 - 1)));
        limit
    };
    for (latency_ns, delay_us, expected) in [
        (0, None, [1_000, 1_000]),
        (999, None, [1_000, 1_000]),
        (1_000, None, [1_000, 1]),
        (5_000, None, [5_000, 7]),
        (500_000, None, [10_000, 750]),
        (500_000, Some(2_000), [2_000, 2_000]),
        (500_000, Some(0), [0, 0]),
    ] {
        assert_eq!(RELEASES.map(|spec| limit_us(spec, latency_ns, delay_us)), expected);
    }
    assert_eq!(limit_us("schedutil,rate_limit_us=300", 500_000, Some(2_000)), 300);
    assert_eq!(limit_us("schedutil@6.1,rate_limit_us=0", 500_000, None), 0);
}

#[test]
fn the_limit_counts_from_the_last_change() {
    let mut policy = instance("schedutil,rate_limit_us=1");
    assert!(!policy.is_due(0, Instant(999)) && policy.is_due(0, Instant(1_000)));
    assert_eq!(asked(&mut policy, 0, 1_000, busy(400)), Some(1));
    assert!(!policy.is_due(0, Instant(1_999)));
    assert_eq!(asked(&mut policy, 0, 2_000, busy(390)), None, "the same OPP");
    assert!(policy.is_due(0, Instant(2_001)), "looking is not changing");
}

#[test]
fn a_cpu_alone_that_has_not_idled_keeps_its_frequency() {
    for release in RELEASES {
        let mut policy = instance(release);
        let mut next = |util, idle_calls, uclamp_max| {
            let cpu = CpufreqCpu { util, idle_calls, uclamp_max, ..CpufreqCpu::idle(2, 512) };
            asked(&mut policy, 1, 0, cpu)
        };
        assert_eq!(next(350, 0, 1024), Some(3));
        assert_eq!(next(50, 0, 1024), None, "not idle since");
        assert_eq!(next(50, 1, 1024), Some(0), "idle since");
        assert_eq!(next(350, 1, 1024), Some(3), "up at any time");
        assert_eq!(next(50, 1, 50), Some(0), "capped, so down at any time");
    }
}
