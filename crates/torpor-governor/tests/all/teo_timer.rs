// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `teo,own_timer=1`: when its timer is set, and how a sleep continues after it.

use crate::support::lone::{FAR_US, Lone};
use torpor_machine::units::Duration;

const SPEC: &str = "teo,own_timer=1";

/// Sleeps of 100 us with a far timer make the next choice shallow; the long ones before them all
/// reached their timer.
fn interrupted(spec: &str) -> Lone {
    let mut cpu = Lone::new(spec);
    cpu.sleep_all(&[(20_000, 20_000); 4]);
    cpu.sleep_all(&[(FAR_US, 100); 12]);
    cpu
}

fn fire(cpu: &mut Lone, after_us: i64) {
    cpu.now += Duration::from_us(after_us);
    cpu.governor.fire_timer(0, cpu.now).unwrap();
    cpu.governor.set_last_residency(0, Duration::from_us(after_us));
    cpu.governor.reflect(0, 0, cpu.now, false).unwrap();
}

#[test]
fn shallow_choice_ends_when_the_deep_state_pays() {
    let mut cpu = interrupted(SPEC);
    assert_eq!(cpu.select(FAR_US).state, 0);
    assert_eq!(cpu.alarm_us(), Some(2_000));
    fire(&mut cpu, 2_001);
    cpu.now += Duration::from_us(5);
    let choice = cpu.select(FAR_US - 2_006);
    assert_eq!((choice.state, cpu.alarm_us()), (1, None), "one timer a sleep");
}

#[test]
fn it_is_off_by_default() {
    let mut cpu = interrupted("teo");
    assert_eq!((cpu.select(FAR_US).state, cpu.alarm_us()), (0, None));
}

#[test]
fn work_after_the_timer_ends_the_sleep() {
    let mut cpu = interrupted(SPEC);
    cpu.select(FAR_US);
    fire(&mut cpu, 2_001);
    cpu.now += Duration::from_us(50);
    let choice = cpu.select(FAR_US);
    assert_eq!(choice.state, 0, "a new sleep, and most are short");
}

#[test]
fn own_timer_is_not_set_near_another_timer() {
    let mut cpu = interrupted(SPEC);
    assert_eq!((cpu.select(3_999).state, cpu.alarm_us()), (0, None));
    let mut cpu = interrupted(SPEC);
    assert_eq!((cpu.select(4_000).state, cpu.alarm_us()), (0, Some(2_000)));
}

#[test]
fn no_timer_if_long_sleeps_miss_their_timers() {
    // All that lasted 2 ms ended soon after, long before their timer.
    let mut cpu = Lone::new(SPEC);
    cpu.sleep_all(&[(FAR_US, 100); 12]);
    for _ in 0..4 {
        cpu.sleep_all(&[(FAR_US, 2_500), (FAR_US, 100), (FAR_US, 100), (FAR_US, 100)]);
    }
    let choice = cpu.select(FAR_US);
    assert_eq!((choice.state, cpu.alarm_us()), (0, None));
}
