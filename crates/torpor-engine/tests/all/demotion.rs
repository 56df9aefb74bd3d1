// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Hardware that enters a shallower state than the one requested.

use crate::support::{instance, state};
use torpor_engine::decision::{Decision, Keep};
use torpor_engine::idle_loop::CpuRun;
use torpor_engine::totals::CpuTotals;
use torpor_machine::platform::Demotion;
use torpor_machine::units::Duration;

/// C1 at 100 mW, 2 us to leave; C6 at 10 mW, 85 us to leave, 18 uJ a trip (200 us at 90 mW).
fn replay(undemote: Option<Duration>) -> (Vec<Decision>, CpuTotals) {
    let mut cluster = crate::support::two_state_cluster();
    cluster.idle_states = vec![state("C1", 0, 2, 2, 100.0), state("C6", 0, 85, 200, 10.0)];
    // Two sleeps of less than 200 us.
    let rule = Demotion { to: 0, after: 2, short: Duration::from_us(200), undemote };
    cluster.idle_states[1].demotion = Some(rule);
    let model = crate::support::model(&cluster);
    // Four sleeps of 100 us, one of 20 ms, one of 100 us.
    let mut pairs = vec![(100, 50); 4];
    pairs.extend([(20_000, 50), (100, 50)]);
    let spans = crate::support::spans(&pairs);
    let mut keep = Keep::new(vec![usize::MAX], None);
    let mut run = CpuRun::new(&model, &spans, 0);
    run.run(&mut instance("deepest", &model), &mut keep).unwrap();
    (keep.decisions.remove(0), run.close())
}

#[test]
fn long_sleep_ends_demotion_by_short_ones() {
    let (decisions, totals) = replay(None);
    assert!(decisions.iter().all(|d| d.state == 1), "the governor always asks for C6");
    // The long sleep is in C1 to its end, but ends the demotion.
    let got: Vec<u8> = decisions.iter().map(|d| d.got).collect();
    assert_eq!(got, [1, 1, 0, 0, 0, 1]);
    // 85 us for C6, 2 us for C1.
    let latency: Vec<i64> =
        decisions.iter().map(|d| d.latency.expect("all are woken").0 / 1_000).collect();
    assert_eq!(latency, [85, 85, 2, 2, 2, 85]);
    // Each sleep begins late by the latency of the one before.
    let us = |n: i64| Duration::from_us(n);
    let lengths: Vec<Duration> = decisions.iter().map(|d| d.resume.since(d.from)).collect();
    assert_eq!(lengths, [us(185), us(100), us(17), us(100), us(20_000), us(183)]);
    let [c1, c6] = [0, 1].map(|state| totals.states[state]);
    assert_eq!((c1.usage, c6.usage, c6.demoted), (0, 6, 3));
    assert_eq!((c6.time, c6.got_time), (us(20_585), us(468)));
    assert_eq!((c1.time, c1.got_time), (us(0), us(20_117)));
    // The kernel counts requested states: all short sleeps are too deep.
    assert_eq!((c6.above, c6.below), (5, 0));
    let energy = 0.1 * 20_117.0 + 0.01 * 468.0 + 18.0 * 3.0;
    assert!((totals.energy.as_uj_f64() - energy).abs() < 1e-6, "{:?}", totals.energy);
    assert!((decisions[2].energy.as_uj_f64() - 1.7).abs() < 1e-6, "17 us of C1 at 100 mW");
}

#[test]
fn idle_demoted_cpu_goes_deep_by_itself() {
    let (decisions, totals) = replay(Some(Duration::from_us(1_000)));
    let got: Vec<u8> = decisions.iter().map(|d| d.got).collect();
    assert_eq!(got, [1, 1, 0, 0, 1, 1]);
    assert_eq!(decisions[4].latency, Some(Duration::from_us(85)));
    // 117 us as before and 1 ms of the long one.
    let (c1, c6) = (totals.states[0], totals.states[1]);
    assert_eq!((c1.got_time, c6.demoted), (Duration::from_us(1_117), 3));
    // The last one begins 85 us late instead of 2.
    let deep = 185.0 + 100.0 + 19_083.0 + 100.0;
    let energy = 0.1 * 1_117.0 + 0.01 * deep + 18.0 * 4.0;
    assert!((totals.energy.as_uj_f64() - energy).abs() < 1e-6, "{:?}", totals.energy);
}
