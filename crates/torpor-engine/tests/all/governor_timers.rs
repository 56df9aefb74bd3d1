// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Governors that set themselves timers, and entries that are given up.

use crate::support::instance;
use torpor_engine::decision::{Decision, Keep, Unobserved};
use torpor_engine::idle_loop::CpuRun;
use torpor_engine::input::Span;
use torpor_engine::model::{CpuModel, SleepEnd};
use torpor_engine::policy::{Policy, Reflection};
use torpor_engine::totals::CpuTotals;
use torpor_governor::{Fault, Inputs, Selection};
use torpor_machine::units::{Duration, Instant};

fn replay<P: Policy>(policy: &mut P, spans: &[Span]) -> (Vec<Decision>, CpuTotals) {
    let model = crate::support::two_state_cpu();
    let mut keep = Keep::new(vec![usize::MAX], None);
    let mut run = CpuRun::new(&model, spans, 0);
    run.run(policy, &mut keep).unwrap();
    (keep.decisions.remove(0), run.close())
}

/// Eight sleeps of 100 us, then one of 50 ms; timers end them all.
fn burst_and_pause() -> Vec<Span> {
    let mut pairs = vec![(100, 50); 8];
    pairs.push((50_000, 50));
    crate::support::spans(&pairs)
}

fn menu(spec: &str, spans: &[Span]) -> (Vec<Decision>, CpuTotals) {
    replay(&mut instance(spec, &crate::support::two_state_cpu()), spans)
}

#[test]
fn repeat_timer_makes_the_next_choice_deep() {
    // WFI takes 1 us to leave, so that each sleep but the first begins 1 us late: the pattern is
    // 100 us, and the timer comes after 2 * (100 + 60) = 320. Seven lengths of 100 and one of 321
    // are no pattern to 3.7's detector, and the ratio is 7/8: c2, for the rest.
    let (decisions, totals) = menu("menu-3.8,typical_interval=0", &burst_and_pause());
    let pause = &decisions[8..];
    let seen: Vec<_> = pause.iter().map(|d| (d.state, d.end, d.resume.since(d.from).0)).collect();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!(seen[0], (0, SleepEnd::GovernorTimer, 321_000));
    assert_eq!((seen[1].0, seen[1].1), (1, SleepEnd::Event));
    assert_eq!(pause[1].from, pause[0].resume + Duration::from_us(5), "the interrupt takes 5 us");
    assert_eq!((totals.governor_timer_wakeups, totals.wakeups, totals.tick_wakeups), (1, 9, 0));

    let off = "menu-3.8,typical_interval=0,repeat_timer=0,general_timer=0";
    let (decisions, totals) = menu(off, &burst_and_pause());
    assert_eq!(decisions.len(), 9);
    assert_eq!((decisions[8].state, totals.governor_timer_wakeups), (0, 0));
    assert_eq!(decisions[8].resume.since(decisions[8].from), Duration::from_us(50_000));
}

#[test]
fn repeat_timer_rings_until_history_is_forgotten() {
    // 3.8's own detector leaves out the 321 us, too, while a single 100 is left: the timer expires
    // eight times before the pattern is 321 us, then eight times after 2 * (321 + 60) = 762 us,
    // and after 2 * (763 + 60) = 1646 us. A pattern of 1647 us sets the timer to 3414 us, and only
    // one of 3415 us is beyond c2's 2000.
    let (decisions, totals) = menu("menu-3.8", &burst_and_pause());
    let residency_us: Vec<i64> =
        decisions[8..].iter().map(|d| d.resume.since(d.from).0 / 1_000).collect();
    assert_eq!(residency_us[..8], [321; 8]);
    assert_eq!(residency_us[8..16], [763; 8]);
    assert_eq!(residency_us[16..24], [1_647; 8]);
    assert!(totals.governor_timer_wakeups >= 24, "{totals:?}");
}

#[test]
fn each_start_of_a_timer_costs_its_time() {
    let spans = burst_and_pause();
    let run = |start: Duration| {
        let model = CpuModel { timer_start: start, ..crate::support::two_state_cpu() };
        let mut run = CpuRun::new(&model, &spans, 0);
        run.run(&mut instance("menu-3.8", &model), &mut Unobserved).unwrap();
        (run.close(), model.costs.awake(0, start))
    };
    let ((free, _), (charged, cost)) = (run(Duration::ZERO), run(Duration(500)));
    // Each that expired had been started.
    assert!(free.governor_timer_wakeups >= 24, "{free:?}");
    assert!(free.governor_timer_starts >= free.governor_timer_wakeups, "{free:?}");
    assert_eq!(charged.governor_timer_starts, free.governor_timer_starts);
    assert!(cost.0 > 0);
    let starts = i128::from(charged.governor_timer_starts);
    assert_eq!(charged.energy.0 - free.energy.0, starts * cost.0);
}

#[test]
fn governor_timers_wake_only_their_governor() {
    for spec in ["menu-3.7", "menu-6.12", "teo-6.12"] {
        let (_, totals) = menu(spec, &burst_and_pause());
        let timers = totals.governor_timer_wakeups + totals.governor_timer_starts;
        assert_eq!((timers, totals.wakeups), (0, 9), "{spec}");
    }
}

/// Always state 0, with a timer that nobody cancels.
#[derive(Default)]
struct Forgetful {
    timer: Option<Instant>,
    fired_at: Vec<Instant>,
    sleep_lengths: Vec<Duration>,
    given_up: usize,
    reflected: usize,
}

impl Policy for Forgetful {
    fn select(&mut self, _: usize, inputs: &Inputs) -> Result<Selection, Fault> {
        self.sleep_lengths.push(inputs.sleep_length);
        Ok(Selection { state: 0, stop_tick: true, asked_sleep_length: true })
    }
    fn reflect(&mut self, _: usize, _: &Reflection) -> Result<(), Fault> {
        self.reflected += 1;
        Ok(())
    }
    fn next_timer(&self, _: usize) -> Option<Instant> {
        self.timer
    }
    fn fire_timer(&mut self, _: usize, now: Instant) -> Result<(), Fault> {
        self.fired_at.push(now);
        self.timer = None;
        Ok(())
    }
    fn gave_up(&mut self, _: usize) {
        self.given_up += 1;
    }
}

#[test]
fn armed_timer_is_a_next_event() {
    // Two sleeps of 100 us with 50 us of work. A timer at 130 us expires during the work, and is
    // found before the second decision, at 151 us (WFI takes 1 us to leave).
    let spans = crate::support::spans(&[(100, 50), (100, 50)]);
    let mut policy = Forgetful { timer: Some(Instant(130_000)), ..Forgetful::default() };
    let (_, totals) = replay(&mut policy, &spans);
    assert_eq!(policy.fired_at, [Instant(151_000)]);
    assert_eq!(totals.governor_timer_wakeups, 0);

    // One at 200 us is the next event of the second sleep, and ends it.
    let mut policy = Forgetful { timer: Some(Instant(200_000)), ..Forgetful::default() };
    let (_, totals) = replay(&mut policy, &spans);
    assert_eq!(policy.fired_at, [Instant(201_000)]);
    assert_eq!(policy.sleep_lengths[1], Duration::from_us(49));
    assert_eq!((totals.governor_timer_wakeups, totals.wakeups), (1, 2));
}

#[test]
fn entry_is_abandoned_for_immediate_work() {
    let mut spans = crate::support::spans(&[(100, 50), (0, 50), (300, 50)]);
    // WFI's exit makes the CPU 1 us late: the second span's event comes while it is busy.
    let mut policy = Forgetful::default();
    let (decisions, totals) = replay(&mut policy, &spans);
    assert_eq!((decisions.len(), policy.given_up, totals.absorbed_spans), (2, 0, 1));

    // At the moment of the decision: the governor decides, but the CPU neither sleeps nor reflects.
    let mut policy = Forgetful::default();
    let (decisions, totals) = replay(&mut policy, &spans[1..]);
    assert_eq!((policy.sleep_lengths.len(), policy.given_up, policy.reflected), (2, 1, 1));
    assert_eq!((decisions.len(), totals.absorbed_spans, totals.wakeups), (1, 1, 1));

    // An interrupt that wakes no task does not keep the CPU from its state.
    spans[1].ends_visit = false;
    let mut policy = Forgetful::default();
    let (decisions, _) = replay(&mut policy, &spans[1..]);
    assert_eq!((decisions.len(), policy.given_up), (2, 0));
}
