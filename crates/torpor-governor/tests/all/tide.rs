// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `tide`: worked examples of its plans, its own timer and the price of latency.

use crate::support::lone::{FAR_US, Lone};
use crate::support::{Rng, resolve, state};
use torpor_governor::{Selection, StateDesc};
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
    // ends in each octave. C2 costs 2000 us of WFI to enter, and the wake-up an eighth of that. To
    // wait one octave more saves a 32nd of these 2250 us, 70, and costs its length in WFI, 131.
    assert_eq!(cpu.alarm_us(), Some(131));

    cpu.now += Duration::from_us(132);
    cpu.governor.fire_timer(0, cpu.now).unwrap();
    cpu.governor.set_last_residency(0, Duration::from_us(132));
    cpu.governor.reflect(0, 0, cpu.now, false).unwrap();
    cpu.now += Duration::from_us(5);
    assert_eq!(cpu.select(FAR_US - 137).state, 1, "the sleep goes on, and nothing ends it");
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
fn price_decides_between_energy_and_latency() {
    // C2 saves 1 ms of WFI in 3 ms, and takes 160 us to leave: at ten times the price, 1.6 ms.
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
    let (cheap, dear) = (deep("tide,price_pct=0"), deep("tide,price_pct=1000"));
    assert!(cheap > 150 && dear < 20, "{cheap} and {dear} of 200");
}

/// Returns the states selected, and the own timers set, in the same sleeps of all lengths.
fn decisions(states: &[StateDesc]) -> Vec<(i32, Option<i64>)> {
    let mut cpu = Lone::of_states("tide", states);
    let mut rng = Rng::new(31);
    (0..5_000)
        .map(|_| {
            let mut up_to_us = || 1 << (4 + rng.below(16));
            let (timer_us, slept_us) = (up_to_us() * 3, up_to_us());
            let choice = cpu.select(timer_us);
            let chosen = (choice.state, cpu.alarm_us());
            cpu.wake(choice, slept_us.min(timer_us));
            cpu.now += Duration::from_us(1_000);
            chosen
        })
        .collect()
}

/// WFI and two sleeping states of a phone, as a MT8196 has before its `s2idle`.
fn phone() -> Vec<StateDesc> {
    vec![
        state("WFI", 1, 1, false),
        state("cpuoff-l", 349, 6_710, false),
        state("system-bus", 3_500, 35_200, false),
    ]
}

#[test]
fn state_for_suspend_changes_no_decision() {
    let with = [phone(), vec![state("s2idle", 20_000, 4_294_967_295, false)]].concat();
    let expected = decisions(&phone());
    assert!(expected.iter().any(|d| d.0 == 2) && expected.iter().any(|d| d.1.is_some()));
    assert_eq!(decisions(&with), expected);
}

#[test]
fn disabled_deepest_state_changes_no_decision() {
    let mut with = phone();
    with[2].is_disabled = true;
    assert_eq!(decisions(&with), decisions(&phone()[..2]));
}

#[test]
fn per_cpu_data_has_at_most_128_bytes() {
    let governor = resolve("tide", Hz::H250);
    assert!((64..=128).contains(&governor.percpu_bytes()), "{}", governor.percpu_bytes());
}
