// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The columns of a result: which governor, with which boost, under which cpufreq governor.

use crate::support::{big_little, boosted, load, machine, request, run};
use torpor_governor::Catalog;
use torpor_sim::Session;

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

/// The label, and what sets frequencies, of each column.
fn columns(cpufreq: &[&str], io_boosts: &[&str]) -> Vec<[String; 3]> {
    let mut request = request(machine(1, ""), load(IO), &["menu", "teo"], 20);
    request.options.cpufreq = cpufreq.iter().map(|c| c.parse().unwrap()).collect();
    request.options.io_boosts = io_boosts.iter().map(|b| b.parse().unwrap()).collect();
    let runs = run(&request).runs;
    runs.into_iter().map(|c| [c.run.governor, c.policies.cpufreq, c.policies.io_boost]).collect()
}

#[test]
fn schedutil_has_the_kernels_boost() {
    assert_eq!(columns(&["schedutil"], &[])[1], ["teo", "schedutil", "iowait"]);
    assert_eq!(columns(&["performance"], &[])[1], ["teo", "performance", "none"]);
    let both = columns(&["performance", "schedutil"], &[]);
    assert_eq!(both[1], ["teo + performance", "performance", "none"]);
    assert_eq!(both[2], ["menu + schedutil", "schedutil", "iowait"]);
    assert_eq!(columns(&["schedutil"], &["none"])[0], ["menu", "schedutil", "none"]);
}

#[test]
fn every_combination_is_a_column() {
    let labels = |cpufreq: &[&str], boosts: &[&str]| -> Vec<String> {
        columns(cpufreq, boosts).into_iter().map(|[label, ..]| label).collect()
    };
    assert_eq!(
        labels(&["schedutil"], &["none", "per-task,levels=4"]),
        ["menu + none", "teo + none", "menu + per-task,levels=4", "teo + per-task,levels=4"]
    );
    assert_eq!(
        labels(&["schedutil", "ondemand"], &["none", "iowait"])[2..4],
        ["menu + schedutil + iowait", "teo + schedutil + iowait"]
    );
    assert_eq!(labels(&["schedutil", "ondemand"], &["none", "iowait"]).len(), 8);
}

#[test]
fn the_same_column_twice_is_refused() {
    let refused = |cpufreq: &[&str], boosts: &[&str]| {
        let mut request = request(machine(1, ""), load(IO), &["menu"], 20);
        request.options.cpufreq = cpufreq.iter().map(|c| c.parse().unwrap()).collect();
        request.options.io_boosts = boosts.iter().map(|b| b.parse().unwrap()).collect();
        Session::new(&request, &Catalog::new(Default::default()))
            .err()
            .expect("refused")
            .to_string()
    };
    let error = refused(&["powersave", "schedutil", "schedutil"], &[]);
    assert!(error.contains("option `cpufreq`") && error.contains("`schedutil` twice"), "{error}");
    let error = refused(&[], &["none", "per-task", "none"]);
    assert!(error.contains("option `io_boosts`") && error.contains("`none` twice"), "{error}");
}

#[test]
fn threads_change_no_byte() {
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
