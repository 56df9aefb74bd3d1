// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `per-task-v2` by hand.

use super::{MS, WAITS, Waiter, instance};
use torpor_governor::{Flags, IoBoostInstance};
use torpor_units::Instant;

fn uclamp_min(waiter: &Waiter<'_>) -> u32 {
    waiter.boost.task_uclamp_min(waiter.task).unwrap()
}

/// Takes a task to level 2, with the waits that per-task takes too.
fn boosted(boost: &mut IoBoostInstance, task: usize) -> i64 {
    let mut waiter = Waiter::new(boost, task);
    waiter.begin();
    waiter.interval(0, 25);
    waiter.interval(1, 61);
    assert_eq!(uclamp_min(&waiter), 204);
    waiter.now_ns
}

#[test]
fn the_boost_is_the_tasks_uclamp_minimum() {
    let mut boost = instance("per-task-v2");
    assert!(boost.sets_uclamp_min() && !instance("per-task").sets_uclamp_min());
    boosted(&mut boost, 0);
    boost.set_uclamp_max(0, 150);
    assert_eq!(boost.task_uclamp_min(0).unwrap(), 150, "a limit is a limit");
    // Neither the runqueue nor placement learns it in another way.
    assert_eq!((boost.rq_boost(0).unwrap(), boost.task_boost(0).unwrap()), (0, 0));
}

/// 100,000 waits a second: 2501 in 25 ms. The threshold on level 1 is 2501 * 2 = 5002, and a 256th
/// of that, 19, more: 5021. A gain is more than another 5021 / 256 = 19 beyond: 5041.
#[test]
fn a_step_grows_with_the_rate() {
    for (waits, then) in [(5041, 204), (5040, 102), (5021, 102), (5020, 0)] {
        let mut boost = instance("per-task-v2");
        let mut waiter = Waiter::new(&mut boost, 0);
        waiter.begin();
        waiter.interval(0, 2501);
        assert_eq!(uclamp_min(&waiter), 102);
        waiter.interval(1, waits);
        assert_eq!(uclamp_min(&waiter), then, "{waits} waits");
    }
    // In per-task it is 5 whatever the rate: 5002 + 5, and more than 5 beyond.
    for (waits, then) in [(5013, 204), (5012, 102), (5006, 0)] {
        let mut boost = instance("per-task");
        let mut waiter = Waiter::new(&mut boost, 0);
        waiter.begin();
        waiter.interval(0, 2501);
        waiter.interval(1, waits);
        assert_eq!(boost.task_boost(0).unwrap(), then, "{waits} waits");
    }
}

#[test]
fn a_cpu_keeps_the_boost_for_a_millisecond() {
    let mut boost = instance("per-task-v2");
    let now_ns = boosted(&mut boost, 0);
    let woken_ns = now_ns + 100_000;
    boost.dequeue(0, 0, Instant(now_ns), WAITS | Flags::SLEEP).unwrap();
    boost.enqueue(0, 0, Instant(woken_ns), WAITS | Flags::WAKEUP).unwrap();
    // The task may have gone to sleep long since.
    boost.dequeue(0, 0, Instant(woken_ns + 1), WAITS | Flags::SLEEP).unwrap();
    boost.update(0, Instant(woken_ns + 900_000), Flags::NONE).unwrap();
    assert_eq!(boost.cpu_boost(0, Instant(woken_ns + MS), 1024).unwrap(), 204);
    assert_eq!(boost.cpu_boost(0, Instant(woken_ns + MS), 160).unwrap(), 160);
    assert_eq!(boost.cpu_boost(0, Instant(woken_ns + MS + 1), 1024).unwrap(), 0);
    assert_eq!(boost.cpu_boost(0, Instant(woken_ns + MS), 1024).unwrap(), 0, "it is gone");
}

#[test]
fn as_posted_updates_prolong_it_for_ever() {
    let mut boost = instance("per-task-v2,posted_hold=1");
    let now_ns = boosted(&mut boost, 0);
    for i in 0..1_000 {
        let now = Instant(now_ns + i * 4 * MS);
        boost.update(0, now, Flags::NONE).unwrap();
        assert_eq!(boost.cpu_boost(0, now, 1024).unwrap(), 204);
    }
}

#[test]
fn the_last_boosted_task_counts() {
    let mut boost = instance("per-task-v2");
    let now = Instant(boosted(&mut boost, 0).max(boosted(&mut boost, 1)));
    boost.set_uclamp_max(1, 100);
    for (task, then) in [(0, 204), (1, 100), (0, 204)] {
        boost.enqueue(0, task, now, WAITS | Flags::WAKEUP).unwrap();
        assert_eq!(boost.cpu_boost(0, now, 1024).unwrap(), then);
    }
    // One without a boost, or that did not wait for IO, changes nothing.
    boost.enqueue(0, 2, now, WAITS | Flags::WAKEUP).unwrap();
    boost.enqueue(0, 1, now, Flags::WAKEUP).unwrap();
    assert_eq!(boost.cpu_boost(0, now, 1024).unwrap(), 204);
}

#[test]
fn a_wait_of_the_whole_timeout_ends_it() {
    for (wait_ns, then) in [(10 * MS - 1, 204), (10 * MS, 0)] {
        let mut boost = instance("per-task-v2");
        let now_ns = boosted(&mut boost, 0);
        boost.dequeue(0, 0, Instant(now_ns), WAITS | Flags::SLEEP).unwrap();
        boost.enqueue(0, 0, Instant(now_ns + wait_ns), WAITS | Flags::WAKEUP).unwrap();
        assert_eq!(boost.task_uclamp_min(0).unwrap(), then, "after {wait_ns} ns");
    }
}
