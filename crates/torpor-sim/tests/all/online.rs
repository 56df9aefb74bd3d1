// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A machine of which some CPUs are offline.

use crate::support::{count, load, machine, near, request, run};
use torpor_machine::units::CpuId;
use torpor_sim::outcome::Outcome;
use torpor_sim::{Options, Request, SimError};

/// Tasks without affinity, interrupts of every CPU and of CPU 0, and a device with a queue per CPU.
const MIXED: &str = r#"
[[task]]
name = "worker"
count = 5
phase = [
    { run_us = { dist = "exponential", mean = 300 } },
    { io = "disk" },
    { sleep_us = { dist = "exponential", mean = 900 } },
]

[[interrupt]]
name = "each"
each_cpu_us = 100
interval_us = 3000

[[interrupt]]
name = "zero"
interval_us = 1700

[[device]]
name = "disk"
service_us = 80
"#;

fn on_cpus(mut request: Request, cpus: &[u32]) -> Request {
    request.options.cpus = Some(cpus.iter().copied().map(CpuId).collect());
    request
}

/// Wake-ups of each kind of task, and requests of each device.
fn work(request: &Request) -> Vec<f64> {
    let counted = count(request).unwrap();
    let wakeups = counted.kinds.iter().map(|kind| kind.wakeups as f64);
    wakeups.chain(counted.devices.iter().map(|device| device.requests as f64)).collect()
}

#[test]
fn offline_cpus_change_nothing_for_the_others() {
    let of = |cpus| request(machine(cpus, ""), load(MIXED), &["menu"], 500);
    let (part, small) = (work(&on_cpus(of(4), &[0, 1])), work(&of(2)));
    for (part, small) in part.into_iter().zip(small) {
        near(part, small, 0.02);
    }
}

/// A kernel ignores CPUs beyond its limit, of which none may be online.
#[test]
fn only_online_cpus_count_for_the_limit() {
    let of = |cpus| request(machine(cpus, ""), load(MIXED), &["menu"], 100);
    let (part, small) = (work(&on_cpus(of(1_500), &[0, 1])), work(&on_cpus(of(4), &[0, 1])));
    assert_eq!(part.len(), small.len());
    for (part, small) in part.into_iter().zip(small) {
        near(part, small, 0.02);
    }
    let refused = count(&of(1_025)).unwrap_err();
    assert!(refused.contains("1025 CPUs") && refused.contains("option `cpus`"), "{refused}");
}

#[test]
fn a_thousand_cpus_run() {
    let counted = count(&request(machine(1_024, ""), load(MIXED), &["menu"], 20)).unwrap();
    assert_eq!(counted.cpus.len(), 1_024);
    // Its interrupts begin at 10 ms; those of the last CPU would at 102 ms.
    assert!(counted.cpus[100].totals.wakeups >= 3);
    let asleep: i64 = counted.cpus[1_023].totals.states.iter().map(|state| state.time.0).sum();
    assert!(asleep > 19_000_000, "{asleep} ns");
}

#[test]
fn offline_cpus_take_deepest_power_only() {
    let of = |cpus| request(machine(cpus, ""), load(MIXED), &["menu"], 500);
    let (small, part) = (run(&of(2)), run(&on_cpus(of(4), &[0, 1])));
    let deepest = machine(1, "").clusters[0].idle_states.last().unwrap().power.clone();
    let torpor_machine::platform::StatePower::Constant(deepest) = deepest else {
        panic!("one power")
    };
    let offline = 2.0 * deepest.over(torpor_machine::units::Duration(500_000_000)).as_uj_f64();
    assert!(offline > 0.0);
    let energy = |outcome: &Outcome| outcome.runs[0].run.metrics["energy_uj"].unwrap();
    near(energy(&part), energy(&small) + offline, 0.01);
    for key in ["wakeups", "latency_p50_us"] {
        let [part, small] = [&part, &small].map(|outcome| outcome.runs[0].run.metrics[key]);
        near(part.unwrap(), small.unwrap(), 0.02);
    }
    let shown = &part.runs[0].perf_domains[0].cpus;
    assert_eq!(shown, &[0, 1]);
    let options = serde_json::to_value(&part.options).unwrap();
    assert_eq!(options["cpus"], serde_json::json!([0, 1]));
    assert!(part.notes.iter().any(|note| note.contains("CPU 0-1 of 4 online")), "{:?}", part.notes);
}

fn refused(request: &Request) -> String {
    let catalog = torpor_governor::Catalog::new(Default::default());
    let ran = torpor_sim::run(request, &catalog, &torpor_engine::Unwatched);
    ran.map(|_| ()).map_err(|e: SimError| e.to_string()).unwrap_err()
}

#[test]
fn missing_cpu_and_task_without_one_are_named() {
    let of = |workload| request(machine(4, ""), load(workload), &["menu"], 500);
    let unknown = refused(&on_cpus(of(MIXED), &[1, 4]));
    assert!(unknown.contains("cpu4") && unknown.contains("CPUs 0 to 3"), "{unknown}");
    assert!(refused(&on_cpus(of(MIXED), &[])).contains("none"));
    let pinned = "[[task]]\nname = \"pinned\"\ncpus = \"2-3\"\nphase = [{ run_us = 1 }]\n";
    let lost = refused(&on_cpus(of(pinned), &[0, 1]));
    assert!(lost.contains("task `pinned`") && lost.contains("CPU 2-3"), "{lost}");
    assert_eq!(count(&on_cpus(of(pinned), &[0, 2])).unwrap().kinds[0].started, 1);
    assert_eq!(Options::default().cpus, None);
}
