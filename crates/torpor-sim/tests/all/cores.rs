// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Resources that CPUs share: a core's speed, states, their latencies, and the package's power.

use crate::support::{load, near, platform, request};
use torpor_machine::platform::Platform;
use torpor_machine::units::Duration;
use torpor_sim::machine::Counted;
use torpor_sim::{Request, Workload};

/// Full-size CPUs with these keys of their cluster, WFI (1 us out) and `off` with these.
fn machine(machine: &str, cpus: usize, cluster: &str, off: &str) -> Platform {
    platform(&format!(
        r#"
name = "m"
title = "m"
source = "made up"
hz = 250
tick_handling_us = 0
tick_handling_source = "made up"
{machine}
[[cluster]]
name = "all"
cpus = "0-{last}"
capacity = 1024
idle_state_source = "made up"
power_source = "made up"
smt_source = "made up"
{cluster}
idle_state = [
    {{ name = "WFI", exit_latency_us = 1, target_residency_us = 1, power_mw = 100 }},
    {{ name = "off", target_residency_us = 1000, power_mw = 10, {off} }},
]
"#,
        last = cpus - 1
    ))
}

const OFF: &str = "exit_latency_us = 300, entry_latency_us = 50";

fn count(request: &Request) -> Counted {
    crate::support::count(request).unwrap_or_else(|e| panic!("{e}"))
}

fn under(governor: &str, platform: Platform, workload: &Workload, ms: i64) -> Counted {
    count(&request(platform, workload.clone(), &[governor], ms))
}

/// One task on each of two CPUs, which works this long.
fn workers(cpus: [usize; 2], work_ms: [u32; 2]) -> Workload {
    let task = |nth: usize| {
        format!(
            "[[task]]\nname = \"t{nth}\"\nrepeat = 1\ncpus = \"{}\"\nphase = [{{ run_us = {} }}]\n",
            cpus[nth],
            1_000 * work_ms[nth]
        )
    };
    load(&format!("{}{}", task(0), task(1)))
}

fn is_near(found: Duration, us: i64) -> bool {
    // The kernel's own work takes some us.
    (found - Duration::from_us(us)).0.abs() < 60_000
}

#[test]
fn busy_smt_siblings_share_the_core_speed() {
    let smt = "threads_per_core = 2\nsmt_speed_pct = 60";
    // CPUs 0 and 2 of four are a core. At 60 % the 3 ms take 5, in which the other does 3 of its 10
    // ms; it has 7 left, alone.
    let shared = workers([0, 2], [10, 3]);
    let alone = workers([0, 1], [10, 3]);
    for (workload, us) in [(&shared, [12_000, 5_000]), (&alone, [10_000, 3_000])] {
        let counted = under("menu", machine("", 4, smt, OFF), workload, 100);
        let times = [counted.kinds[0].cpu_time, counted.kinds[1].cpu_time];
        let fits = times.iter().zip(us).all(|(time, us)| is_near(*time, us));
        assert!(fits, "{times:?} for {us:?} us");
    }
    // With a stride of 1 they are neighbours.
    let smt = "threads_per_core = 2\nsmt_speed_pct = 60\nsibling_stride = 1";
    let counted = under("menu", machine("", 4, smt, OFF), &alone, 100);
    let times = [counted.kinds[0].cpu_time, counted.kinds[1].cpu_time];
    assert!(is_near(times[0], 12_000) && is_near(times[1], 5_000), "{times:?}");
}

#[test]
fn two_tasks_use_two_cores_before_smt() {
    let workload =
        load("[[task]]\nname = \"t\"\ncount = 2\nphase = [{ run_us = 500 }, { sleep_us = 700 }]\n");
    let smt = "threads_per_core = 2\nsmt_speed_pct = 50";
    let counted = under("shallowest", machine("", 4, smt, OFF), &workload, 1_000);
    // Side by side on one core a pass would take 1 ms of work.
    let mean_us = counted.kinds[0].cpu_time.0 / 1_000 / counted.kinds[0].passes as i64;
    assert!(mean_us < 520, "{mean_us} us");
}

#[test]
fn core_state_saves_while_both_threads_are_in() {
    // CPU 0 works for 5 of 10 ms, CPU 1 sleeps throughout: 5 ms at 90 mW are not saved.
    let workload =
        load("[[task]]\nname = \"t\"\nrepeat = 1\ncpus = \"0\"\nphase = [{ run_us = 5000 }]\n");
    let unsaved = |scope: &str, cpus| {
        let off = format!("{OFF}, scope = \"{scope}\"");
        let machine = machine("", cpus, "threads_per_core = 2", &off);
        count(&request(machine, workload.clone(), &["deepest"], 10)).shared_energy[0].as_uj_f64()
    };
    near(unsaved("core", 2), 450.0, 0.001);
    // Both threads of the other core are in the state: nothing else keeps them awake.
    near(unsaved("core", 4), 450.0, 0.001);
    near(unsaved("cluster", 4), 3.0 * 450.0, 0.001);
}

#[test]
fn last_in_and_first_out_pay_for_cluster() {
    let own = "scope = \"cluster\", own_entry_latency_us = 10, own_exit_latency_us = 60";
    let sleeper = "[[task]]\nname = \"t\"\ncpus = \"0\"\ntimer_slack_us = 0\n\
                   phase = [{ run_us = 100 }, { period_us = 10000 }]\n";
    let busy = "[[task]]\nname = \"b\"\ncpus = \"1\"\nphase = [{ run_us = 100000 }]\n";
    let late_us = |tasks: &str, off: &str| {
        let off = format!("{OFF}, {off}");
        let counted = under("deepest", machine("", 2, "", &off), &load(tasks), 1_000);
        counted.kinds[0].latency.latencies().quantile(0.5).unwrap().0 / 1_000
    };
    let is_about =
        |found: i64, us: i64| assert!((us..us + 10).contains(&found), "{found}, not {us}");
    // CPU 1 is in the state as well, or works.
    is_about(late_us(sleeper, own), 300);
    is_about(late_us(&format!("{sleeper}{busy}"), own), 60);
    is_about(late_us(&format!("{sleeper}{busy}"), "scope = \"cluster\""), 300);
}

#[test]
fn package_power_rises_and_falls() {
    let task = load(
        "[[task]]\nname = \"t\"\ncpus = \"0\"\nphase = [{ run_us = 100 }, { period_us = 10000 }]\n",
    );
    let awake_us = |rise_us: u32| {
        let package = format!(
            "package_awake_power_mw = 1000\npackage_awake_power_source = \"made up\"\n\
             package_awake_rise_us = {rise_us}\npackage_awake_rise_source = \"made up\""
        );
        let counted =
            count(&request(machine(&package, 1, "", OFF), task.clone(), &["deepest"], 1_000));
        // At 1 W, a microjoule is a microsecond.
        counted.awake_energy.as_uj_f64()
    };
    // 100 times 100 us.
    near(awake_us(0), 10_000.0, 0.005);
    // Each time to a tenth of it, and back: 100 us at a twentieth, twice.
    near(awake_us(1_000), 1_000.0, 0.01);
    // To the whole of it in 50 us: as much is added by its fall as its rise lacks.
    near(awake_us(50), 10_000.0, 0.005);
}
