// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Load tracking against the kernel's own file: the same sums, bit for bit, update by update.
//!
//! `TORPOR_PELT_UPDATES` sets how many updates to compare with each kernel.

#[path = "../../../../tests/upstream.rs"]
mod upstream;

use std::path::{Path, PathBuf};
use torpor_engine::pelt::{Average, Clock};

const UPDATES: usize = 2_000_000;

#[test]
fn load_tracking_is_that_of_linux_6_1() {
    compare("6.1");
}

#[test]
fn load_tracking_is_that_of_linux_6_12() {
    compare("6.12");
}

/// One line to the C program: its kind, and four arguments.
type Update = [u64; 5];
type Answer = [u64; 8];

fn compare(version: &str) {
    let Some(program) = program(version) else { return };
    let count = std::env::var("TORPOR_PELT_UPDATES").map_or(UPDATES, |n| n.parse().unwrap());
    let updates = updates(count);
    let theirs = answers(&program, &updates);
    assert_eq!(theirs.len(), updates.len());
    let mut average = Average::default();
    let mut clock = (Clock::default(), 0);
    let (mut renewed, mut lost, mut expired) = (0, 0, 0);
    for (i, (update, theirs)) in updates.iter().zip(&theirs).enumerate() {
        let before = (average, clock.1);
        let ours = answer(&mut average, &mut clock, update);
        assert_eq!(ours, *theirs, "Linux {version}, update {i}: {update:?} on {before:?}");
        renewed += usize::from(average.util_avg != before.0.util_avg);
        expired += usize::from(before.0.util_sum > 0 && average.util_sum == 0);
        lost += usize::from(clock.1 != before.1);
    }
    println!("{version}: {count} updates, {renewed} renew, {expired} expire, {lost} lose time");
    // Coverage that the random updates must have reached.
    assert!(count < UPDATES || (renewed > 100_000 && expired > 100 && lost > 1_000));
}

fn answer(average: &mut Average, clock: &mut (Clock, u64), update: &Update) -> Answer {
    let [kind, now, a, b, c] = *update;
    if kind == 0 {
        if average.accumulate(now, a, b, c != 0) {
            average.average(1);
        }
        return [
            average.updated_ns,
            u64::from(average.period_units),
            average.load_sum,
            average.runnable_sum,
            u64::from(average.util_sum),
            average.load_avg,
            average.runnable_avg,
            average.util_avg,
        ];
    }
    let (time, lost_ns) = clock;
    time.advance(now, a != 0, b as u32, c as u32);
    if c >> 32 != 0 {
        time.fall_idle((c >> 32) as u32 - 1);
        // It has caught up with real time, except for lost time.
        *lost_ns = now.wrapping_sub(time.now_ns());
    }
    [time.now_ns(), 0, 0, 0, 0, 0, 0, *lost_ns]
}

/// Makes random updates, mostly at delicate gaps: below a unit, around a period's border, of a few
/// half-lives, beyond memory, and into the past.
fn updates(count: usize) -> Vec<Update> {
    let mut rng = Rng(0x7045_0001);
    let (mut now, mut real) = (0_u64, 0_u64);
    let (mut load, mut running) = (0, 0);
    (0..count)
        .map(|_| {
            if rng.below(4) == 0 {
                real += rng.gap();
                let is_idle = rng.below(4) == 0;
                let capacity = [1024, 160, 498, 1 + rng.below(1024)][rng.below(4) as usize];
                let freq = [1024, 300, 1 + rng.below(1024)][rng.below(3) as usize];
                // Around the sum from which on a CPU counts as always busy.
                let always_busy = (46_718 << 10) - 47_742;
                let util_sum = [0, always_busy - 1, always_busy, always_busy + 9_999];
                let fall = if is_idle { 0 } else { rng.below(2) };
                let sum = fall * (util_sum[rng.below(4) as usize] + 1);
                return [1, real, u64::from(is_idle), capacity, freq | sum << 32];
            }
            now = match rng.below(500) {
                0 => now.saturating_sub(rng.gap()),
                _ => now + rng.gap(),
            };
            // Phases of load and of none, as of tasks that run and sleep.
            if rng.below(3) == 0 {
                load = [0, 1, 2, 1024, rng.below(1 << 20)][rng.below(5) as usize];
                running = rng.below(2);
            }
            [0, now, load, rng.below(5), running]
        })
        .collect()
}

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    fn gap(&mut self) -> u64 {
        const PERIOD_NS: u64 = 1 << 20;
        match self.below(40) {
            0 => PERIOD_NS * (2_010 + self.below(15)) + self.below(PERIOD_NS),
            1 => self.below(1 << 34),
            2..=6 => PERIOD_NS * self.below(5) + self.below(3) * 1_024,
            7..=12 => self.below(1 << 11),
            _ => {
                let bits = 10 + self.below(17);
                self.below(1 << bits)
            }
        }
    }
}

/// Compiles the kernel's file with what it needs around it.
fn program(version: &str) -> Option<PathBuf> {
    let test = format!("load tracking against Linux {version}");
    let folder = upstream::kernel_sources(version, &test)?.join("kernel/sched");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pelt-{version}"));
    let define = if version == "6.1" { "-DUTIL_EST_STRUCT" } else { "-UUTIL_EST_STRUCT" };
    let args = ["-fno-strict-overflow", define];
    upstream::compile(&program, "tests/pelt/upstream.c", &folder, &args, &test)?;
    Some(program)
}

fn answers(program: &Path, updates: &[Update]) -> Vec<Answer> {
    let answered = upstream::answers(program, [""; 0], updates.iter().flatten().copied());
    answered.chunks_exact(8).map(|words| words.try_into().expect("eight words")).collect()
}
