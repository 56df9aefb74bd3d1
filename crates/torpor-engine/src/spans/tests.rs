// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Spans whose costs are computed by hand, on two states: 10 mW, and 20 uJ a trip and 160 us to
//! leave.

use super::bound::bounds;
use super::*;
use crate::testing;
use torpor_machine::units::CpuId;

fn cpu(spans: Vec<Span>) -> SpannedCpu {
    let input = CpuInput { cpu: CpuId(0), spans, cut: Default::default() };
    SpannedCpu { input, cluster: 0, model: testing::two_state_cpu() }
}

#[test]
fn a_choice_costs_one_sleep() {
    let cpu = cpu(testing::spans(&[(1_500, 400), (2_500, 100)]));
    let long = &cpu.input.spans[1];
    let (shallow, verdict) = cpu.choice(long, 0);
    // 2501 us of 10 mW, the exit included.
    assert_eq!((shallow.energy.as_uj_f64(), shallow.delay), (25.01, Duration::from_us(1)));
    assert_eq!(verdict, Verdict::Below);
    let (deep, verdict) = cpu.choice(long, 1);
    assert_eq!((deep.energy.as_uj_f64(), deep.delay), (20.0, Duration::from_us(160)));
    assert_eq!(verdict, Verdict::Fit);
    assert_eq!(cpu.choice(&cpu.input.spans[0], 1).1, Verdict::Above);
    let known = cpu.known(1);
    assert_eq!(known.busy, Some(Duration::from_us(400)));
    assert_eq!(known.last, [Some(Duration::from_us(1_500)), None, None]);
    assert_eq!(cpu.known(0).busy, None);
}

/// Alternates sleeps of 0.3 ms and 9 ms without timers: the last length predicts the next.
fn alternating() -> SpannedCpu {
    // Each begins equally long before a tick.
    let pairs = [(300, 3_700), (9_000, 3_000)];
    let pairs: Vec<(i64, i64)> = (0..1_000).map(|n| pairs[n % 2]).collect();
    let mut spans = testing::spans(&pairs);
    for span in &mut spans {
        (span.next_hrtimer, span.next_wheel) = (Instant::NEVER, Instant::NEVER);
    }
    cpu(spans)
}

#[test]
fn more_knowledge_never_costs_more() {
    let cpus = [alternating()];
    let delay = Duration::from_us(90);
    let found = bounds(&cpus, delay);
    assert_eq!(found.len(), 6);
    for bound in &found {
        let [energy, late] = bound.in_sample.unwrap();
        assert!(energy > 0.0 && late <= 90.0, "{bound:?}");
        assert!(bound.cross_validated.unwrap()[1] <= 90.0);
    }
    let energy = |n: usize| found[n].in_sample.unwrap()[0];
    // 500 long ones in the deep state for 20 uJ; 500 short ones at 10 mW, of which all but the
    // first begin 160 us late.
    let best = 500.0 * 20.0 + 499.0 * 1.41 + 3.01;
    assert!((energy(2) - best).abs() < 1e-6, "{} {best}", energy(2));
    assert!(found[2].cross_validated.unwrap()[0] < 1.01 * best);
    assert!(energy(0) > 1.5 * best, "the last length is worth much: {}", energy(0));
    assert!(energy(1) < energy(0), "a timer of 0.3 ms distinguishes them: {}", energy(1));
}

#[test]
fn impossible_delay_has_no_bound() {
    let found = bounds(&[alternating()], Duration::ZERO);
    assert!(found.iter().all(|bound| bound.in_sample.is_none()));
}
