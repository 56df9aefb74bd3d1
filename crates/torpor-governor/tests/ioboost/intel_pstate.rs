// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `intel-pstate` by hand, from `intel_pstate_update_util()`.

use super::{MS, WAITS, instance};
use torpor_governor::{Flags, IoBoostInstance};
use torpor_units::Instant;

fn update(boost: &mut IoBoostInstance, now_ns: i64, flags: Flags) -> u32 {
    boost.update(0, Instant(now_ns), flags).unwrap();
    boost.cpu_boost(0, Instant(now_ns), 1024).unwrap()
}

#[test]
fn every_update_counts() {
    let mut boost = instance("intel-pstate");
    // 32, 64, 128, 256 and no more of 256; four of 1024 for each.
    let rises: Vec<u32> = (0..6).map(|n| update(&mut boost, MS + n * 1_000, WAITS)).collect();
    assert_eq!(rises, [128, 256, 512, 1024, 1024, 1024]);
    let falls: Vec<u32> =
        (0..10).map(|n| update(&mut boost, 2 * MS + n * 1_000, Flags::NONE)).collect();
    assert_eq!(falls, [512, 256, 128, 64, 32, 16, 8, 4, 0, 0]);
    // From less than an eighth it becomes an eighth.
    assert_eq!(update(&mut boost, 3 * MS, WAITS), 128);
    assert_eq!(update(&mut boost, 3 * MS, Flags::NONE), 64);
    assert_eq!(update(&mut boost, 3 * MS, WAITS), 128);
}

#[test]
fn more_than_a_tick_starts_anew() {
    // 250 Hz: 4 ms.
    for (gap_ns, waits, other) in [(4 * MS, 512, 128), (4 * MS + 1, 128, 0)] {
        for (flags, after) in [(WAITS, waits), (Flags::NONE, other)] {
            let mut boost = instance("intel-pstate");
            assert_eq!(update(&mut boost, MS, WAITS), 128);
            assert_eq!(update(&mut boost, 2 * MS, WAITS), 256);
            assert_eq!(update(&mut boost, 2 * MS + gap_ns, flags), after);
        }
    }
}

#[test]
fn a_small_cpu_gets_its_share() {
    let mut boost = instance("intel-pstate");
    boost.update(1, Instant(MS), WAITS).unwrap();
    assert_eq!(boost.cpu_boost(1, Instant(MS), 160).unwrap(), 20, "an eighth");
}
