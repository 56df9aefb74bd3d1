// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Driver and hardware side of a state that a governor has selected.

use crate::support::{count, count_seed, load, machine, near, polling_machine, request, run};
use torpor_machine::platform::{Demotion, Platform, Rejects};
use torpor_machine::units::Duration;
use torpor_sim::Request;
use torpor_sim::machine::Counted;

/// Work for 100 us at the start of every 10 ms: 100 sleeps a second.
const PERIODIC: &str =
    "[[task]]\nname = \"t\"\nphase = [{ run_us = 100 }, { period_us = 10000 }]\n";

/// Returns a platform whose C6 is refused; an attempt takes 5 us.
fn rejecting(pct: f64) -> Platform {
    let mut platform = machine(1, "");
    platform.clusters[0].idle_states[1].rejects = Some(Rejects { pct, time: Duration::from_us(5) });
    platform
}

fn of_deepest(pct: f64) -> Request {
    request(rejecting(pct), load(PERIODIC), &["deepest"], 1_000)
}

fn c6(counted: &Counted) -> (u64, u64) {
    let state = &counted.cpus[0].totals.states[1];
    (state.usage, state.rejected)
}

#[test]
fn rejected_entries_are_retried() {
    let counted = count(&of_deepest(50.0)).unwrap();
    let (usage, rejected) = c6(&counted);
    // One sleep for each period and a few ticks; as many attempts again, give or take chance.
    assert!((100..110).contains(&usage), "{usage}");
    assert!((60..150).contains(&rejected), "{rejected}");
    // The CPU is awake meanwhile: neither idle nor at work.
    let cpu = &counted.cpus[0];
    let idle = cpu.totals.states.iter().fold(Duration::ZERO, |sum, state| sum + state.time);
    let tried = Duration::from_us(5 * rejected as i64);
    near((idle + cpu.task_time + cpu.overhead + tried).0 as f64, counted.span.0 as f64, 1e-6);
    // At 1 W; the rest is C6's: 10 mW, and 18 uJ a sleep.
    let slept = idle.0 as f64 * 10.0 / 1e6 + 18.0 * usage as f64;
    let energy = slept + tried.0 as f64 * 1_000.0 / 1e6;
    assert!((cpu.totals.energy.as_uj_f64() - energy).abs() < 1e-3, "{energy}");
}

/// By the rows of a result: nearly all time goes to attempts that are refused.
#[test]
fn rows_of_time_add_up_with_refused_entries() {
    for pct in [0.0, 50.0, 100.0] {
        let outcome = run(&of_deepest(pct));
        let row = |key: &str| outcome.runs[0].run.metrics[key].unwrap_or(0.0);
        let (idle, refused) = (row("idle_residency_pct"), row("rejected_time_pct"));
        near(idle + refused + row("busy_pct"), 100.0, 1e-4);
        assert_eq!(refused > 90.0, pct == 100.0, "{refused}");
    }
}

#[test]
fn short_sleeps_are_noted_where_exits_are_advertised() {
    let note = |work: &str| {
        let notes = run(&request(machine(1, ""), load(work), &["deepest"], 500)).notes;
        notes.into_iter().find(|note| note.contains("advertised exit latencies:"))
    };
    // C6 takes 85 us to leave: ten are 850 us.
    let sleeping = |us: u32| {
        format!("[[task]]\nname = \"t\"\nphase = [{{ run_us = 10 }}, {{ sleep_us = {us} }}]\n")
    };
    assert!(note(&sleeping(400)).unwrap().contains("deepest 100 %"));
    assert_eq!(note(&sleeping(3_000)), None);
}

#[test]
fn rejections_depend_on_the_seed_alone() {
    let request = of_deepest(30.0);
    let counts: Vec<_> = [1, 1, 2].map(|seed| c6(&count_seed(&request, seed).unwrap())).into();
    assert_eq!(counts[0], counts[1]);
    assert_ne!(counts[0].1, counts[2].1);
}

/// A driver that always refuses leaves a CPU awake, and its work undisturbed.
#[test]
fn always_rejected_state_is_never_entered() {
    let counted = count(&of_deepest(100.0)).unwrap();
    let (usage, rejected) = c6(&counted);
    // The start finds every CPU asleep.
    assert_eq!(usage, 1);
    assert!(rejected > 100_000, "{rejected}");
    let latency = counted.kinds[0].latency.latencies();
    // An event waits for the attempt's end, and for no exit.
    let late = latency.quantile(0.9).unwrap();
    assert!(late < Duration::from_us(6), "{late}");
    assert_eq!(counted.kinds[0].wakeups, 99);
}

#[test]
fn the_oracle_is_never_rejected() {
    let asked = request(rejecting(50.0), load(PERIODIC), &["deepest", "oracle"], 1_000);
    let outcome = run(&asked);
    let metrics = &outcome.runs[0].run.metrics;
    // Attempts alone are between the two: 5 uJ each.
    let over = metrics["over_oracle_pct"].unwrap() * metrics["idle_energy_uj"].unwrap() / 100.0;
    let rejected = metrics["rejected_entries"].unwrap();
    assert!(over > 4.0 * rejected && over < 7.0 * rejected, "{over} uJ, {rejected} attempts");
    assert!(outcome.notes.iter().any(|note| note.starts_with("the driver rejects 50 %")));
}

#[test]
fn first_task_after_deep_sleep_has_cold_caches() {
    let mut platform = machine(1, "");
    platform.clusters[0].idle_states[1].refill = Duration::from_us(30);
    let cold = |governor| {
        let counted = count(&request(platform.clone(), load(PERIODIC), &[governor], 1_000));
        counted.unwrap().cpus[0].overhead
    };
    // Its start at 0 and 99 wake-ups find the CPU asleep; ticks bring no task. The kernel's own
    // work comes on top.
    let [deep, shallow] = ["deepest", "shallowest"].map(cold);
    near((deep - shallow).0 as f64, 100.0 * 30_000.0, 0.02);
    assert!(shallow < Duration::from_us(100), "{shallow}");
}

#[test]
fn unmeasured_power_still_has_an_oracle() {
    let mut platform = machine(1, "");
    for state in &mut platform.clusters[0].idle_states {
        state.power = torpor_machine::platform::StatePower::Unknown;
    }
    let asked = request(platform, load(PERIODIC), &["deepest", "shallowest", "oracle"], 1_000);
    let outcome = run(&asked);
    let metric = |run: usize, key: &str| outcome.runs[run].run.metrics[key];
    for key in ["idle_power_mw", "idle_energy_uj", "over_oracle_pct"] {
        assert_eq!(metric(0, key), None, "{key}");
    }
    // C1 takes 1 and C6 a half; C6 pays off after 200 us, so a trip takes 100 us of C1. 100 sleeps of
    // 9.9 ms: 0.495 s and 0.01 s of C1, in place of 0.99 s.
    let [deep, shallow] = [0, 1].map(|run| metric(run, "relative_idle_power_pct").unwrap());
    assert!((deep - 50.5).abs() < 0.2, "{deep}");
    assert!((shallow - 99.0).abs() < 0.2, "{shallow}");
    let over = metric(1, "relative_over_oracle_pct").unwrap();
    assert!((over - 100.0 * (99.0 / 50.5 - 1.0)).abs() < 1.0, "{over}");
    assert!(metric(0, "relative_over_oracle_pct").unwrap().abs() < 0.5);
}

/// Four short sleeps, then a long one, 50 times a second or so.
const BURSTS: &str = r#"
[[task]]
name = "t"
timer_slack_us = 0
phase = [
    { run_us = 10 }, { sleep_us = 100 }, { run_us = 10 }, { sleep_us = 100 },
    { run_us = 10 }, { sleep_us = 100 }, { run_us = 10 }, { sleep_us = 100 },
    { run_us = 10 }, { sleep_us = 20000 },
]
"#;

/// After two sleeps of less than 200 us C6 is C1, and 1 ms later C6 after all.
fn demoting(text: &str) -> Request {
    let mut platform = machine(1, text);
    let (short, undemote) = (Duration::from_us(200), Some(Duration::from_us(1_000)));
    let rule = Demotion { to: 0, after: 2, short, undemote };
    platform.clusters[0].idle_states[1].demotion = Some(rule);
    request(platform, load(BURSTS), &["deepest"], 1_000)
}

fn assert_demoted(counted: &Counted) {
    let [c1, c6] = [0, 1].map(|state| counted.cpus[0].totals.states[state]);
    // In each round of 20.5 ms two of four short sleeps, and the long one's first millisecond.
    assert_eq!(c1.usage, 0);
    assert!((130..150).contains(&c6.demoted), "{c6:?}");
    assert_eq!(c1.got_time + c6.got_time, c6.time);
    let share = c1.got_time.0 as f64 / c6.time.0 as f64;
    assert!((0.05..0.07).contains(&share), "{share}");
    // Sleeps: as many in C6 as not demoted, and one undemoted for every three demoted.
    let trips = (c6.usage - c6.demoted) as f64 + (c6.demoted as f64 / 3.0).round();
    let energy = 0.1 * c1.got_time.0 as f64 + 0.01 * c6.got_time.0 as f64;
    let energy = energy / 1e3 + 18.0 * trips;
    let counted = counted.cpus[0].totals.energy.as_uj_f64();
    assert!((counted - energy).abs() <= 20.0, "{counted} {energy}");
}

#[test]
fn burst_of_short_sleeps_is_demoted() {
    let counted = count(&demoting("")).unwrap();
    assert_demoted(&counted);
    // Demoted CPUs sleep, so the package does not take its awake power for them.
    let power = "package_awake_power_mw = 1000\npackage_awake_power_source = \"made up\"\n";
    let awake = count(&demoting(power)).unwrap();
    let slept = awake.cpus[0].totals.states.iter().fold(Duration::ZERO, |sum, s| sum + s.time);
    let expected = (awake.span - slept).0 as f64 / 1e3;
    assert!((awake.awake_energy.as_uj_f64() - expected).abs() < 1.0, "{expected}");
}

/// The kernel of today stops the tick once it has ended a sleep, whatever a governor would say: two
/// sleeps a period, in the shallowest state that rests.
#[test]
fn default_idle_is_entered_without_a_driver() {
    let mut platform = polling_machine(2, "");
    platform.has_idle_driver = false;
    let of =
        |governor| count(&request(platform.clone(), load(PERIODIC), &[governor], 1_000)).unwrap();
    let [deep, shallow] = ["deepest", "shallowest"].map(of);
    let usage = |counted: &Counted| {
        let states = &counted.cpus[0].totals.states;
        states.iter().map(|state| state.usage).collect::<Vec<_>>()
    };
    assert_eq!(usage(&deep), usage(&shallow));
    let [poll, c1, c6] = usage(&deep)[..] else { panic!("three states") };
    assert_eq!((poll, c6), (0, 0));
    assert!((195..215).contains(&c1), "{c1}");
    // The task's timer, the tick before and after it is stopped, and the tick that goes on.
    assert!((350..=450).contains(&deep.timer_programmings), "{}", deep.timer_programmings);
}

/// Each request for C1 gets C6, and its latency.
#[test]
fn request_is_promoted() {
    let mut platform = machine(1, "");
    platform.clusters[0].idle_states[0].demotion = Some(Demotion::promotion(1));
    let counted = count(&request(platform, load(PERIODIC), &["shallowest"], 1_000)).unwrap();
    let totals = &counted.cpus[0].totals;
    let [c1, c6] = [0, 1].map(|state| totals.states[state]);
    assert_eq!((c6.usage, c1.got_time, c1.demoted), (0, Duration::ZERO, 0));
    assert_eq!((totals.promoted, c6.got_time), (c1.usage, c1.time));
    assert_eq!(totals.latency.quantile(0.5), Some(Duration::from_us(85)));
}
