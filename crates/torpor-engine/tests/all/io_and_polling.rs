// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! CPUs that poll, and governors that use IO waits and load.

use crate::support::instance;
use torpor_engine::decision::{Decision, Keep};
use torpor_engine::idle_loop::CpuRun;
use torpor_engine::input::Span;
use torpor_engine::model::{CpuModel, SleepEnd};
use torpor_engine::policy::Policy;
use torpor_engine::totals::CpuTotals;
use torpor_governor::{Fault, Inputs, Selection};
use torpor_machine::platform::PollLoop;
use torpor_machine::units::{Duration, Instant};

fn replay<P: Policy>(
    model: &CpuModel,
    policy: &mut P,
    spans: &[Span],
) -> (Vec<Decision>, CpuTotals) {
    let mut keep = Keep::new(vec![usize::MAX], None);
    let mut run = CpuRun::new(model, spans, 0);
    run.run(policy, &mut keep).unwrap();
    (keep.decisions.remove(0), run.close())
}

/// Stays in one state, with a polling limit.
struct Stays {
    state: i32,
    poll_limit: Duration,
}

impl Policy for Stays {
    fn select(&mut self, _: usize, _: &Inputs) -> Result<Selection, Fault> {
        Ok(Selection { state: self.state, stop_tick: false, asked_sleep_length: false })
    }

    fn poll_limit(&mut self, _: usize, _: Duration) -> Duration {
        self.poll_limit
    }
}

fn polls_for(us: i64) -> Stays {
    Stays { state: 0, poll_limit: Duration::from_us(us) }
}

fn ends(decisions: &[Decision]) -> Vec<(i64, i64, SleepEnd)> {
    decisions.iter().map(|d| (d.from.0 / 1_000, d.resume.0 / 1_000, d.end)).collect()
}

/// Two interrupts without a task, at 10 and 25 us, 5 us to handle each; a task at 60 us.
fn two_interrupts_and_a_task() -> Vec<Span> {
    let mut spans = crate::support::spans(&[(10, 5), (10, 5), (30, 5)]);
    spans[0].ends_visit = false;
    spans[1].ends_visit = false;
    spans
}

#[test]
fn interrupts_without_a_task_do_not_end_polling() {
    let (model, spans) = (crate::support::x86_cpu(), two_interrupts_and_a_task());
    let (decisions, totals) = replay(&model, &mut polls_for(100), &spans);
    assert_eq!(ends(&decisions), [(0, 60, SleepEnd::Event)]);
    assert_eq!((totals.wakeups, totals.poll_interrupts), (3, 2));
    assert_eq!((totals.states[0].usage, totals.poll_timeouts), (1, 0));
    // Each ends a sleep in any other state.
    let (decisions, totals) =
        replay(&model, &mut Stays { state: 1, poll_limit: Duration::ZERO }, &spans);
    assert_eq!((decisions.len(), totals.wakeups), (3, 3));
}

#[test]
fn poll_times_out_between_interrupts() {
    let (model, spans) = (crate::support::x86_cpu(), two_interrupts_and_a_task());
    let (decisions, totals) = replay(&model, &mut polls_for(20), &spans);
    let expected = [
        (0, 20, SleepEnd::PollTimeout),
        // From 25 to 30 us the interrupt is handled.
        (20, 40, SleepEnd::PollTimeout),
        (40, 60, SleepEnd::Event),
    ];
    assert_eq!(ends(&decisions), expected);
    assert_eq!((totals.wakeups, totals.poll_timeouts), (3, 2));
    // The limit passes while the first interrupt is handled, from 10 to 15 us.
    let (decisions, _) = replay(&model, &mut polls_for(12), &spans);
    assert_eq!(ends(&decisions)[0], (0, 15, SleepEnd::PollTimeout));
}

#[test]
fn reschedule_without_a_task_ends_polling() {
    let (model, mut spans) = (crate::support::x86_cpu(), two_interrupts_and_a_task());
    spans[0].is_resched = true;
    let (decisions, totals) = replay(&model, &mut polls_for(100), &spans);
    let expected = [(0, 10, SleepEnd::Event), (15, 60, SleepEnd::Event)];
    assert_eq!(ends(&decisions), expected);
    assert_eq!(totals.ipis_saved, 1);
}

#[test]
fn polling_cpus_need_no_interrupt() {
    let model = crate::support::x86_cpu();
    let mut spans = crate::support::spans(&[(10, 5), (10, 5), (50, 5)]);
    spans[1].is_resched = true;
    spans[2].is_resched = true;
    let (_, totals) = replay(&model, &mut polls_for(20), &spans);
    // The third span takes three polls, of which the last is found.
    assert_eq!((totals.ipis_saved, totals.poll_timeouts), (2, 2));
    let (_, totals) = replay(&model, &mut Stays { state: 1, poll_limit: Duration::ZERO }, &spans);
    assert_eq!(totals.ipis_saved, 0);
}

/// `haltpoll` starts with a halt of 61 us, from which it learns to poll for 50 us.
#[test]
fn haltpoll_limit_is_seen_at_next_clock_read() {
    let spans = crate::support::spans(&[(60, 40), (60, 40)]);
    let arm = crate::support::model(&crate::support::arm_polling_cluster());
    let (decisions, totals) = replay(&arm, &mut instance("haltpoll", &arm), &spans);
    // The event stream's next event is at 200 us, so polling catches the task at 160 us.
    assert_eq!(ends(&decisions), [(0, 61, SleepEnd::Event), (101, 160, SleepEnd::Event)]);
    assert_eq!((totals.states[0].usage, totals.states[1].usage), (1, 1));

    let mut x86 = arm;
    x86.poll_loop = Some(PollLoop::PollIdle { relax: Duration(47) });
    let (decisions, totals) = replay(&x86, &mut instance("haltpoll", &x86), &spans);
    // Checks are 9.447 us apart: the sixth is at 157.682 us, too early by 2.3 us.
    let polled = &decisions[1];
    let given_up = (Instant(157_682), SleepEnd::PollTimeout);
    assert_eq!((polled.resume, polled.end), given_up);
    assert_eq!((totals.states[0].usage, totals.states[1].usage), (1, 2));
}

#[test]
fn wfi_latency_bounds_polling_at_no_cost() {
    let arm = crate::support::model(&crate::support::arm_polling_cluster());
    assert_eq!(arm.default_poll_limit, Duration::from_us(100));
    assert_eq!(arm.states[1].exit_latency, Duration::from_us(1));
    // WFI pays off after 1 us, not after 100.
    let stay = |state, us| arm.costs.sleep(0, state, Duration::from_us(us));
    assert_eq!(stay(0, 1), stay(1, 1));
    assert!(stay(0, 50) > stay(1, 50));
}

/// The state chosen for the last of many sleeps of 2.2 ms that end by a timer. c2 takes 230 us, and
/// here pays off after 300 us.
fn chosen(governor: &str, nr_iowait: u16, nr_running: u16) -> u8 {
    let mut cluster = crate::support::two_state_cluster();
    cluster.idle_states[1].target_residency = Duration::from_us(300);
    let model = crate::support::model(&cluster);
    let mut spans = crate::support::spans(&[(2_200, 5); 24]);
    spans.iter_mut().for_each(|s| (s.nr_iowait, s.nr_running) = (nr_iowait, nr_running));
    let (decisions, _) = replay(&model, &mut instance(governor, &model), &spans);
    decisions.last().unwrap().state
}

#[test]
fn menu_multiplier_counts_io_waiters() {
    // 1 + 10 for each: 2200 us / 11 = 200 us are less than 230.
    assert_eq!((chosen("menu", 0, 0), chosen("menu", 1, 0)), (1, 0));
    assert_eq!((chosen("menu-3.7", 0, 0), chosen("menu-3.7", 1, 0)), (1, 0));
    for indifferent in ["teo", "teo-6.12", "menu-6.12", "ladder"] {
        let without = chosen(indifferent, 0, 0);
        assert_eq!(chosen(indifferent, 5, 5), without, "{indifferent}");
    }
}

#[test]
fn menu_3_8_knows_the_last_ticks_load() {
    // One task of weight 1024 reads as 0.50 in that fixed point: 1 + 2 * 5 = 11.
    assert_eq!((chosen("menu-3.7", 0, 1), chosen("menu", 0, 1)), (0, 1));
}

#[test]
fn idle_tick_finds_no_load() {
    let model = crate::support::two_state_cpu();
    struct Loads(Vec<u64>);
    impl Policy for Loads {
        fn select(&mut self, _: usize, inputs: &Inputs) -> Result<Selection, Fault> {
            self.0.push(inputs.load_avg);
            Ok(Selection { state: 0, stop_tick: false, asked_sleep_length: false })
        }
    }
    // The tick at 4 ms wakes the CPU once.
    let mut spans = crate::support::spans(&[(6_000, 5)]);
    spans[0].nr_running = 2;
    let mut loads = Loads(Vec::new());
    replay(&model, &mut loads, &spans);
    assert_eq!(loads.0, [2048, 0]);
}
