// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Limits of power and of active cores: cases small enough to work out by hand.

use crate::support::{count, load, near, one_cluster, platform, request, run};
use torpor_machine::platform::Platform;
use torpor_machine::units::Duration;
use torpor_sim::machine::{Counted, Limit};

/// CPUs on one clock of 1 or 2 GHz; a busy one takes 300 or 1000 mW.
fn limited(cpus: usize, extra: &str, cluster: &str) -> Platform {
    let cluster = format!(
        r#"
{cluster}
opp = [
    {{ freq_khz = 1000000, active_power_mw = 300 }},
    {{ freq_khz = 2000000, active_power_mw = 1000 }},
]
idle_state = [
    {{ name = "C1", exit_latency_us = 2, target_residency_us = 2, power_mw = 100 }},
    {{ name = "C6", exit_latency_us = 85, target_residency_us = 200, power_mw = 10 }},
]
"#
    );
    platform(&one_cluster(cpus, extra, &cluster))
}

fn power_limit(mw: u32, window_ms: u32) -> String {
    format!(
        "power_limit_source = \"made up\"\n[[power_limit]]\nname = \"long_term\"\n\
         power_limit_mw = {mw}\ntime_window_us = {}\n",
        1_000 * window_ms
    )
}

const TURBO: &str =
    "turbo_khz = [2000000, 1000000]\nturbo_idle_state = \"C6\"\nturbo_source = \"made up\"";

const BUSY: &str = "[[task]]\nname = \"t\"\ncpus = \"0\"\nphase = [{ run_us = 1000000 }]\n";

fn counted(platform: Platform, workload: &str, governor: &str, ms: i64) -> Counted {
    count(&request(platform, load(workload), &[governor], ms)).unwrap()
}

fn busy_mw(counted: &Counted) -> f64 {
    let [slow, fast] = counted.cpus[0].busy_at[..] else { panic!("two OPPs") };
    (300.0 * slow.0 as f64 + 1000.0 * fast.0 as f64) / counted.span.0 as f64
}

#[test]
fn sustained_power_stays_at_the_limit() {
    let outcome =
        run(&request(limited(1, &power_limit(500, 10), ""), load(BUSY), &["shallowest"], 2_000));
    let row = |key: &str| outcome.runs[0].run.metrics[key].unwrap();
    // A millisecond at 1 W moves the average by an eleventh of the way: it is taken below 450 mW.
    let power = row("power_mw");
    assert!((450.0..=500.0).contains(&power), "{power}");
    let slow = (1000.0 - power) / 700.0;
    near(row("power_limited_pct"), 100.0 * slow, 0.02);
    near(row("freq_busy_khz"), 2e6 - 1e6 * slow, 0.02);
}

/// The average of an idle machine lets it run for a time: 1 W is above 0.5 W after 0.69 windows.
#[test]
fn long_window_allows_a_burst() {
    let counted = counted(limited(1, &power_limit(500, 1_000), ""), BUSY, "shallowest", 500);
    assert_eq!(counted.domains[0].limited[Limit::Power as usize], Duration::ZERO);
    near(busy_mw(&counted), 1000.0, 0.01);
}

#[test]
fn lowest_frequency_may_exceed_the_limit() {
    let counted = counted(limited(1, &power_limit(200, 10), ""), BUSY, "shallowest", 2_000);
    near(busy_mw(&counted), 300.0, 0.02);
}

#[test]
fn shallow_idle_takes_the_power_of_work() {
    // 1000 mW for one CPU and 3 CPUs in C1 are 1300 mW, in C6 1030.
    let of = |governor| {
        let platform = limited(4, &power_limit(1_150, 100), "");
        let mut request = request(platform, load(BUSY), &[governor], 1_000);
        request.options.warm_up = Duration(1_000_000_000);
        count(&request).unwrap()
    };
    let time = |counted: &Counted| counted.domains[0].limited[Limit::Power as usize];
    let (shallow, deep) = (of("shallowest"), of("deepest"));
    assert_eq!(time(&deep), Duration::ZERO);
    // 150 mW less than 1300, of the 700 that the lower frequency saves.
    near(time(&shallow).0 as f64 / 1e9, 150.0 / 700.0, 0.1);
}

#[test]
fn idle_depth_decides_on_turbo() {
    let of = |governor| counted(limited(2, "", TURBO), BUSY, governor, 1_000);
    let time = |counted: &Counted| counted.domains[0].limited[Limit::Turbo as usize];
    let (shallow, deep) = (of("shallowest"), of("deepest"));
    // The start finds both at the highest frequency.
    near(time(&shallow).0 as f64, 1e9, 0.01);
    assert!(time(&deep) < Duration::from_us(20_000), "{}", time(&deep));
}

#[test]
fn limit_that_does_not_bind_changes_nothing() {
    let free = counted(limited(2, "", ""), BUSY, "deepest", 500);
    let wide = counted(limited(2, &power_limit(5_000, 10), ""), BUSY, "deepest", 500);
    assert_eq!(free.cpus[0].busy_at, wide.cpus[0].busy_at);
    assert_eq!(free.cpus[1].totals.states, wide.cpus[1].totals.states);
}

/// A run with a warm-up counts from there, and the running average goes on.
#[test]
fn average_survives_the_warm_up() {
    let mut request =
        request(limited(1, &power_limit(500, 100), ""), load(BUSY), &["shallowest"], 1_000);
    request.options.warm_up = Duration(1_000_000_000);
    let outcome = run(&request);
    near(outcome.runs[0].run.metrics["power_mw"].unwrap(), 500.0, 0.02);
}
