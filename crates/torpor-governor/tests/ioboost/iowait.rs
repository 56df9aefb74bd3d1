// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `iowait` by hand.

use super::{MS, WAITS, instance};
use torpor_governor::{Flags, IoBoostInstance};
use torpor_units::Instant;

/// An update and an evaluation at once, as when the rate limit has passed.
fn evaluate(boost: &mut IoBoostInstance, now_ns: i64, flags: Flags) -> u32 {
    boost.update(0, Instant(now_ns), flags).unwrap();
    boost.cpu_boost(0, Instant(now_ns), 1024).unwrap()
}

#[test]
fn each_evaluation_with_a_wake_up_doubles_and_each_without_halves() {
    let mut boost = instance("iowait");
    let mut steps = |flags, count| -> Vec<u32> {
        (0..count).map(|i| evaluate(&mut boost, 1 + i * MS, flags)).collect()
    };
    assert_eq!(steps(WAITS, 6), [128, 256, 512, 1024, 1024, 1024]);
    // 1024 / 2 and so on; 64 would be less than the least.
    assert_eq!(steps(Flags::NONE, 6), [512, 256, 128, 0, 0, 0]);
}

#[test]
fn wake_ups_between_evaluations_count_once() {
    let mut boost = instance("iowait");
    for us in 0..100 {
        boost.update(0, Instant(us * 1_000), WAITS).unwrap();
    }
    assert_eq!(boost.cpu_boost(0, Instant(100_000), 1024).unwrap(), 128);
    // What is pending is used up: the next evaluation without a wake-up ends it.
    assert_eq!(evaluate(&mut boost, 200_000, Flags::NONE), 0);
}

#[test]
fn silence_of_more_than_a_tick_starts_anew() {
    // 250 Hz: 4 ms.
    for (gap_ns, after) in [(4 * MS, 512), (4 * MS + 1, 128)] {
        let mut boost = instance("iowait");
        assert_eq!(evaluate(&mut boost, MS, WAITS), 128);
        assert_eq!(evaluate(&mut boost, 2 * MS, WAITS), 256);
        assert_eq!(evaluate(&mut boost, 2 * MS + gap_ns, WAITS), after);
    }
    // Two ticks of silence are allowed if one says so.
    let mut boost = instance("iowait,silence_ticks=2");
    assert_eq!(evaluate(&mut boost, MS, WAITS), 128);
    assert_eq!(evaluate(&mut boost, 9 * MS, WAITS), 256);
}

#[test]
fn a_silent_cpu_of_the_same_clock_no_longer_counts() {
    let mut boost = instance("iowait");
    boost.update(1, Instant(MS), WAITS).unwrap();
    // The other CPU evaluates for both; this one was last heard of a tick ago, then longer.
    assert_eq!(boost.cpu_boost(1, Instant(5 * MS), 160).unwrap(), 20, "128 of 1024, of 160");
    boost.update(1, Instant(6 * MS), WAITS).unwrap();
    assert_eq!(boost.cpu_boost(1, Instant(10 * MS + 1), 160).unwrap(), 0);
}

#[test]
fn a_boost_belongs_to_its_cpu() {
    let mut boost = instance("iowait");
    evaluate(&mut boost, MS, WAITS);
    boost.update(1, Instant(MS), Flags::NONE).unwrap();
    assert_eq!(boost.cpu_boost(1, Instant(MS), 160).unwrap(), 0);
    // Neither placement nor a task knows of it.
    assert_eq!((boost.rq_boost(0).unwrap(), boost.task_boost(0).unwrap()), (0, 0));
}

#[test]
fn a_parameter_can_be_written_while_it_runs() {
    let mut boost = instance("iowait,boost_max=256");
    let steps: Vec<u32> = (1..5).map(|i| evaluate(&mut boost, i * MS, WAITS)).collect();
    assert_eq!(steps, [128, 256, 256, 256]);
    boost.set_param("boost_max", "1024").unwrap();
    assert_eq!(evaluate(&mut boost, 5 * MS, WAITS), 512);
    assert_eq!(boost.param("boost_max").as_deref(), Some("1024"));
    // Nonsense stays within what a CPU has.
    for (name, value) in [("boost_max", "4294967295"), ("rise_shift", "4294967295")] {
        boost.set_param(name, value).unwrap();
    }
    assert_eq!(evaluate(&mut boost, 6 * MS, WAITS), 1024);
}
