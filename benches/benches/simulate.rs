// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Measures the simulator on one core: events per second, the growth of an event's cost with the
//! machine and with the number of tasks, and the time for a minute of browsing on a phone by
//! governor. An event is an entry of the queue: an exit from an idle state, the end of work, a timer,
//! a tick, an interrupt, or an IO request.
//!
//! `cargo bench -p torpor-benches --bench simulate`, or `-- growth` for many tasks only. If Python
//! has simpy (`make bench` installs it), the same queueing loop runs there for comparison, without
//! scheduler and idle states.

use std::process::Command;
use torpor_benches::{Limit, aim, cpu_s};
use torpor_engine::decision::Unobserved;
use torpor_governor::Catalog;
use torpor_machine::platform::Platform;
use torpor_machine::units::Duration;
use torpor_sim::{Options, Request, Session, Workload, workload};

const ROUNDS: usize = 5;
const AIM: f64 = 3.0;
/// With frequencies that follow utilization, with IO and with a boost for it.
const FULL_AIM: f64 = 2.0;
/// Limit of the growth of an event's cost with a hundred times as many tasks.
const GROWTH_AIM: f64 = 1.3;
/// Limit for a minute of a phone, in seconds.
const MINUTE_AIM_S: f64 = 1.0;

fn main() {
    println!("{:<34} {:>12} {:>10} {:>10}", "", "events", "M/s", "ns each");
    if std::env::args().any(|arg| arg == "growth") {
        return growth();
    }
    let rate = measure("8 CPUs, 100 tasks, menu", 8, 100, "menu", 2_000);
    measure("8 CPUs, 100 tasks, teo", 8, 100, "teo", 2_000);
    measure("8 CPUs, 100 tasks, shallowest", 8, 100, "shallowest", 2_000);
    aim("simulation with menu, M events/s", rate, Limit::NotBelow(AIM));
    let full = [
        ("100 tasks", load(8, 100)),
        ("IO: psync, 8 jobs", jobs("psync", 8, 1)),
        ("IO: libaio, 1 job of 128", jobs("libaio", 1, 128)),
        ("IO: io_uring, 6 jobs of 128", jobs("io_uring", 6, 128)),
    ];
    for (what, workload) in full {
        let mut request = request(workload, 8, "menu", 2_000);
        request.options.cpufreq = vec!["schedutil".parse().unwrap_or_else(|e| panic!("{e}"))];
        for boost in ["none", "iowait", "per-task"] {
            request.options.io_boosts = vec![boost.parse().unwrap_or_else(|e| panic!("{e}"))];
            let rate = measure_request(&format!("{what}, {boost}"), &request);
            aim(
                &format!("simulation, {what}, {boost}, M events/s"),
                rate,
                Limit::NotBelow(FULL_AIM),
            );
        }
    }
    for cpus in [8, 16, 32, 64, 128, 256] {
        measure(&format!("{cpus} CPUs, 100 tasks"), cpus, 100, "menu", 1_000);
    }
    for tasks in [100, 316, 1_000, 3_162, 10_000] {
        measure(&format!("8 CPUs, {tasks} tasks"), 8, tasks, "menu", 1_000);
    }
    growth();
    for cpus in [8, 32, 128, 256] {
        let tasks = cpus * 40;
        measure(&format!("{cpus} CPUs, {tasks} tasks"), cpus, tasks, "menu", 64_000 / cpus);
    }
    phone_minute();
    simpy();
}

/// Simulates the calibrated workload of the Pixel 6 study, with schedutil as on the phone.
fn phone_minute() {
    const BROWSING: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/torpor_lab/studies/workloads/browsing.toml");
    for governor in ["menu", "teo", "shallowest", "teo,util_mode=shallowest", "teo,util_mode=step"]
    {
        let request = Request {
            workload: workload::resolve(BROWSING).unwrap_or_else(|e| panic!("{e}")),
            platform: Platform::resolve("pixel6").unwrap_or_else(|e| panic!("{e}")),
            governors: vec![governor.parse().unwrap_or_else(|e| panic!("{e}"))],
            options: Options {
                duration: Duration(60_000_000_000),
                seed: 1,
                seeds: 10,
                ..Options::default()
            },
        };
        let (events, took_s) = fastest(&request);
        println!("phone minute, {governor}: {events} events");
        aim(&format!("a minute of a phone, {governor}, s"), took_s, Limit::NotAbove(MINUTE_AIM_S));
    }
}

fn growth() {
    let settled = [100, 1_000, 10_000].map(measure_settled);
    let growth = settled[2] / settled[0];
    aim("an event of 10,000 tasks to one of 100", growth, Limit::NotAbove(GROWTH_AIM));
}

/// Measures the cost of an event after all tasks have started: starting 10,000 tasks takes much of a
/// run's first second.
fn measure_settled(tasks: usize) -> f64 {
    let cost = |ms: usize| fastest(&request(load(8, tasks), 8, "menu", ms));
    let ((few, short_s), (many, long_s)) = (cost(1_000), cost(3_000));
    let ns = 1e9 * (long_s - short_s) / (many - few) as f64;
    println!(
        "{:<34} {:>12} {:>10.2} {ns:>10.0}",
        format!("8 CPUs, {tasks} tasks, settled"),
        many - few,
        1e3 / ns
    );
    ns
}

fn measure(what: &str, cpus: usize, tasks: usize, governor: &str, ms: usize) -> f64 {
    measure_request(what, &request(load(cpus, tasks), cpus, governor, ms))
}

fn request(workload: Workload, cpus: usize, governor: &str, ms: usize) -> Request {
    Request {
        workload,
        platform: machine(cpus),
        governors: vec![governor.parse().unwrap_or_else(|e| panic!("{e}"))],
        options: Options {
            duration: Duration(ms as i64 * 1_000_000),
            seed: 1,
            seeds: 10,
            ..Options::default()
        },
    }
}

/// Returns the events of the fastest round, in millions per second.
fn measure_request(what: &str, request: &Request) -> f64 {
    let (events, took_s) = fastest(request);
    let rate = 1e-6 * events as f64 / took_s;
    println!("{what:<34} {events:>12} {rate:>10.2} {:>10.0}", 1e3 / rate);
    rate
}

/// Returns the number of events, and the seconds of the fastest round.
fn fastest(request: &Request) -> (u64, f64) {
    let session = Session::new(request, &Catalog::new(Default::default()));
    let session = session.unwrap_or_else(|e| panic!("{e}"));
    let (mut best_s, mut events) = (f64::INFINITY, 0);
    for _ in 0..ROUNDS {
        let began_s = cpu_s();
        let run = session.simulate(0, 1, Unobserved, &mut |_| true);
        let (counted, _) = run.unwrap_or_else(|e| panic!("{e}")).unwrap_or_else(|e| panic!("{e}"));
        events = counted.events;
        best_s = best_s.min(cpu_s() - began_s);
    }
    (events, best_s)
}

/// Returns tasks that keep the CPUs half busy, in passes of 200 us on average.
fn load(cpus: usize, tasks: usize) -> Workload {
    let sleep = (200.0 * (2.0 * tasks as f64 / cpus as f64 - 1.0)).max(200.0);
    let text = format!(
        r#"
name = "bench"
title = "bench"
source = "made up"
[[task]]
name = "t"
count = {tasks}
phase = [
    {{ run_us = {{ dist = "exponential", mean = 200 }} }},
    {{ sleep_us = {{ dist = "exponential", mean = {sleep} }} }},
]
"#
    );
    workload::from_toml("bench", &text).unwrap_or_else(|e| panic!("{e}"))
}

/// Returns random reads from the built-in NVMe drive.
fn jobs(engine: &str, numjobs: u32, iodepth: u32) -> Workload {
    let text = format!(
        r#"
name = "bench"
title = "bench"
source = "made up"
[[fio]]
name = "j"
device = "nvme"
ioengine = "{engine}"
numjobs = {numjobs}
iodepth = {iodepth}
"#
    );
    workload::from_toml("bench", &text).unwrap_or_else(|e| panic!("{e}"))
}

fn machine(cpus: usize) -> Platform {
    let text = format!(
        r#"
name = "bench"
title = "bench"
source = "made up"
hz = 250
[[cluster]]
name = "all"
cpus = "0-{}"
capacity = 1024
idle_state_source = "made up"
opp_source = "made up"
opp = [
    {{ freq_khz = 1000000 }}, {{ freq_khz = 1500000 }}, {{ freq_khz = 2000000 }},
    {{ freq_khz = 2500000 }}, {{ freq_khz = 3000000 }},
]
idle_state = [
    {{ name = "C1", exit_latency_us = 2, target_residency_us = 2 }},
    {{ name = "C1E", exit_latency_us = 10, target_residency_us = 20 }},
    {{ name = "C6", exit_latency_us = 85, target_residency_us = 200 }},
]
"#,
        cpus - 1
    );
    torpor_machine::platform::from_toml("bench", &text).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs the loop in simpy, or prints why it cannot.
fn simpy() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/simpy_toy.py");
    match Command::new("python3").arg(script).output() {
        Ok(output) if output.status.success() => {
            print!("{}", String::from_utf8_lossy(&output.stdout));
        }
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr);
            let last = error.lines().last().unwrap_or("it failed").to_owned();
            println!("simpy toy: not run: {last} (pip install simpy)");
        }
        Err(error) => println!("simpy toy: not run: python3: {error}"),
    }
}
