// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `tide`: worked examples of its plans, its own timer and the price of latency.

use crate::support::lone::{FAR_US, Lone};
use crate::support::resolve;
use torpor_governor::Selection;
use torpor_machine::units::{Duration, Hz};

#[test]
fn uninterrupted_cpu_goes_deep_at_once() {
    let mut cpu = Lone::new("tide");
    cpu.sleep_all(&[(10_000, 10_000); 20]);
    let choice = cpu.select(10_000);
    assert_eq!((choice.state, choice.stop_tick), (1, true));
}

#[test]
fn state_that_pays_after_the_timer_is_skipped() {
    let mut cpu = Lone::new("tide");
    let choice = cpu.select(1_900);
    assert_eq!((choice.state, cpu.alarm_us()), (0, None));
    assert!(!choice.stop_tick, "the timer comes before the tick");
}

#[test]
fn short_sleeps_are_shallow_and_long_ones_end_deep() {
    let mut cpu = Lone::new("tide");
    cpu.sleep_all(&[(FAR_US, 100); 60]);
    let choice = cpu.select(FAR_US);
    assert_eq!(choice.state, 0);
    // Nothing is known about sleeps that outlast the octave of 100 us, which ends at 131: one in 32
    // ends in each octave. C2 costs 2000 us of WFI to enter, and the wake-up a quarter of that. To
    // wait one octave more saves a 32nd of these 2500 us, 78, and costs its length in WFI, 131.
    assert_eq!(cpu.alarm_us(), Some(131));

    cpu.now += Duration::from_us(132);
    cpu.governor.fire_timer(0, cpu.now).unwrap();
    cpu.governor.set_last_residency(0, Duration::from_us(132));
    cpu.governor.reflect(0, 0, cpu.now, false).unwrap();
    cpu.now += Duration::from_us(5);
    assert_eq!(cpu.select(FAR_US - 137).state, 1, "the sleep goes on, and nothing ends it");
}

#[test]
fn own_timer_can_be_switched_off() {
    let mut cpu = Lone::new("tide,own_timer=0");
    cpu.sleep_all(&[(FAR_US, 100); 60]);
    cpu.select(FAR_US);
    assert_eq!(cpu.alarm_us(), None);
}

#[test]
fn dear_latency_wakes_before_a_known_timer() {
    // All latency is too much for a share of 0, so its price rises; C2 is left 160 us and a margin
    // of 5 us before the timer. Without own timers there is nothing to do but to stay shallow.
    let deep = |spec: &str| {
        let mut cpu = Lone::new(spec);
        cpu.sleep_all(&[(20_000, 20_000); 60]);
        (cpu.select(20_000).state, cpu.alarm_us())
    };
    assert_eq!(deep("tide,share_pct=0"), (1, Some(19_835)));
    assert_eq!(deep("tide,share_pct=0,own_timer=0").1, None);
}

#[test]
fn timer_wakeups_do_not_raise_the_hazard() {
    // 300 us each: ended by an interrupt they are a hazard, by a timer they are not.
    let after = |timer_us| {
        let mut cpu = Lone::new("tide");
        cpu.sleep_all(&[(timer_us, 300); 60]);
        cpu.select(FAR_US).state
    };
    assert_eq!((after(300), after(FAR_US)), (1, 0));
}

#[test]
fn a_latency_limit_is_respected_after_any_history() {
    let mut cpu = Lone::new("tide");
    cpu.sleep_all(&[(FAR_US, 50_000); 40]);
    assert_eq!(cpu.select(FAR_US).state, 1);
    cpu.wake(Selection { state: 1, stop_tick: true, asked_sleep_length: true }, 50_000);
    let choice = cpu.select_within(FAR_US, Some(Duration::from_us(100)));
    assert_eq!((choice.state, cpu.alarm_us()), (0, None));
}

#[test]
fn share_pct_limits_the_latency_spent() {
    // Sleeps of 3 ms are worth C2 for what hindsight spends; asked for none of it, the price rises
    // until WFI is cheaper.
    let deep = |spec: &str| {
        let mut cpu = Lone::new(spec);
        (0..200)
            .filter(|_| {
                let choice = cpu.select(FAR_US);
                cpu.wake(choice, 3_000);
                cpu.now += Duration::from_us(1_000);
                choice.state == 1
            })
            .count()
    };
    let (all, none) = (deep("tide"), deep("tide,share_pct=0"));
    assert!(all > 150 && none < all / 2, "{all} and {none} of 200");
}

#[test]
fn per_cpu_data_has_at_most_1_kib() {
    let governor = resolve("tide", Hz::H250);
    assert!((100..=1_024).contains(&governor.percpu_bytes()), "{}", governor.percpu_bytes());
}
