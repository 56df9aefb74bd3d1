// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Measures decisions per second of `torpor governor check`, with sanitizers and all of its work (generating
//! and judging sequences, comparisons, timing, shrinking), against the same sequences through
//! `Instance`, without sanitizers or judging.
//!
//! `cargo bench -p torpor-benches --bench check` measures the built-in governors, or those named with
//! `-- menu@TREE ...`. Programs are compiled before the measurement.

use std::hint::black_box;
use std::time::Instant as Clock;
use torpor_check::{Options, check, hosted};
use torpor_governor::{Catalog, Governor, GovernorSpec};
use torpor_machine::units::Hz;

const DECISIONS: u64 = 3_000_000;
const ROUNDS: usize = 3;

fn main() {
    let named = torpor_benches::named_governors();
    let catalog = Catalog::new(Default::default());
    println!(
        "{:<40} {:>10} {:>10} {:>6}  million decisions a second",
        "", "checked", "hosted", "ratio"
    );
    for name in named {
        let spec: GovernorSpec = name.parse().unwrap_or_else(|e| panic!("{e}"));
        let governor = catalog.resolve(&spec, Hz::H250).unwrap_or_else(|e| panic!("{e}"));
        let (mut checked, mut hosted) = (0_f64, 0_f64);
        for _ in 0..ROUNDS {
            checked = checked.max(checked_rate(&catalog, &spec));
            hosted = hosted.max(hosted_rate(&governor));
        }
        println!("{name:<40} {checked:>10.2} {hosted:>10.2} {:>6.2}", checked / hosted);
    }
}

fn checked_rate(catalog: &Catalog, spec: &GovernorSpec) -> f64 {
    let run = |decisions| {
        let options = Options { decisions, ..Options::default() };
        check(catalog, spec, &options, &mut |_| true).unwrap_or_else(|e| panic!("{e}"))
    };
    run(1);
    let started = Clock::now();
    let report = run(DECISIONS);
    report.decisions as f64 / started.elapsed().as_secs_f64() / 1e6
}

fn hosted_rate(governor: &Governor) -> f64 {
    let started = Clock::now();
    let (mut decisions, mut sum, mut seed) = (0_u64, 0_u64, 1);
    while decisions < DECISIONS {
        hosted(governor, seed, &mut |state, stop_tick| {
            decisions += 1;
            sum = sum.wrapping_mul(31).wrapping_add(state as u64 * 2 + u64::from(stop_tick));
        })
        .unwrap_or_else(|e| panic!("{e}"));
        seed += 1;
    }
    black_box(sum);
    decisions as f64 / started.elapsed().as_secs_f64() / 1e6
}
