// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Small machines and runs for worked examples.

#![allow(dead_code)]

use torpor_engine::Unwatched;
use torpor_engine::decision::Unobserved;
use torpor_governor::{Catalog, CatalogOptions};
use torpor_machine::platform::Platform;
use torpor_machine::units::Duration;
use torpor_sim::machine::Counted;
use torpor_sim::outcome::Outcome;
use torpor_sim::{Halt, Options, Request, Session, Workload, workload};

/// With the user's cache, where compiled policies stay between runs.
pub fn catalog() -> Catalog {
    Catalog::new(CatalogOptions::default())
}

/// One cluster of full-size CPUs: C1 with 2 us to leave, C6 with 85; interrupts take no time.
pub fn machine(cpus: usize, extra: &str) -> Platform {
    platform(&machine_text(cpus, extra))
}

/// A machine with a polling state before C1.
pub fn polling_machine(cpus: usize, extra: &str) -> Platform {
    let text = machine_text(cpus, extra).replace(
        "idle_state = [",
        "idle_state = [\n    { name = \"POLL\", exit_latency_us = 0, target_residency_us = 0, \
         power_mw = 900, polling = true },",
    );
    platform(&text)
}

pub fn machine_text(cpus: usize, extra: &str) -> String {
    one_cluster(
        cpus,
        extra,
        r#"
opp = [{ freq_khz = 2000000, active_power_mw = 1000 }]
idle_state = [
    { name = "C1", exit_latency_us = 2, target_residency_us = 2, power_mw = 100 },
    { name = "C6", exit_latency_us = 85, target_residency_us = 200, power_mw = 10 },
]
"#,
    )
}

/// A machine of one cluster, of which `cluster` says clocks and states; `extra` goes before it.
pub fn one_cluster(cpus: usize, extra: &str, cluster: &str) -> String {
    let last = cpus - 1;
    format!(
        r#"
name = "m"
title = "m"
source = "made up"
hz = 250
tick_handling_us = 0
tick_handling_source = "made up"
{extra}
[[cluster]]
name = "all"
cpus = "0-{last}"
capacity = 1024
idle_state_source = "made up"
opp_source = "made up"
power_source = "made up"
{cluster}"#
    )
}

/// Frames that two tasks make, background work, and interrupts; `more` defines those.
pub fn frames(more: &str) -> Workload {
    const FRAMES: &str = r#"
[[task]]
name = "render"
phase = [{ run_us = { dist = "gamma", mean = 2000, sd = 500 } }, { wake = "compose" }, { period_us = 16667 }]

[[task]]
name = "compose"
phase = [{ wait = "compose" }, { run_us = { dist = "exponential", mean = 800 } }]

[[task]]
name = "background"
count = 3
phase = [{ run_us = 100 }, { sleep_us = { dist = "exponential", mean = 5000 } }]

[[interrupt]]
name = "nic"
interval_us = { dist = "exponential", mean = 3000 }
cpus = "1"
"#;
    load(&format!("{FRAMES}{more}"))
}

/// Two CPUs of capacity 256 (0 and 1) that are cheap, two of 1024 that are not.
pub fn big_little() -> Platform {
    let cluster = |name: &str, cpus: &str, capacity: u32, power: (u32, u32)| {
        format!(
            r#"
[[cluster]]
name = "{name}"
cpus = "{cpus}"
capacity = {capacity}
idle_state_source = "made up"
opp_source = "made up"
power_source = "made up"
opp = [
    {{ freq_khz = 1000000, active_power_mw = {} }},
    {{ freq_khz = 2000000, active_power_mw = {} }},
]
idle_state = [
    {{ name = "WFI", exit_latency_us = 1, target_residency_us = 1, power_mw = 5 }},
    {{ name = "off", exit_latency_us = 100, target_residency_us = 1000, power_mw = 0 }},
]
"#,
            power.0, power.1
        )
    };
    let little = cluster("little", "0-1", 256, (10, 40));
    let big = cluster("big", "2-3", 1024, (200, 900));
    platform(&format!("name = \"b\"\ntitle = \"b\"\nsource = \"made up\"\nhz = 250\n{little}{big}"))
}

pub fn platform(text: &str) -> Platform {
    torpor_machine::platform::from_toml("test.toml", text).unwrap_or_else(|e| panic!("{e}"))
}

pub fn load(tables: &str) -> Workload {
    let text = format!("name = \"w\"\ntitle = \"w\"\nsource = \"made up\"\n{tables}");
    workload::from_toml("test.toml", &text).unwrap_or_else(|e| panic!("{e}"))
}

pub fn request(platform: Platform, workload: Workload, governors: &[&str], ms: i64) -> Request {
    Request {
        workload,
        platform,
        governors: governors.iter().map(|g| g.parse().unwrap()).collect(),
        options: Options {
            duration: Duration(ms * 1_000_000),
            seed: 1,
            seeds: 1,
            threads: Some(1),
            ..Options::default()
        },
    }
}

/// Under menu and schedutil.
pub fn boosted(platform: Platform, workload: &str, boost: &str, ms: i64) -> Request {
    let mut request = request(platform, load(workload), &["menu"], ms);
    request.options.cpufreq = vec!["schedutil".parse().unwrap()];
    request.options.io_boosts = vec![boost.parse().unwrap()];
    request
}

/// One governor, seed 1: the raw counters, or why it ended.
pub fn count(request: &Request) -> Result<Counted, String> {
    count_seed(request, 1)
}

pub fn count_seed(request: &Request, seed: u64) -> Result<Counted, String> {
    let session = Session::new(request, &catalog()).unwrap_or_else(|e| panic!("{e}"));
    let run = session.simulate(0, seed, Unobserved, &mut |_| true);
    match run {
        Ok(run) => run.map(|(counted, _)| counted),
        Err(Halt::Interrupted) => panic!("nobody interrupts"),
        Err(halt) => Err(halt.to_string()),
    }
}

/// The kernel's own work on the way of one event.
const KERNELS_WORK: Duration = Duration(400);

/// Checks a time that has the kernel's own work in it, which is a little for each of `events`.
#[track_caller]
pub fn takes(found: Duration, expected: Duration, events: i64) {
    let most = expected + Duration(KERNELS_WORK.0 * events);
    assert!((expected..=most).contains(&found), "{found}, not {expected} to {most}");
}

/// Checks a number within a share of the expected one.
#[track_caller]
pub fn near(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found}, not {expected}");
}

pub fn run(request: &Request) -> Outcome {
    torpor_sim::run(request, &catalog(), &Unwatched).unwrap_or_else(|e| panic!("{e}"))
}
