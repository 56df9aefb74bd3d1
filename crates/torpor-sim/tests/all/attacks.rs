// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Workload files with hostile numbers: a file that is accepted either runs or ends with an error;
//! nothing panics, and every run can be stopped.
//!
//! `TORPOR_ATTACKS=100000` searches further than the few hundred of every test run.

use crate::support;

use crate::support::{big_little, load, machine, polling_machine, request};
use proptest::prelude::*;
use std::time::Instant;
use torpor_engine::Unwatched;
use torpor_engine::decision::Unobserved;
use torpor_governor::Catalog;
use torpor_sim::{Halt, Session, SimError, workload};

/// Number of checks whether to stop, one per ten thousand events or steps.
const LOOKS_MAX: u32 = 4;
/// Looks are some ms of CPU time apart.
const DEAF_MAX_S: f64 = 3.0;

/// Returns the CPU time of this thread, in s, which does not depend on other load.
fn cpu_time_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists, and the time is ours to write.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A number that some key or other is read as.
fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("0".to_owned()),
        Just("1".to_owned()),
        Just("3600000000".to_owned()),
        Just("1e-300".to_owned()),
        Just("5e-324".to_owned()),
        Just("0.0004".to_owned()),
        Just("0.0006".to_owned()),
        Just("3599999999.9999995".to_owned()),
        (0..2_000_000u32).prop_map(|n| n.to_string()),
        (-12.0..9.55f64).prop_map(|exponent| 10f64.powf(exponent).to_string()),
    ]
}

fn count() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("0".to_owned()),
        Just("1".to_owned()),
        Just("20001".to_owned()),
        Just("1000000".to_owned()),
        (1..50u32).prop_map(|n| n.to_string()),
    ]
}

fn length() -> impl Strategy<Value = String> {
    let two = |names: &'static [&'static str], keys: [&'static str; 2]| {
        (prop::sample::select(names), number(), number()).prop_map(move |(name, a, b)| {
            format!("{{ dist = \"{name}\", {} = {a}, {} = {b} }}", keys[0], keys[1])
        })
    };
    prop_oneof![
        3 => number(),
        2 => two(&["gamma", "lognormal"], ["mean", "sd"]),
        1 => two(&["uniform"], ["min", "max"]),
        1 => number().prop_map(|mean| format!("{{ dist = \"exponential\", mean = {mean} }}")),
        1 => (number(), number(), number(), number()).prop_map(|(a, b, v, w)| {
            format!("{{ dist = \"empirical\", values = [{a}, {b}], weights = [{v}, {w}] }}")
        }),
    ]
}

fn phase() -> impl Strategy<Value = String> {
    let simple = prop_oneof![
        (prop::sample::select(&["run_us", "sleep_us"][..]), length())
            .prop_map(|(verb, length)| format!("{{ {verb} = {length} }}")),
        (prop::sample::select(&["until_us", "period_us"][..]), number())
            .prop_map(|(verb, time)| format!("{{ {verb} = {time} }}")),
        (count(), number(), number()).prop_map(|(count, before, least)| format!(
            "{{ wait = \"c\", count = {count}, not_before_us = {before}, at_least_us = {least} }}"
        )),
        (count(), any::<bool>()).prop_map(|(count, sync)| format!(
            "{{ wake = \"c\", count = {count}, sync = {sync} }}"
        )),
        Just("{ barrier = \"b\" }".to_owned()),
        prop::sample::select(&["512", "4k", "1024m"][..])
            .prop_map(|bs| format!("{{ io = \"d\", bs = \"{bs}\", rw = \"write\" }}")),
        count().prop_map(|count| format!("{{ spawn = \"t0\", count = {count} }}")),
    ];
    simple.prop_recursive(3, 12, 4, |inner| {
        (count(), prop::collection::vec(inner, 1..4))
            .prop_map(|(times, body)| format!("{{ repeat = {times}, do = [{}] }}", body.join(", ")))
    })
}

fn task() -> impl Strategy<Value = String> {
    let phases = prop::collection::vec(phase(), 1..6);
    let head = (count(), number(), number(), number(), 3..88_762u32, prop::option::of(count()));
    (phases, head).prop_map(|(phases, (count, start, stagger, slack, weight, repeat))| {
        let repeat = repeat.map_or(String::new(), |times| format!("repeat = {times}\n"));
        format!(
            "count = {count}\nstart_us = {start}\nstagger_us = {stagger}\ntimer_slack_us = {slack}\n\
             weight = {weight}\n{repeat}phase = [{}]\n",
            phases.join(", ")
        )
    })
}

fn interrupt() -> impl Strategy<Value = String> {
    (length(), length(), length(), count(), number(), 0..4u32).prop_map(
        |(interval, gap, handling, burst, start, effect)| {
            let effect = ["", "wake = \"c\"\n", "spawn = \"t0\"\n", "max = 3\n"][effect as usize];
            format!(
                "interval_us = {interval}\nburst_gap_us = {gap}\nhandling_us = {handling}\n\
                 burst = {burst}\nstart_us = {start}\n{effect}"
            )
        },
    )
}

fn file() -> impl Strategy<Value = String> {
    let tasks = prop::collection::vec(task(), 1..4);
    let interrupts = prop::collection::vec(interrupt(), 0..3);
    (tasks, interrupts, length(), count()).prop_map(|(tasks, interrupts, service, servers)| {
        let mut text = "name = \"w\"\ntitle = \"w\"\nsource = \"made up\"\n".to_owned();
        for (number, task) in tasks.iter().enumerate() {
            text += &format!("[[task]]\nname = \"t{number}\"\n{task}");
        }
        for (number, interrupt) in interrupts.iter().enumerate() {
            text += &format!("[[interrupt]]\nname = \"i{number}\"\n{interrupt}");
        }
        text + &format!("[[device]]\nname = \"d\"\nservice_us = {service}\nservers = {servers}\n")
    })
}

fn cases() -> u32 {
    std::env::var("TORPOR_ATTACKS").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn hostile_numbers_give_results_or_errors(text in file(), which in 0..3usize, seed: u64) {
        let workload = match workload::from_toml("w.toml", &text) {
            Ok(workload) => workload,
            Err(SimError::Workload { problems, .. }) => {
                prop_assert!(!problems.is_empty());
                return Ok(());
            }
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        };
        let machine = match which {
            0 => machine(2, ""),
            1 => polling_machine(3, ""),
            _ => big_little(),
        };
        let mut request = request(machine, workload, &["menu"], 10_000);
        request.options.cpufreq = vec!["schedutil".parse().unwrap()];
        let session = Session::new(&request, &Catalog::new(Default::default())).unwrap();
        let (mut looks, mut last, mut deaf_s) = (0, cpu_time_s(), 0f64);
        let mut goes_on = |_| {
            deaf_s = deaf_s.max(cpu_time_s() - last);
            last = cpu_time_s();
            looks += 1;
            looks < LOOKS_MAX
        };
        match session.simulate(0, seed, Unobserved, &mut goes_on) {
            Ok(Ok((counted, _))) => prop_assert_eq!(counted.span, request.options.duration),
            Ok(Err(why)) => prop_assert!(why.starts_with("task `"), "{}", why),
            Err(Halt::Interrupted) => prop_assert_eq!(looks, LOOKS_MAX),
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        }
        deaf_s = deaf_s.max(cpu_time_s() - last);
        prop_assert!(deaf_s < DEAF_MAX_S, "no look for {} s of CPU time", deaf_s);
    }
}

#[test]
fn zero_width_distribution_terminates() {
    let tables = "[[task]]\nname = \"a\"\nphase = [\n\
                  { run_us = { dist = \"gamma\", mean = 1500, sd = 1e-300 } }, { sleep_us = 500 }]\n";
    let counted = support::count(&request(machine(1, ""), load(tables), &["menu"], 100)).unwrap();
    // 2 ms a pass, after C1's or C6's way out.
    assert!((46..=50).contains(&counted.kinds[0].passes), "{}", counted.kinds[0].passes);
}

#[test]
fn too_many_seeds_are_refused() {
    let tables = "[[task]]\nname = \"a\"\nphase = [{ run_us = 5 }, { sleep_us = 500 }]\n";
    let mut request = request(machine(1, ""), load(tables), &["menu"], 100);
    request.options.seeds = 1_000_000_000;
    request.options.threads = Some(1_000_000);
    let error = torpor_sim::run(&request, &Catalog::new(Default::default()), &Unwatched);
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("a simulation has 1 to 10000 seeds"), "{error}");
    request.options.seeds = 2;
    assert_eq!(
        support::run(&request).options.asked.seeds,
        2,
        "no thread is made that has nothing to do"
    );
}

/// Eight times the names take about 8 times as long; a square would be 64.
#[test]
fn thousands_of_names_take_time_in_proportion() {
    let took_s = |count: usize| {
        let task = |n: usize| {
            format!(
                "[[task]]\nname = \"t{n}\"\nphase = [{{ barrier = \"b{n}\" }}, {{ run_us = 5 }}, \
                 {{ wake = \"c{n}\" }}, {{ wait = \"c{n}\" }}, {{ sleep_us = 9000 }}]\n"
            )
        };
        let tables: String = (0..count).map(task).collect();
        let begin = Instant::now();
        let outcome = support::run(&request(machine(4, ""), load(&tables), &["menu"], 20));
        assert_eq!(outcome.runs[0].tasks.len(), count);
        begin.elapsed().as_secs_f64()
    };
    // In turns, and the best of each, so that a noisy machine slows both.
    let (mut some, mut many) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..3 {
        some = some.min(took_s(500));
        many = many.min(took_s(4_000));
    }
    println!("500 names: {some:.3} s; 4000: {many:.3} s");
    assert!(many < 24.0 * some, "500 names take {some:.3} s, 4000 {many:.3} s");
}
