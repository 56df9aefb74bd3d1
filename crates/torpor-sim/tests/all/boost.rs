// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What an IO boost sees, what its answers do, and which column has which.

use crate::support::{big_little, boosted, count, load, machine, request, run};
use torpor_governor::Catalog;
use torpor_sim::Session;

fn path(file: &str) -> String {
    format!("{}/tests/ioboost/{file}", env!("CARGO_MANIFEST_DIR"))
}

/// 2 ms of work, then 1 ms of a disk.
const IO: &str = "[[task]]\nname = \"t\"\nrepeat = 2\nphase = [{ run_us = 2000 }, { io = \"d\" }]\n\
                  [[device]]\nname = \"d\"\nservice_us = 1000\n";

/// More tasks than CPUs: they wait for IO and for time, and end, so that others get their numbers.
const CROWD: &str = r#"
[[task]]
name = "reader"
count = 4
phase = [{ run_us = { dist = "exponential", mean = 300 } }, { io = "d" }]
[[task]]
name = "parent"
count = 3
uclamp_max = 700
phase = [
    { run_us = { dist = "exponential", mean = 900 } },
    { sleep_us = { dist = "exponential", mean = 4000 } },
    { spawn = "child" },
]
[[task]]
name = "child"
repeat = 1
phase = [{ run_us = { dist = "exponential", mean = 900 } }, { io = "d" }]
[[device]]
name = "d"
service_us = { dist = "exponential", mean = 300 }
"#;

/// The error of a boost that stops at the first event of a kind.
fn stopped_at(event: u32) -> String {
    let boost = format!("{},stop={event}", path("told.c"));
    count(&boosted(machine(1, ""), IO, &boost, 20)).expect_err("it stops")
}

#[test]
fn a_boost_is_told_of_waits_for_io_from_going_to_sleep_to_waking_up() {
    // The work ends after 2 ms and a context switch, the disk 1 ms later; then C6 is left.
    for (event, part) in [
        (1, "dequeue() on cpu0 hit BUG"),
        (1, "now=0.00200"),
        (1, "flags=IOWAIT|SLEEP"),
        (2, "enqueue() on cpu0 hit BUG"),
        (2, "now=0.00300"),
        (2, "flags=IOWAIT|WAKEUP"),
        (3, "update() on cpu0 hit BUG"),
        (3, "now=0.00300"),
        (3, "flags=IOWAIT"),
    ] {
        let error = stopped_at(event);
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// `told.c` holds the promises of `ioboost.h` for each task: on one CPU at a time, a wake-up after
/// each sleep and after nothing else, waiting for IO from the one to the other, all new at first.
#[test]
fn a_boost_is_told_of_every_task_where_it_is() {
    let crowded = |event: u32| {
        let boost = format!("{},stop={event}", path("told.c"));
        let workload = CROWD.replace("uclamp_max = 700\n", "");
        count(&boosted(big_little(), &workload, &boost, 1_000)).map(|counted| {
            let moves: u64 = counted.kinds.iter().map(|kind| kind.migrations).sum();
            let ended: u64 = counted.kinds.iter().map(|kind| kind.ended).sum();
            (moves, ended)
        })
    };
    let (moves, ended) = crowded(0).unwrap();
    assert!(moves > 100 && ended > 100, "{moves} {ended}");
    let error = crowded(5).unwrap_err();
    assert!(error.contains("enqueue()") && !error.contains("WAKEUP"), "a move: {error}");
}

#[test]
fn a_boost_knows_the_tasks_limit() {
    let limited = IO.replace("repeat = 2", "repeat = 2\nuclamp_max = 700");
    let run = |limit: u32| {
        let boost = format!("{},uclamp_max={limit}", path("told.c"));
        count(&boosted(machine(1, ""), &limited, &boost, 20))
    };
    assert!(run(700).is_ok());
    assert!(run(1_024).expect_err("another limit").contains("enqueue()"));
}

#[test]
fn questions_wait_for_the_rate_limit() {
    let error = stopped_at(4);
    assert!(error.contains("cpu_boost() on cpu0"), "{error}");
    // 1 ms at least, and the first update after that comes with the next period of utilization.
    let now = error.split("now=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let now: f64 = now.parse().unwrap();
    assert!((0.001..0.0021).contains(&now), "{error}");
}

/// A task that hardly works, on the little CPUs if nothing else is asked for.
const SMALL: &str = "[[task]]\nname = \"t\"\nphase = [{ run_us = 20 }, { period_us = 20000 }]\n";

#[test]
fn a_boosted_cpu_is_fast_and_a_boosted_task_goes_where_it_fits() {
    let shares = |params: &str| {
        let boost = format!("{}{params}", path("fixed.c"));
        let counted = count(&boosted(big_little(), SMALL, &boost, 2_000)).unwrap();
        let time = |cpus: std::ops::Range<usize>| -> i64 {
            cpus.map(|cpu| counted.cpus[cpu].task_time.0).sum()
        };
        let fast = counted.domains.iter().map(|d| d.time_at[1].0).max().unwrap();
        (time(2..4) as f64 / time(0..4) as f64, fast as f64 / counted.span.0 as f64)
    };
    let (big, fast) = shares("");
    assert!(big < 0.3 && fast < 0.5, "{big} {fast}");
    let (_, fast) = shares(",cpu_util=1024");
    assert!(fast > 0.95, "{fast}");
    // 256 is all that a little CPU has.
    for params in [",task_util=300", ",uclamp_min=300"] {
        let (big, _) = shares(params);
        assert!(big > 0.9, "{params}: {big}");
    }
}

#[test]
fn a_boost_that_fails_ends_its_column_and_no_other() {
    let mut request = boosted(machine(1, ""), IO, &path("told.c"), 20);
    request.options.io_boosts.push(format!("{},stop=2", path("told.c")).parse().unwrap());
    let outcome = run(&request);
    let [fine, failed] = &outcome.runs[..] else { panic!("two columns") };
    assert_eq!(fine.run.error, None);
    let error = failed.run.error.as_ref().expect("it failed");
    assert!(error.starts_with("IO boost `") && error.contains("stop=2`: enqueue()"), "{error}");
}

/// The label, and what sets frequencies, of each column.
fn columns(cpufreq: &[&str], io_boosts: &[&str]) -> Vec<[String; 3]> {
    let mut request = request(machine(1, ""), load(IO), &["menu", "teo"], 20);
    request.options.cpufreq = cpufreq.iter().map(|c| c.parse().unwrap()).collect();
    request.options.io_boosts = io_boosts.iter().map(|b| b.parse().unwrap()).collect();
    let runs = run(&request).runs;
    runs.into_iter().map(|c| [c.run.governor, c.policies.cpufreq, c.policies.io_boost]).collect()
}

#[test]
fn schedutil_comes_with_the_boost_of_the_kernel() {
    assert_eq!(columns(&["schedutil"], &[])[1], ["teo", "schedutil", "iowait"]);
    assert_eq!(columns(&["performance"], &[])[1], ["teo", "performance", "none"]);
    let both = columns(&["performance", "schedutil"], &[]);
    assert_eq!(both[1], ["teo + performance", "performance", "none"]);
    assert_eq!(both[2], ["menu + schedutil", "schedutil", "iowait"]);
    assert_eq!(columns(&["schedutil"], &["none"])[0], ["menu", "schedutil", "none"]);
}

#[test]
fn each_governor_meets_each_boost_under_each_policy() {
    let labels = |cpufreq: &[&str], boosts: &[&str]| -> Vec<String> {
        columns(cpufreq, boosts).into_iter().map(|[label, ..]| label).collect()
    };
    assert_eq!(
        labels(&["schedutil"], &["none", "per-task,levels=4"]),
        ["menu + none", "teo + none", "menu + per-task,levels=4", "teo + per-task,levels=4"]
    );
    assert_eq!(
        labels(&["schedutil", "schedutil@6.1"], &["none", "iowait"])[2..4],
        ["menu + schedutil + iowait", "teo + schedutil + iowait"]
    );
    assert_eq!(labels(&["schedutil", "schedutil@6.1"], &["none", "iowait"]).len(), 8);
}

#[test]
fn what_would_make_the_same_column_twice_is_refused() {
    let refused = |cpufreq: &[&str], boosts: &[&str]| {
        let mut request = request(machine(1, ""), load(IO), &["menu"], 20);
        request.options.cpufreq = cpufreq.iter().map(|c| c.parse().unwrap()).collect();
        request.options.io_boosts = boosts.iter().map(|b| b.parse().unwrap()).collect();
        Session::new(&request, &Catalog::new(Default::default()))
            .err()
            .expect("refused")
            .to_string()
    };
    let error = refused(&["powersave", "schedutil", "schedutil@6.12"], &[]);
    assert!(error.contains("--cpufreq") && error.contains("`schedutil` twice"), "{error}");
    let error = refused(&[], &["none", "per-task", "none"]);
    assert!(error.contains("--io-boost") && error.contains("`none` twice"), "{error}");
}

#[test]
fn the_result_is_the_same_on_any_number_of_threads() {
    let on = |threads: usize| {
        let boosts = ["none", "iowait", "per-task", "per-task-v2"];
        let mut request = boosted(big_little(), CROWD, boosts[0], 200);
        request.options.io_boosts = boosts.iter().map(|b| b.parse().unwrap()).collect();
        request.options.threads = Some(threads);
        request.options.seeds = 3;
        serde_json::to_string(&run(&request)).unwrap()
    };
    let one = on(1);
    assert_eq!(one, on(2));
    assert_eq!(one, on(1), "again");
}
