// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Frequency policies from files.

use crate::support::{big_little, boosted, count, load, request, run};
use torpor_sim::Request;
use torpor_units::Duration;

const SCHEDUTIL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../governors/cpufreq/schedutil.c");
const TOLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cpufreq/told.c");

/// Work that comes and goes, with clamps and IO.
const MIXED: &str = r#"
[[task]]
name = "worker"
count = 3
uclamp_max = 700
phase = [
    { run_us = { dist = "exponential", mean = 900 } },
    { sleep_us = { dist = "exponential", mean = 4000 } },
]
[[task]]
name = "reader"
count = 2
phase = [{ run_us = { dist = "exponential", mean = 300 } }, { io = "d" }]
[[device]]
name = "d"
service_us = { dist = "exponential", mean = 300 }
"#;

fn under(cpufreq: &str, workload: &str, ms: i64) -> Request {
    let mut request = request(big_little(), load(workload), &["menu"], ms);
    request.options.cpufreq = vec![cpufreq.parse().unwrap_or_else(|e| panic!("{e}"))];
    request
}

#[test]
fn a_copy_of_schedutil_decides_as_schedutil_does() {
    let counted = |cpufreq: &str, boost: &str| {
        let mut request = boosted(big_little(), MIXED, boost, 500);
        request.options.cpufreq = vec![cpufreq.parse().unwrap()];
        format!("{:?}", count(&request).unwrap())
    };
    for boost in ["none", "iowait", "per-task-v2"] {
        for after in ["", "@6.1", "@6.1,rate_limit_us=300"] {
            let built_in = counted(&format!("schedutil{after}"), boost);
            assert_eq!(built_in, counted(&format!("{SCHEDUTIL}{after}"), boost), "{boost}{after}");
        }
    }
    assert_ne!(counted("schedutil", "iowait"), counted("schedutil@6.1", "iowait"));
}

/// `told.c` holds the promises of `cpufreq.h`, and changes OPPs every millisecond at most.
#[test]
fn a_policy_is_told_of_its_clock_and_obeyed() {
    let counted = count(&under(TOLD, MIXED, 1_000)).unwrap();
    for domain in &counted.domains {
        assert!((300..=1_000).contains(&domain.transitions), "{domain:?}");
        assert!(domain.time_at.iter().all(|time| *time > Duration::from_us(200_000)), "{domain:?}");
    }
}

#[test]
fn a_policy_that_fails_ends_its_column_and_no_other() {
    let mut request = under(TOLD, MIXED, 100);
    request.options.cpufreq.push(format!("{TOLD},stop_at=5").parse().unwrap());
    let outcome = run(&request);
    let [fine, failed] = &outcome.runs[..] else { panic!("two columns") };
    assert_eq!(fine.run.error, None);
    let error = failed.run.error.as_ref().expect("it failed");
    assert!(error.starts_with("frequency policy `") && error.contains("stop_at=5`: "), "{error}");
    assert!(error.contains("update() on cpu") && error.contains("hit BUG"), "{error}");
    let policies = &outcome.options.cpufreq_policies;
    assert_eq!(policies.len(), 2);
    assert_eq!(policies[1].params["stop_at"], "5");
    assert_eq!(policies[0].source_sha256, policies[1].source_sha256);
}

/// Only who predicts makes energy-aware placement possible: a task that hardly works, on the CPU
/// that it began on otherwise, however much that takes.
#[test]
fn without_a_prediction_placement_is_by_capacity() {
    let small = "[[task]]\nname = \"t\"\ncount = 2\n\
                 phase = [{ run_us = 20 }, { period_us = 20000 }]\n";
    let on_big = |cpufreq: &str| {
        let counted = count(&under(cpufreq, small, 2_000)).unwrap();
        let time = |cpus: std::ops::Range<usize>| -> i64 {
            cpus.map(|cpu| counted.cpus[cpu].task_time.0).sum()
        };
        time(2..4) as f64 / time(0..4) as f64
    };
    let [blind, seeing] = [TOLD, "schedutil"].map(on_big);
    println!("{blind} {seeing}");
    assert_eq!(blind, on_big("powersave"), "as under a held frequency");
    assert!(seeing < 0.3, "{seeing}");
}
