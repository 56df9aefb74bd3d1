// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Clocks: cases small enough to work out by hand.

use crate::support::{count, load, near, one_cluster, platform, request, run};
use torpor_machine::platform::Platform;
use torpor_machine::units::{Duration, Energy, Power};
use torpor_sim::machine::Counted;
use torpor_sim::{Cpufreq, Request};
use torpor_trace::EventKind;

/// Two CPUs on one clock of 1 or 2 GHz, by which work, C1 and running take half or all.
fn two_speeds(cpus: usize, clock: &str) -> Platform {
    let cluster = format!(
        r#"
{clock}
opp = [
    {{ freq_khz = 1000000, active_power_mw = 300, static_power_mw = 7 }},
    {{ freq_khz = 2000000, active_power_mw = 1000, static_power_mw = 20 }},
]
idle_state = [
    {{ name = "C1", exit_latency_us = 0, target_residency_us = 0, power_per_opp_mw = [50, 100] }},
    {{ name = "C6", exit_latency_us = 85, target_residency_us = 200, power_mw = 10 }},
]
"#
    );
    platform(&one_cluster(cpus, "", &cluster))
}

fn under(cpufreq: &str, mut request: Request) -> Request {
    request.options.cpufreq = vec![cpufreq.parse::<Cpufreq>().unwrap()];
    request
}

fn counted(cpufreq: &str, platform: Platform, workload: &str, ms: i64) -> Counted {
    count(&under(cpufreq, request(platform, load(workload), &["shallowest"], ms))).unwrap()
}

/// 100 us of work at the start of every 10 ms.
const PERIODIC: &str =
    "[[task]]\nname = \"t\"\ncpus = \"0\"\nphase = [{ run_us = 100 }, { period_us = 10000 }]\n";
const BUSY: &str = "[[task]]\nname = \"t\"\ncpus = \"0\"\nphase = [{ run_us = 1000000 }]\n";

#[test]
fn half_frequency_takes_twice_the_time() {
    for (cpufreq, opp, us, mw) in [("performance", 1, 100, 1000.0), ("powersave", 0, 200, 300.0)] {
        let counted = counted(cpufreq, two_speeds(1, ""), PERIODIC, 1_000);
        assert_eq!(counted.kinds[0].cpu_time, Duration::from_us(100 * us), "{cpufreq}");
        near(counted.cpus[0].busy_at[opp].0 as f64, 100.0 * 1e3 * us as f64, 0.02);
        near(counted.domains[0].time_at[opp].0 as f64, 1e9, 1e-4);
        // Busy, else in C1, plus the cluster's own power all the time: C1 is not its deepest state.
        let idle = if opp == 1 { 100.0 } else { 50.0 };
        let own = if opp == 1 { 20.0 } else { 7.0 };
        let expected = (mw * 0.01 * us as f64 / 100.0) + idle * (1.0 - 0.01 * us as f64 / 100.0);
        let outcome = run(&under(
            cpufreq,
            request(two_speeds(1, ""), load(PERIODIC), &["shallowest"], 1_000),
        ));
        let power = outcome.runs[0].run.metrics["power_mw"].unwrap();
        assert!((power - expected - own).abs() < 0.1, "{cpufreq}: {power}, {expected} + {own}");
    }
}

#[test]
fn busiest_cpu_sets_the_shared_clock() {
    let other = PERIODIC.replace("\"t\"", "\"u\"").replace("\"0\"", "\"1\"");
    let workload = format!("{BUSY}\n{other}");
    let counted = counted("schedutil", two_speeds(2, ""), &workload, 1_000);
    // Every pass is a fast one.
    near(counted.kinds[1].cpu_time.0 as f64, 100.0 * 100e3, 0.02);
}

/// An idle CPU takes each OPP's power for as long as the clock is there, in the middle of a sleep.
#[test]
fn sleep_takes_the_power_of_each_frequency() {
    let bursts = "[[task]]\nname = \"t\"\ncpus = \"0\"\n\
                  phase = [{ run_us = 100000 }, { sleep_us = 300000 }]\n";
    let counted = counted("schedutil", two_speeds(2, ""), bursts, 2_000);
    let [slow, fast] = counted.domains[0].time_at[..] else { panic!("two OPPs") };
    assert!(slow.0 > 100_000_000 && fast.0 > 100_000_000, "{slow} {fast}");
    let expected = Power::from_mw(50.0).over(slow) + Power::from_mw(100.0).over(fast);
    // CPU 1 sleeps, but for the kernel's own work.
    near(counted.cpus[1].totals.energy.as_uj_f64(), expected.as_uj_f64(), 0.01);
    let own = Power::from_mw(7.0).over(slow) + Power::from_mw(20.0).over(fast);
    assert_eq!(counted.static_energy, [own]);
    assert_eq!(counted.shared_energy, [Energy::ZERO]);
}

#[test]
fn a_clamp_lifts_or_holds_the_frequency() {
    let with = |clamp: &str| BUSY.replace("phase", &format!("{clamp}\nphase"));
    let slow = |cpufreq, workload: &str| {
        counted(cpufreq, two_speeds(1, ""), workload, 1_000).domains[0].time_at[0].0 / 1_000_000
    };
    let held = slow("schedutil", &with("uclamp_max = 512"));
    assert!(held > 990, "{held} ms of 1000 at 1 GHz");
    let small = PERIODIC.replace("phase", "uclamp_min = 600\nphase");
    let lifted = counted("schedutil", two_speeds(1, ""), &small, 1_000);
    assert!(lifted.domains[0].time_at[0] < Duration::from_us(30_000));
    // A CPU with a clock of its own that keeps its tick in idle counts as never idle.
    let free = counted("schedutil", two_speeds(2, ""), PERIODIC, 10_000);
    assert!(free.domains[0].time_at[0] > Duration::from_us(9_000_000));
}

/// 20 ms of work after each 60 ms of sleep.
const BURSTS: &str = "[[task]]\nname = \"t\"\ncpus = \"0\"\n\
                      phase = [{ run_us = 20000 }, { sleep_us = 60000 }]\n";

/// Simulates 1 s of bursts, and returns the recording's changes of CPU 0's clock: when, in ms, and
/// to what; and the number of changes of both CPUs' clock.
fn recorded_changes(clock: &str, ending: &str) -> (Vec<(f64, u32)>, usize) {
    let path = std::env::temp_dir().join(format!(
        "torpor-freq-{}-{:?}.{ending}",
        std::process::id(),
        std::thread::current().id()
    ));
    let machine = two_speeds(2, clock);
    let mut request = under("schedutil", request(machine, load(BURSTS), &["shallowest"], 1_000));
    let transitions = count(&request).unwrap().domains[0].transitions as usize;
    request.options.trace = Some(path.clone());
    run(&request);
    let trace = torpor_trace::read(&path).unwrap_or_else(|e| panic!("{e}"));
    std::fs::remove_file(&path).unwrap();
    assert!(trace.carries.frequency);
    let seen = trace.events.iter().filter_map(|event| match event.kind {
        EventKind::CpuFrequency { freq_khz } => {
            Some((event.cpu.0, (event.time.0 as f64 / 1e6, freq_khz)))
        }
        _ => None,
    });
    let seen: Vec<_> = seen.collect();
    // Begin of each CPU, and each change of both.
    assert_eq!(seen.len(), 2 * (1 + transitions), "{ending}");
    (seen.iter().filter(|(cpu, _)| *cpu == 0).map(|(_, change)| *change).collect(), transitions)
}

/// Without fast switching a thread of the kernel changes the clock, and sleeps for its latency.
#[test]
fn slow_clock_changes_after_its_latency() {
    let first = |clock: &str| recorded_changes(clock, "txt").0[1].0;
    let fast = first("fast_switch = true\nclock_latency_ns = 15000000");
    let slow = first("clock_latency_ns = 15000000");
    let late = slow - fast;
    assert!((15.0..15.1).contains(&late), "{slow} ms, {fast} ms with fast switching");
}

#[test]
fn drivers_rate_limit_bounds_changes() {
    let changes = |clock: &str| {
        let counted = counted("schedutil", two_speeds(2, clock), BURSTS, 4_000);
        counted.domains[0].transitions
    };
    let (free, bound) = (changes("fast_switch = true"), changes("rate_limit_us = 500000"));
    assert!(bound <= 8 && free > 2 * bound, "{bound} changes in 4 s, {free} without the limit");
}

#[test]
fn results_do_not_depend_on_the_thread_count() {
    let workload = format!("{PERIODIC}\n{}", BUSY.replace("\"t\"", "\"u\""));
    let json = |threads| {
        let mut request = request(two_speeds(2, ""), load(&workload), &["menu", "teo"], 200);
        request.options.cpufreq =
            ["performance", "schedutil", "ondemand"].map(|c| c.parse().unwrap()).to_vec();
        (request.options.seeds, request.options.threads) = (2, Some(threads));
        serde_json::to_string(&run(&request)).unwrap()
    };
    assert_eq!(json(1), json(2));
}

#[test]
fn a_column_is_a_governor_under_a_policy() {
    let mut request = request(two_speeds(1, ""), load(PERIODIC), &["menu", "teo"], 100);
    request.options.cpufreq = ["performance", "powersave"].map(|name| name.parse().unwrap()).into();
    let outcome = run(&request);
    let columns = outcome.runs.iter();
    let columns: Vec<_> = columns.map(|c| (&c.run.governor[..], &c.policies.cpufreq[..])).collect();
    assert_eq!(
        columns,
        [
            ("menu + performance", "performance"),
            ("teo + performance", "performance"),
            ("menu + powersave", "powersave"),
            ("teo + powersave", "powersave"),
        ]
    );
    let policies = outcome.options.asked.cpufreq.iter().map(ToString::to_string);
    assert_eq!(policies.collect::<Vec<_>>(), ["performance", "powersave"]);
    let last = &outcome.runs[3];
    assert_eq!(last.run.metrics["freq_khz"], Some(1e6));
    assert_eq!(last.perf_domains[0].freq_busy_khz, Some(1e6));
    let energy = last.perf_domains[0].energy_uj.unwrap();
    assert!((energy - last.run.metrics["energy_uj"].unwrap()).abs() < 1e-6, "one clock, all of it");
}

#[test]
fn a_recording_holds_every_change_of_frequency() {
    for ending in ["txt", "perfetto-trace"] {
        let (changes, transitions) = recorded_changes("", ending);
        assert!(transitions > 4, "{transitions}");
        assert!(changes.windows(2).all(|pair| pair[0].1 != pair[1].1), "{ending}: {changes:?}");
    }
}

#[test]
fn impossible_clamp_lists_the_allowed_values() {
    for (clamp, allowed) in [
        ("uclamp_min = 600\nuclamp_max = 500", "600 to 1024"),
        ("uclamp_min = 1025", "1024"),
        ("uclamp_max = 0.5", "whole"),
    ] {
        let text = format!(
            "name = \"w\"\ntitle = \"w\"\nsource = \"x\"\n{}",
            BUSY.replace("phase", &format!("{clamp}\nphase"))
        );
        let error = torpor_sim::workload::from_toml("w.toml", &text).unwrap_err().to_string();
        assert!(error.contains("uclamp_m") && error.contains(allowed), "{error}");
    }
}
