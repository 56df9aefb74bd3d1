// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Control groups: shares, quotas and clamps, as the hosted kernel's own files set them.

use crate::support::{count, count_seed, load, machine, request, run};
use torpor_sim::machine::Counted;
use torpor_sim::workload::{self, from_rtapp};

fn counted(text: &str, cpus: usize, ms: i64) -> Counted {
    count(&request(machine(cpus, ""), load(text), &["shallowest"], ms)).unwrap()
}

fn cpu_ms(counted: &Counted, kind: usize) -> f64 {
    counted.kinds[kind].cpu_time.as_us_f64() / 1e3
}

/// One CPU, and endless work in two groups of one and three tasks.
const TWO: &str = r#"
[[cgroup]]
name = "low"
[[cgroup]]
name = "high"
cpu_weight = 400
[[task]]
name = "l"
count = 3
cgroup = "low"
phase = [{ run_us = 5000 }]
[[task]]
name = "h"
cgroup = "high"
phase = [{ run_us = 5000 }]
"#;

#[test]
fn groups_share_a_cpu_by_weight() {
    let of = counted(TWO, 1, 2_000);
    let (low, high) = (cpu_ms(&of, 0), cpu_ms(&of, 1));
    // 1 to 4, however many tasks a group has.
    assert!((3.9..4.1).contains(&(high / low)), "{low} and {high}");
    for (group, own) in of.cgroups.iter().zip([low, high]) {
        let usage = group.cpu_time.as_us_f64() / 1e3;
        assert!((usage - own).abs() < 0.02 * own, "{usage} and {own}");
    }
}

#[test]
fn idle_group_yields_to_any_other() {
    let of = counted(&TWO.replace("cpu_weight = 400", "cpu_idle = true"), 1, 2_000);
    assert!(cpu_ms(&of, 1) < 0.05 * cpu_ms(&of, 0), "{} ms", cpu_ms(&of, 1));
}

/// A task that always has work, with 20 ms in each 100 ms on two CPUs that are otherwise idle.
const QUOTA: &str = r#"
[[cgroup]]
name = "outer/inner"
cpu_max = "20000 100000"
[[task]]
name = "t"
cgroup = "outer/inner"
phase = [{ run_us = 1000 }]
"#;

#[test]
fn a_quota_throttles() {
    let of = counted(QUOTA, 2, 2_000);
    let ms = cpu_ms(&of, 0);
    assert!((380.0..430.0).contains(&ms), "{ms} ms of CPU time");
    // The group above has no quota of its own, but the time of the one in it.
    let [outer, inner] = &of.cgroups[..] else { panic!("{} groups", of.cgroups.len()) };
    assert_eq!(outer.periods, 0);
    assert!((outer.cpu_time.as_us_f64() / 1e3 - ms).abs() < 5.0);
    assert!((19..=21).contains(&inner.periods) && inner.throttled + 1 >= inner.periods);
    let waits = inner.throttled_time.as_us_f64() / 1e3;
    assert!((1_450.0..1_650.0).contains(&waits), "{waits} ms throttled");
}

#[test]
fn the_seed_moves_periods_of_quotas() {
    let seeded = |seed| {
        let request = request(machine(2, ""), load(QUOTA), &["shallowest"], 500);
        count_seed(&request, seed).unwrap().cgroups[1].throttled_time
    };
    assert_eq!(seeded(1), seeded(1));
    assert_ne!(seeded(1), seeded(2));
}

#[test]
fn a_result_has_groups_and_their_metrics() {
    let outcome = run(&request(machine(2, ""), load(QUOTA), &["shallowest"], 500));
    let names: Vec<_> = outcome.runs[0].cgroups.iter().map(|group| &*group.name).collect();
    assert_eq!(names, ["outer", "outer/inner"]);
    let keys: Vec<_> =
        outcome.cgroup_comparisons.iter().map(|of| of.comparison.rows.len()).collect();
    // Without a quota there is nothing to report of it.
    assert_eq!(keys, [1, 4]);
}

#[test]
fn bad_groups_are_refused_with_their_place() {
    for (group, words) in [
        ("name = \"a//b\"", "this is not a path"),
        ("name = \"a\"\ncpu_weight = 0", "1 to 10000"),
        ("name = \"a\"\ncpu_weight = 20000", "10000"),
        ("name = \"a\"\ncpu_max = \"lots\"", "no such quota"),
        ("name = \"a\"\ncpu_max = \"500 100000\"", "no such quota"),
        ("name = \"a\"\ncpu_max = \"5000 2000000\"", "1000 to 1000000"),
        ("name = \"a\"\ncpu_max_burst_us = 5", "with `cpu_max`"),
        ("name = \"a\"\ncpu_idle = true\ncpu_weight = 5", "`cpu_weight` is also given"),
        ("name = \"a\"\ncpu_uclamp_max = 101", "100"),
        ("name = \"b\"", "there is no cgroup of this name"),
    ] {
        let text = format!(
            "name = \"x\"\ntitle = \"x\"\nsource = \"x\"\n[[cgroup]]\n{group}\n[[task]]\nname = \
             \"t\"\ncgroup = \"a\"\nphase = [{{ run_us = 5 }}, {{ sleep_us = 5 }}]\n"
        );
        let error = workload::from_toml("x.toml", &text).unwrap_err().to_string();
        assert!(error.contains(words), "{group}: {error}");
    }
}

#[test]
fn the_kernel_refuses_a_burst_above_the_quota() {
    let text = QUOTA.replace("cpu_max =", "cpu_max_burst_us = 30000\ncpu_max =");
    let error = count(&request(machine(2, ""), load(&text), &["shallowest"], 100)).unwrap_err();
    assert!(error.contains("outer/inner/cpu.max.burst"), "{error}");
}

#[test]
fn taskgroup_of_rtapp_is_a_cgroup() {
    let text = r#"{ "tasks": {
        "a": { "taskgroup": "/top-app", "run": 1000, "sleep": 1000 },
        "b": { "taskgroup": "/top-app", "run": 1000, "sleep": 1000 },
        "c": { "taskgroup": "/", "run": 1000, "sleep": 1000 } } }"#;
    let workload = from_rtapp("t.json", "t", text).unwrap();
    assert_eq!(workload.cgroups.len(), 1);
    assert_eq!(workload.cgroups[0].path, "top-app");
    let groups: Vec<_> = workload.tasks.iter().map(|task| task.cgroup).collect();
    assert_eq!(groups, [Some(0), Some(0), None]);
}
