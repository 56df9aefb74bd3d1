// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The simulator against queueing theory and against its own totals.

use crate::support;

use crate::support::{big_little, count, count_seed, load, machine, request, run};
use proptest::prelude::*;
use torpor_machine::units::Duration;
use torpor_sim::machine::Counted;

/// Requests arrive as a Poisson process and are served by one task, first come, first served.
fn mm1(rho: f64) -> String {
    format!(
        r#"
[[task]]
name = "server"
phase = [{{ wait = "request" }}, {{ run_us = {{ dist = "exponential", mean = 100 }} }}]

[[interrupt]]
name = "request"
interval_us = {{ dist = "exponential", mean = {} }}
wake = "request"
"#,
        100.0 / rho
    )
}

#[test]
fn mm1_utilization_equals_the_load() {
    for rho in [0.3, 0.7] {
        let mut platform = machine(1, "");
        for state in &mut platform.clusters[0].idle_states {
            state.exit_latency = Duration::ZERO;
        }
        let request = request(platform, load(&mm1(rho)), &["shallowest"], 5_000);
        let runs: Vec<Counted> = (1..=10).map(|seed| count_seed(&request, seed).unwrap()).collect();
        let busy: Vec<f64> = runs.iter().map(|r| r.cpus[0].task_time.0 as f64 / 5e9).collect();
        let interval = torpor_result::interval::paired(&busy).unwrap();
        assert!(interval.low <= rho && rho <= interval.high, "{rho}: {interval:?}");
        assert!(interval.high - interval.low < 0.02, "{interval:?}");
    }
}

/// A CPU's clock is ahead while a handler runs; whatever expires by it has not expired elsewhere.
#[test]
fn timer_waits_for_the_end_of_a_handler() {
    let tables = r#"
[[task]]
name = "sleeper"
count = 6
phase = [{ run_us = 20 }, { sleep_us = 700 }]

[[interrupt]]
name = "long"
cpus = "0"
interval_us = 1000
handling_us = 1500
"#;
    let counted = count(&request(machine(2, ""), load(tables), &["menu"], 200)).unwrap();
    let kind = &counted.kinds[0];
    assert!(kind.passes <= 6 * 200_000 / 720, "{} passes", kind.passes);
    let mean = kind.latency.latencies().mean().unwrap();
    assert!(mean >= Duration::ZERO, "mean latency {mean:?}");
}

/// Each request is a task of its own, so that it is served at once with the others; for
/// exponential lengths that changes nothing about the mean: 1 / (mu - lambda).
#[test]
fn mm1_response_time_matches_theory() {
    for rho in [0.3, 0.7] {
        let tables = format!(
            r#"
[[task]]
name = "request"
count = 0
repeat = 1
phase = [{{ run_us = {{ dist = "exponential", mean = 100 }} }}]

[[interrupt]]
name = "client"
interval_us = {{ dist = "exponential", mean = {} }}
spawn = "request"
"#,
            100.0 / rho
        );
        let mut platform = machine(1, "");
        for state in &mut platform.clusters[0].idle_states {
            state.exit_latency = Duration::ZERO;
        }
        let request = request(platform, load(&tables), &["shallowest"], 4_000);
        let means: Vec<f64> = (1..=12)
            .map(|seed| {
                let counted = count_seed(&request, seed).unwrap();
                counted.kinds[0].pass_time.latencies().mean().unwrap().as_us_f64()
            })
            .collect();
        let interval = torpor_result::interval::paired(&means).unwrap();
        let expected = 100.0 / (1.0 - rho);
        assert!(interval.low <= expected && expected <= interval.high, "{expected}: {interval:?}");
        assert!(interval.high - interval.low < 0.06 * expected, "{interval:?}");
    }
}

/// `handling` is what a tick takes that wakes a CPU; the idle loop counts those.
fn conserved(counted: &Counted, handling: Duration) {
    let span = counted.span;
    let mut on_cpus = Duration::ZERO;
    for (number, cpu) in counted.cpus.iter().enumerate() {
        let ticks = (cpu.totals.tick_wakeups + cpu.totals.governor_timer_wakeups) as i64;
        let known = cpu.task_time + cpu.overhead + cpu.totals.idle_time();
        let all = known + Duration(ticks * handling.0);
        // Charges at the very end reach beyond it: a tick, and work of the kernel's own.
        let off = all - span;
        let most = handling.0 + 200_000;
        assert!((-most..=most).contains(&off.0), "CPU {number}: {all} of {span}");
        on_cpus += cpu.task_time;
    }
    let of_tasks = counted.kinds.iter().fold(Duration::ZERO, |sum, k| sum + k.cpu_time);
    assert_eq!(on_cpus, of_tasks);
}

#[test]
fn idle_and_busy_time_make_up_the_span() {
    for governor in ["menu", "teo", "deepest"] {
        let counted = count(&request(machine(4, ""), load(&mm1(0.5)), &[governor], 1_000)).unwrap();
        conserved(&counted, Duration::ZERO);
    }
}

#[test]
fn completed_work_equals_requested_work() {
    // 300 passes of 1 ms each at full speed, wherever they run.
    let workload = "[[task]]\nname = \"t\"\ncount = 3\nrepeat = 100\nphase = [{ run_us = 1000 }, { sleep_us = { dist = \"uniform\", min = 0, max = 2000 } }]\n";
    let counted = count(&request(machine(2, ""), load(workload), &["menu"], 5_000)).unwrap();
    assert_eq!(counted.kinds[0].ended, 3);
    assert_eq!(counted.kinds[0].cpu_time, Duration(300_000_000));
    let counted = count(&request(big_little(), load(workload), &["menu"], 10_000)).unwrap();
    assert_eq!(counted.kinds[0].ended, 3);
    let speed = [256, 256, 1024, 1024];
    let work: i64 = counted.cpus.iter().zip(speed).map(|(c, s)| c.task_time.0 * s).sum();
    // The CPU's last ns of each pass may be worth more than the work left.
    let asked = 300_000_000 * 1024;
    assert!((0..1024 * 1_000).contains(&(work - asked)), "{work} of {asked}");
}

#[test]
fn threads_and_repetition_change_no_byte() {
    let mut request = request(machine(4, ""), load(&mm1(0.6)), &["menu", "teo", "shallowest"], 300);
    request.options.seeds = 4;
    let one = serde_json::to_string(&run(&request)).unwrap();
    let again = serde_json::to_string(&run(&request)).unwrap();
    request.options.threads = Some(2);
    let two = serde_json::to_string(&run(&request)).unwrap();
    assert_eq!(one, again);
    assert_eq!(one, two);
    request.options.seed = 2;
    assert_ne!(one, serde_json::to_string(&run(&request)).unwrap());
}

#[test]
fn governors_get_the_same_workload() {
    let mut request = request(machine(2, ""), load(&mm1(0.3)), &["shallowest", "deepest"], 2_000);
    request.options.seeds = 3;
    let outcome = run(&request);
    let runs = &outcome.runs;
    for (a, b) in runs[0].seeds.iter().zip(&runs[1].seeds) {
        // The same arrivals, to within the last that is still under way.
        let served = |m: &torpor_sim::outcome::SeedOutcome| m.metrics["throughput"].unwrap() * 2.0;
        assert!((served(a) - served(b)).abs() <= 3.0, "{} {}", served(a), served(b));
    }
    let rows = &outcome.comparison.rows;
    let row = rows.iter().find(|row| row.key == "task_latency_mean_us").unwrap();
    let deeper = row.cells[1].change.as_ref().unwrap();
    assert!(deeper.is_better == Some(false) && deeper.difference > 0.0, "{deeper:?}");
}

/// A task that does a few things and always takes time.
fn any_task(index: usize) -> impl Strategy<Value = String> {
    let phase = prop_oneof![
        (1..2_000u32).prop_map(|us| format!("{{ run_us = {us} }}")),
        (0..3_000u32).prop_map(|us| format!(
            "{{ sleep_us = {{ dist = \"uniform\", min = 0, max = {us} }} }}"
        )),
        (1..5_000u32).prop_map(|us| format!("{{ period_us = {us} }}")),
        Just("{ wake = \"c\" }".to_owned()),
        Just("{ wait = \"c\" }".to_owned()),
        Just("{ io = \"d\" }".to_owned()),
        (1..300u32).prop_map(|us| format!(
            "{{ repeat = 3, do = [{{ run_us = {{ dist = \"exponential\", mean = {us} }} }}] }}"
        )),
        Just("{ spawn = \"child\" }".to_owned()),
    ];
    (prop::collection::vec(phase, 1..6), 1..6u32, 1..4u32).prop_map(move |(phases, count, weight)| {
        format!(
            "[[task]]\nname = \"t{index}\"\ncount = {count}\nweight = {}\nphase = [{{ run_us = 7 }}, {}]\n",
            weight * 512,
            phases.join(", ")
        )
    })
}

/// A job on the device of the workload, or on one whose completions go from CPU to CPU.
fn any_job() -> impl Strategy<Value = String> {
    let engine = prop::sample::select(vec!["libaio", "io_uring"]);
    let device = prop::sample::select(vec!["d", "emmc", "sd", "nvme"]);
    (engine, device, 1..40u32, 0..90u32).prop_map(|(engine, device, iodepth, think)| {
        format!(
            "[[fio]]\nname = \"job\"\nioengine = \"{engine}\"\ndevice = \"{device}\"\niodepth = \
             {iodepth}\nthinktime_us = {think}\nruntime = 0.05\n"
        )
    })
}

fn any_workload() -> impl Strategy<Value = String> {
    (any_task(0), any_task(1), any_task(2), any_job(), 50..5_000u32).prop_map(
        |(a, b, c, job, interval)| {
            format!(
                r#"{a}{b}{c}{job}
[[task]]
name = "child"
count = 1
repeat = 1
phase = [{{ run_us = 20 }}, {{ wake = "c" }}, {{ wait = "c" }}]

[[device]]
name = "d"
service_us = {{ dist = "gamma", mean = 100, sd = 50 }}
servers = 2

[[interrupt]]
name = "i"
interval_us = {{ dist = "exponential", mean = {interval} }}
cpus = "0-1"
burst = 2
burst_gap_us = 5
handling_us = 2
wake = "c"
"#
            )
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn time_and_work_are_conserved(
        tables in any_workload(),
        governor in prop::sample::select(vec!["menu", "teo", "haltpoll", "ladder"]),
        cpus in 2..6usize,
        asymmetric in any::<bool>(),
    ) {
        let platform = if asymmetric {
            big_little()
        } else {
            support::polling_machine(cpus, "ipi_send_us = 1\nipi_delivery_us = 2\ncontext_switch_us = 1\noverhead_source = \"x\"")
        };
        let handling = platform.tick_handling;
        let request = request(platform, load(&tables), &[governor], 200);
        // A run-away fork or a deadlock is an answer, too.
        if let Ok(counted) = count(&request) {
            conserved(&counted, handling);
        }
    }
}
