// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `per-task` by hand: intervals of 25 ms times level + 1, 102 of utilization a level.

use super::support::Rng;
use super::{MS, WAITS, Waiter, instance};
use torpor_governor::Flags;
use torpor_units::Instant;

/// The level, shown by what placement takes the task for.
fn level(waiter: &Waiter<'_>) -> u32 {
    let boost = waiter.boost.task_boost(waiter.task).unwrap();
    assert_eq!(boost % 102, 0);
    boost / 102
}

/// Takes a fresh task to a level with the fewest waits that do it.
///
/// 25 are the floor. Each rise asks for the count at the longer interval, plus 5, and the next
/// rise for more than 5 beyond that, so from 25: 25 * 2 / 1 + 5 = 55, so 61; 61 * 3 / 2 + 5 = 96,
/// so 102; 102 * 4 / 3 + 5 = 141, so 147; and so on. On level 8 the threshold is
/// 347 * 9 / 8 + 5 = 395.
const FEWEST: [i64; 8] = [25, 61, 102, 147, 194, 243, 294, 347];
const THRESHOLD_8: i64 = 395;

fn climb(waiter: &mut Waiter<'_>, to: usize) {
    waiter.begin();
    for (at, waits) in FEWEST.iter().enumerate().take(to) {
        assert_eq!(level(waiter), at as u32);
        waiter.interval(at as i64, *waits);
    }
    assert_eq!(level(waiter), to as u32);
}

#[test]
fn a_level_takes_its_interval() {
    let mut boost = instance("per-task");
    let mut waiter = Waiter::new(&mut boost, 0);
    climb(&mut waiter, 8);
    // 25 + 50 + ... + 200 ms, from the first wait at 1 ms on.
    assert_eq!(waiter.start_ns, 901 * MS);
    let now = Instant(waiter.now_ns);
    // 816: with schedutil's headroom of a quarter 1020 of 1024.
    assert_eq!(boost.cpu_boost(0, now, 1024).unwrap(), 816);
    assert_eq!(boost.rq_boost(0).unwrap(), 816);
}

#[test]
fn a_wait_less_and_the_level_does_not_rise() {
    for (at, fewest) in FEWEST.iter().enumerate() {
        let mut boost = instance("per-task");
        let mut waiter = Waiter::new(&mut boost, 0);
        climb(&mut waiter, at);
        waiter.interval(at as i64, fewest - 1);
        assert_eq!(level(&waiter), at as u32, "at level {at}");
    }
}

#[test]
fn fewer_than_a_thousand_waits_a_second_give_nothing() {
    let mut boost = instance("per-task");
    let mut waiter = Waiter::new(&mut boost, 0);
    // 900 a second; 25 waits would take 26.7 ms.
    for _ in 0..9_000 {
        waiter.wait(1_111_111);
        assert_eq!(level(&waiter), 0);
    }
    // 1000 a second: the 26th wait ends the interval.
    let mut waiter = Waiter::new(&mut boost, 1);
    for _ in 0..26 {
        assert_eq!(level(&waiter), 0);
        waiter.wait(MS);
    }
    assert_eq!(level(&waiter), 1);
}

#[test]
fn a_rate_that_no_boost_changes_hovers_at_the_bottom() {
    let mut boost = instance("per-task");
    let mut waiter = Waiter::new(&mut boost, 0);
    // 20,000 a second, whatever the level: 501 waits in 25 ms lead to level 1 and ask for
    // 501 * 2 + 5 = 1007 in 50 ms, where there are 1001.
    let mut seen = [0_u32; 9];
    for _ in 0..200_000 {
        waiter.wait(50_000);
        seen[level(&waiter) as usize] += 1;
    }
    assert_eq!(seen[2..], [0; 7]);
    // 25 ms without, 50 ms with.
    assert!(seen[0].abs_diff(66_667) < 700 && seen[1].abs_diff(133_333) < 700, "{seen:?}");
}

#[test]
fn the_highest_level_is_held_by_what_was_reached() {
    for (waits, then) in [(THRESHOLD_8, 8), (THRESHOLD_8 - 1, 7)] {
        let mut boost = instance("per-task");
        let mut waiter = Waiter::new(&mut boost, 0);
        climb(&mut waiter, 8);
        waiter.interval(8, waits);
        assert_eq!(level(&waiter), then, "{waits} waits");
    }
    // More moves the threshold up: after 500, fewer than 495 are a loss.
    for (waits, then) in [(495, 8), (494, 7)] {
        let mut boost = instance("per-task");
        let mut waiter = Waiter::new(&mut boost, 0);
        climb(&mut waiter, 8);
        waiter.interval(8, 500);
        waiter.interval(8, waits);
        assert_eq!(level(&waiter), then, "500, then {waits} waits");
    }
}

/// The patch's comment has level 8 held from 1,567 waits a second on: 1000 to begin, and 5 more an
/// interval for each level, 200 + 125 + 66 + 50 + 40 + 33 + 28 + 25. Its arithmetic asks for 10 a
/// level (5 in the threshold, 5 beyond it), which is 1,751 (394 periods in 225 ms). At 1,567 the
/// level falls; but a fall adjusts the threshold by 7/8 where the interval shrinks by 8/9, so the
/// same rate then looks like a gain, and the level rises again: it alternates.
#[test]
fn the_rate_of_the_patchs_comment_alternates_between_the_two_highest() {
    let mut boost = instance("per-task");
    let mut waiter = Waiter::new(&mut boost, 0);
    climb(&mut waiter, 8);
    let mut seen = Vec::new();
    while seen.len() < 9 {
        let before = level(&waiter);
        waiter.wait(638_162);
        if level(&waiter) != before {
            seen.push(level(&waiter));
        }
    }
    assert_eq!(seen, [7, 8, 7, 8, 7, 8, 7, 8, 7]);

    let mut waiter = Waiter::new(&mut boost, 1);
    climb(&mut waiter, 8);
    for _ in 0..10_000 {
        waiter.wait(571_102);
        assert_eq!(level(&waiter), 8, "1,751 a second hold it");
    }
}

#[test]
fn a_loss_falls_and_heavy_loss_ends_it() {
    let mut boost = instance("per-task");
    let mut waiter = Waiter::new(&mut boost, 0);
    climb(&mut waiter, 3);
    // On level 3 the threshold is 102 * 4 / 3 + 5 = 141.
    waiter.interval(3, 140);
    assert_eq!(level(&waiter), 2);
    // 140 * 2 / 3 - 5 = 88: that many are no loss, 93 no gain.
    waiter.interval(2, 88);
    waiter.interval(2, 93);
    assert_eq!(level(&waiter), 2);
    waiter.interval(2, 87);
    assert_eq!(level(&waiter), 1);
    waiter.interval(1, 37);
    assert_eq!(level(&waiter), 0, "87 / 2 - 5 = 38");

    let mut waiter = Waiter::new(&mut boost, 1);
    climb(&mut waiter, 6);
    waiter.interval(6, 24);
    assert_eq!(level(&waiter), 0, "no heavy IO at all");
}

#[test]
fn as_first_posted_a_loss_rises() {
    let mut boost = instance("per-task,posted_fall=1");
    let mut waiter = Waiter::new(&mut boost, 0);
    climb(&mut waiter, 3);
    waiter.interval(3, 140);
    assert_eq!(level(&waiter), 4);
    for at in 4..8 {
        waiter.interval(at, 100);
    }
    assert_eq!(level(&waiter), 8);
    waiter.interval(8, 100);
    assert_eq!(level(&waiter), 8, "there is no level beyond");
}

#[test]
fn a_long_wait_and_a_sleep_for_something_else_end_it() {
    for (wait_ns, then) in [(10 * MS, 2), (10 * MS + 1, 0)] {
        let mut boost = instance("per-task");
        let mut waiter = Waiter::new(&mut boost, 0);
        climb(&mut waiter, 2);
        waiter.wait(wait_ns);
        assert_eq!(level(&waiter), then, "after {wait_ns} ns");
    }
    let mut boost = instance("per-task");
    let mut waiter = Waiter::new(&mut boost, 0);
    climb(&mut waiter, 2);
    let now = Instant(waiter.now_ns);
    waiter.boost.dequeue(0, 0, now, Flags::SLEEP).unwrap();
    assert_eq!(level(&waiter), 0);
    // The interval is gone too: the next 25 ms begin with the next wait.
    waiter.boost.enqueue(0, 0, now, Flags::WAKEUP).unwrap();
    climb(&mut waiter, 1);
}

#[test]
fn a_runqueue_has_the_highest_boost_of_those_on_it() {
    let mut boost = instance("per-task");
    climb(&mut Waiter::new(&mut boost, 0), 2);
    let mut waiter = Waiter::new(&mut boost, 1);
    climb(&mut waiter, 4);
    let now = Instant(waiter.now_ns);
    assert_eq!(boost.rq_boost(0).unwrap(), 4 * 102);
    // While it waits, its boost is not wanted there.
    boost.dequeue(0, 1, now, WAITS | Flags::SLEEP).unwrap();
    assert_eq!((boost.rq_boost(0).unwrap(), boost.task_boost(1).unwrap()), (204, 408));
    boost.dequeue(0, 0, now, Flags::SLEEP).unwrap();
    assert_eq!((boost.rq_boost(0).unwrap(), boost.task_boost(0).unwrap()), (0, 0));
    // Woken up elsewhere, it is boosted there at once, as far as that CPU goes.
    boost.enqueue(1, 1, now, WAITS | Flags::WAKEUP).unwrap();
    assert_eq!((boost.rq_boost(0).unwrap(), boost.rq_boost(1).unwrap()), (0, 408));
    assert_eq!(boost.cpu_boost(1, now, 160).unwrap(), 160);
}

#[test]
fn a_move_takes_the_boost_along_and_is_no_wait() {
    let mut boost = instance("per-task");
    let mut waiter = Waiter::new(&mut boost, 0);
    climb(&mut waiter, 2);
    let start = waiter.start_ns;
    // A hundred moves, as of a balancer; also long after the last wait, while it runs.
    for i in 0..100 {
        let now = Instant(start + i * MS / 2);
        // A task that has woken up but not yet run still looks as if it waited.
        let flags = WAITS.when(i % 2 == 0);
        waiter.boost.dequeue(waiter.slot, 0, now, flags).unwrap();
        assert_eq!(waiter.boost.rq_boost(waiter.slot).unwrap(), 0, "nothing stays behind");
        waiter.slot = 1 - waiter.slot;
        waiter.boost.enqueue(waiter.slot, 0, now, flags).unwrap();
        assert_eq!(waiter.boost.rq_boost(waiter.slot).unwrap(), 204, "nothing is to be learned");
    }
    // Counted as waits, the moves would have been a gain.
    waiter.interval(2, 96);
    assert_eq!(level(&waiter), 2);
}

#[test]
fn constants_are_parameters() {
    let mut boost = instance("per-task,levels=1,level_util=500,interval_ms=50,waits_min=10");
    let mut waiter = Waiter::new(&mut boost, 0);
    // 10 waits in 50 ms.
    (0..12).for_each(|_| waiter.wait(5 * MS));
    assert_eq!(waiter.boost.task_boost(0).unwrap(), 500);
    // Beyond what there is nothing goes.
    for (name, value) in [("levels", "1000"), ("level_util", "4000000000")] {
        waiter.boost.set_param(name, value).unwrap();
    }
    assert_eq!(waiter.boost.task_boost(0).unwrap(), 1024);
    waiter.boost.set_param("levels", "0").unwrap();
    waiter.boost.reset_task(1);
    let mut waiter = Waiter::new(&mut boost, 1);
    (0..1_000).for_each(|_| waiter.wait(MS));
    assert_eq!(boost.task_boost(1).unwrap(), 0);
}

/// Whatever tasks do: a runqueue has the highest boost of those on it, and no other.
#[test]
fn a_runqueue_never_keeps_or_loses_a_boost() {
    let mut boost = instance("per-task,interval_ms=1,waits_min=3,waits_step=1");
    let mut rng = Rng::new(0x7045_0002);
    let mut queue_of = [None; 4];
    let (mut now_ns, mut highest) = (MS, [0; 9]);
    for _ in 0..300_000 {
        now_ns += rng.magnitude(20);
        let now = Instant(now_ns);
        let (task, slot) = (rng.below(4) as usize, rng.below(2) as usize);
        let io = WAITS.when(!rng.one_in(300));
        queue_of[task] = match queue_of[task] {
            None => {
                boost.enqueue(slot, task, now, io | Flags::WAKEUP).unwrap();
                Some(slot)
            }
            Some(here) if rng.one_in(10) => {
                boost.dequeue(here, task, now, io).unwrap();
                boost.enqueue(slot, task, now, io).unwrap();
                Some(slot)
            }
            Some(here) => {
                boost.dequeue(here, task, now, io | Flags::SLEEP).unwrap();
                None
            }
        };
        for slot in 0..2 {
            let there = (0..4).filter(|task| queue_of[*task] == Some(slot));
            let wanted = there.map(|task| boost.task_boost(task).unwrap()).max().unwrap_or(0);
            assert_eq!(boost.rq_boost(slot).unwrap(), wanted, "{queue_of:?}");
            highest[wanted as usize / 102] += 1;
        }
    }
    assert!(highest.iter().all(|n| *n > 1_000), "each level was met: {highest:?}");
}
