// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Cases small enough to work out by hand.

use crate::support::{
    big_little, count, load, machine, machine_text, near, platform, polling_machine, request, takes,
};
use torpor_machine::units::Duration;
use torpor_result::TaskTotals;

/// Work for 100 us at the start of every 10 ms.
const PERIODIC: &str =
    "[[task]]\nname = \"t\"\nphase = [{ run_us = 100 }, { period_us = 10000 }]\n";

#[test]
fn wake_up_takes_exactly_the_exit_latency() {
    for (governor, exit_us) in [("shallowest", 2), ("deepest", 85)] {
        let counted = count(&request(machine(1, ""), load(PERIODIC), &[governor], 1_000)).unwrap();
        let latency = counted.kinds[0].latency.latencies();
        // It starts at 0, before any state can be entered... and wakes 99 times by its timer.
        assert_eq!(counted.kinds[0].wakeups, 99, "{governor}");
        takes(latency.max().unwrap(), Duration::from_us(exit_us), 1);
        takes(latency.quantile(0.5).unwrap(), Duration::from_us(exit_us), 1);
        assert_eq!(counted.kinds[0].cpu_time, Duration::from_us(100 * 100));
    }
}

#[test]
fn measured_latency_is_drawn_at_each_exit() {
    let measured = "exit_latency_us = 85, measured_latency_source = \"made up\", \
                    measured_exit_latency_us = { dist = \"empirical\", values = [20, 40] }";
    let text = machine_text(1, "").replace("exit_latency_us = 85", measured);
    let counted = count(&request(platform(&text), load(PERIODIC), &["deepest"], 1_000)).unwrap();
    let latency = counted.kinds[0].latency.latencies();
    takes(latency.quantile(0.0).unwrap(), Duration::from_us(20), 1);
    takes(latency.max().unwrap(), Duration::from_us(40), 1);
    let mean_us = latency.mean().unwrap().ns() as f64 / 1e3;
    // 99 fair draws: six standard deviations.
    near(mean_us, 30.0, 0.2);
}

#[test]
fn interrupts_and_switches_come_on_top() {
    let extra = "context_switch_us = 3\noverhead_source = \"made up\"";
    let mut platform = machine(1, extra);
    platform.tick_handling = Duration::from_us(7);
    let counted = count(&request(platform, load(PERIODIC), &["shallowest"], 1_000)).unwrap();
    let latency = counted.kinds[0].latency.latencies();
    // C1's 2 us, the timer's interrupt, the switch to the task.
    takes(latency.quantile(0.5).unwrap(), Duration::from_us(2 + 7 + 3), 1);
}

#[test]
fn little_cpu_takes_longer_for_same_work() {
    let workload = load(
        "[[task]]\nname = \"t\"\ncpus = \"0\"\nphase = [{ run_us = 100 }, { period_us = 10000 }]\n",
    );
    let counted = count(&request(big_little(), workload, &["menu"], 1_000)).unwrap();
    // Capacity 256 of 1024: four times as long.
    assert_eq!(counted.kinds[0].cpu_time, Duration::from_us(4 * 100 * 100));
}

/// Two tasks that wake each other in turn, 10 us of work each.
const PING_PONG: &str = r#"
[[task]]
name = "ping"
cpus = "0"
phase = [{ run_us = 10 }, { wake = "pong" }, { wait = "ping" }]

[[task]]
name = "pong"
cpus = "1"
phase = [{ wait = "pong" }, { run_us = 10 }, { wake = "ping" }]
"#;

#[test]
fn sleeping_cpu_needs_an_ipi_and_polling_none() {
    let extra = "ipi_delivery_us = 1\nipi_send_us = 2\nvirt_exit_us = 3\noverhead_source = \"x\"";
    let asleep = count(&request(machine(2, extra), load(PING_PONG), &["shallowest"], 100)).unwrap();
    // A round: 10 us of work, 2 + 3 us to send, and of the delivery's 1 us and C1's 2 us the part
    // beyond; twice. The sender's costs come while the other is on its way.
    let rounds = asleep.kinds[0].passes;
    let one_way = 10 + 1 + 2;
    near(rounds as f64, 100_000.0 / f64::from(2 * one_way), 0.01);
    assert!(asleep.ipis.abs_diff(2 * rounds) <= 10, "{} IPIs, {rounds} rounds", asleep.ipis);

    let polling = polling_machine(2, extra);
    let polling = count(&request(polling, load(PING_PONG), &["shallowest"], 100)).unwrap();
    let saved: u64 = polling.cpus.iter().map(|c| c.totals.ipis_saved).sum();
    let rounds = polling.kinds[0].passes;
    assert!(polling.ipis <= 2, "{} IPIs", polling.ipis);
    assert!(saved.abs_diff(2 * rounds) <= 10, "{saved} saved, {rounds} rounds");
}

#[test]
fn ipi_takes_time_unless_the_cpu_polls() {
    let extra = "ipi_handling_us = 4\noverhead_source = \"x\"";
    let asleep = count(&request(machine(2, extra), load(PING_PONG), &["shallowest"], 100)).unwrap();
    // 10 us of work, C1's 2 us, 4 us to handle the IPI; twice.
    let rounds = asleep.kinds[0].passes;
    near(rounds as f64, 100_000.0 / f64::from(2 * (10 + 2 + 4)), 0.01);
    let latency = asleep.kinds[1].latency.latencies();
    takes(latency.quantile(0.5).unwrap(), Duration::from_us(2 + 4), 1);

    let polling = count(&request(polling_machine(2, extra), load(PING_PONG), &["shallowest"], 100));
    let without = count(&request(polling_machine(2, ""), load(PING_PONG), &["shallowest"], 100));
    near(polling.unwrap().kinds[0].passes as f64, without.unwrap().kinds[0].passes as f64, 0.001);
}

/// Returns how often the poll loop of a CPU that idles for 100 ms gives up.
fn poll_timeouts(keys: &str) -> f64 {
    let state = format!(
        "{{ name = \"POLL\", exit_latency_us = 0, target_residency_us = 0, power_mw = 900, {keys} }},"
    );
    let text = machine_text(1, "").replace("idle_state = [", &format!("idle_state = [{state}"));
    let sleeper = "[[task]]\nname = \"sleeper\"\nphase = [{ sleep_us = 200_000 }]\n";
    let counted = count(&request(platform(&text), load(sleeper), &["shallowest"], 100)).unwrap();
    counted.cpus[0].totals.poll_timeouts as f64
}

#[test]
fn polling_gives_up_where_its_loop_looks() {
    let arm = "driver = \"arm_poll_idle\", poll_limit_us = 25";
    // At the stream's first event after 25 us, or at once. Each tick, 25 in all, ends one instead.
    near(poll_timeouts(arm), 100_000.0 / 100.0, 0.03);
    near(poll_timeouts(&format!("{arm}, event_stream_us = 10")), 100_000.0 / 30.0, 0.03);
    near(poll_timeouts(&format!("{arm}, wfet = true")), 100_000.0 / 25.0, 0.03);
    // After C6's 200 us, when 201 rounds are over once more.
    let poll_idle =
        |relax_ns: u32| poll_timeouts(&format!("polling = true, relax_ns = {relax_ns}"));
    near(poll_idle(50), 100_000.0 / (20.0 * 0.05 * 201.0), 0.03);
    near(poll_idle(2_000), 100_000.0 / (2.0 * 201.0), 0.03);
}

/// Two tasks sleep on one CPU, the second until 10010 us and with slack. Returns what is counted of
/// the second until then.
fn with_slack(first_us: u32, until_us: i64) -> TaskTotals {
    let workload = load(&format!(
        r#"
[[task]]
name = "exact"
timer_slack_us = 0
phase = [{{ run_us = 10 }}, {{ period_us = {first_us} }}]

[[task]]
name = "slack"
start_us = 1000
phase = [{{ run_us = 10 }}, {{ period_us = 9010 }}]
"#
    ));
    let mut request = request(machine(1, ""), workload, &["shallowest"], 1);
    request.options.duration = Duration::from_us(until_us);
    count(&request).unwrap().kinds.swap_remove(1)
}

#[test]
fn timer_is_late_by_its_whole_slack() {
    // The other timer comes 10 ms later: 50 us of slack, C1's 2 us, which alone are latency.
    assert_eq!(with_slack(20_000, 10_061).wakeups, 0);
    let late = with_slack(20_000, 10_064);
    assert_eq!(late.wakeups, 1);
    takes(late.latency.latencies().max().unwrap(), Duration::from_us(2), 1);
}

#[test]
fn timer_with_slack_expires_with_the_next_one() {
    // The other's timer comes at 10040 us and leaves C1 2 us later.
    assert_eq!(with_slack(10_040, 10_041).wakeups, 0);
    let early = with_slack(10_040, 10_053);
    assert_eq!(early.wakeups, 1);
    // It waits for the other task, too.
    takes(early.latency.latencies().max().unwrap(), Duration::from_us(2 + 10), 1);
}

#[test]
fn waking_cpu_gets_no_second_ipi() {
    // Three tasks of CPU 1 are woken one after the other, while it takes its time to come.
    let workload = load(
        r#"
[[task]]
name = "waker"
cpus = "0"
phase = [{ run_us = 10 }, { wake = "c", count = 3 }, { period_us = 10000 }]

[[task]]
name = "sleeper"
count = 3
cpus = "1"
phase = [{ wait = "c" }, { run_us = 10 }]
"#,
    );
    let counted = count(&request(machine(2, ""), workload, &["deepest"], 1_000)).unwrap();
    assert_eq!(counted.kinds[1].wakeups, 300);
    // One for each of 100 rounds, and a few of the kernel's own.
    assert!((100..110).contains(&counted.ipis), "{}", counted.ipis);
}

#[test]
fn cpu_time_follows_the_weights() {
    let workload = load(
        r#"
[[task]]
name = "light"
count = 3
phase = [{ run_us = 1000 }]

[[task]]
name = "heavy"
weight = 3072
phase = [{ run_us = 1000 }]
"#,
    );
    let counted = count(&request(machine(1, ""), workload, &["menu"], 10_000)).unwrap();
    // Weights 1, 1, 1 and 3 of 10 s.
    for (kind, _, time) in &counted.alive {
        let expected = if *kind == 1 { 5.0 } else { 10.0 / 6.0 };
        let got = time.0 as f64 / 1e9;
        assert!((got - expected).abs() < 0.02 * expected, "kind {kind}: {got} s");
    }
}

#[test]
fn waiting_tasks_find_idle_cpus() {
    // Four busy tasks, four CPUs: each has its own, whatever CPU they began on.
    let workload = load("[[task]]\nname = \"t\"\ncount = 4\nphase = [{ run_us = 1000 }]\n");
    let counted = count(&request(machine(4, ""), workload, &["menu"], 1_000)).unwrap();
    for (.., time) in &counted.alive {
        // The kernel's own work takes a little.
        near(time.0 as f64, 1e9, 0.001);
    }
}

#[test]
fn woken_task_finds_the_idle_cpu() {
    // The hog takes CPU 0 for good; the other task wakes on CPU 1 at once, not after it.
    let workload = load(
        r#"
[[task]]
name = "hog"
cpus = "0"
phase = [{ run_us = 1000 }]

[[task]]
name = "light"
phase = [{ run_us = 10 }, { sleep_us = 990 }]
"#,
    );
    let counted = count(&request(machine(2, ""), workload, &["shallowest"], 1_000)).unwrap();
    let latency = counted.kinds[1].latency.latencies();
    // C1's exit.
    takes(latency.quantile(0.99).unwrap(), Duration::from_us(2), 1);
}

#[test]
fn task_too_big_for_little_cpu_migrates_up() {
    let workload = load(
        r#"
[[task]]
name = "hog"
count = 2
phase = [{ run_us = 1000 }]
"#,
    );
    let counted = count(&request(big_little(), workload, &["menu"], 2_000)).unwrap();
    let big: i64 = [2, 3].iter().map(|c| counted.cpus[*c].task_time.0).sum();
    assert!(big > 2 * 1_900_000_000, "{big} ns of 4 s on big CPUs");
}

#[test]
fn shared_state_costs_shallow_power_while_alone() {
    // CPU 0 is always busy, so CPU 1 in the cluster's state saves nothing over WFI.
    let platform = platform(
        r#"
name = "m"
title = "m"
source = "made up"
hz = 250
[[cluster]]
name = "all"
cpus = "0-1"
capacity = 1024
idle_state_source = "made up"
opp_source = "made up"
power_source = "made up"
opp = [{ freq_khz = 2000000, active_power_mw = 1000, static_power_mw = 50 }]
idle_state = [
    { name = "WFI", exit_latency_us = 1, target_residency_us = 1, power_mw = 30 },
    { name = "off", exit_latency_us = 100, target_residency_us = 1000, power_mw = 10, scope = "cluster" },
]
"#,
    );
    let hog = "[[task]]\nname = \"hog\"\ncpus = \"0\"\nphase = [{ run_us = 1000 }]\n";
    let counted = count(&request(platform.clone(), load(hog), &["deepest"], 1_000)).unwrap();
    // Both are off until the hog comes at 0 and CPU 0 is out of it 100 us later.
    // 50 mW, and 30 - 10 mW.
    near(counted.static_energy[0].as_uj_f64(), 50.0 * 999.9, 1e-4);
    near(counted.shared_energy[0].as_uj_f64(), 20.0 * 999.9, 1e-4);
    // With nothing to do but one short run of 1 ms, both are nearly never due.
    let short = "[[task]]\nname = \"t\"\ncpus = \"0\"\nrepeat = 1\nphase = [{ run_us = 1000 }]\n";
    let counted = count(&request(platform, load(short), &["deepest"], 1_000)).unwrap();
    assert!(counted.static_energy[0].as_uj_f64() < 100.0);
    assert!(counted.shared_energy[0].as_uj_f64() < 40.0);
}

#[test]
fn overrun_period_is_missed_and_next_is_met() {
    // 15 ms of work every 10 ms: from 0 to 15, 15 to 30, ... each pass runs over one beginning.
    let workload =
        load("[[task]]\nname = \"t\"\nphase = [{ run_us = 15000 }, { period_us = 10000 }]\n");
    let counted = count(&request(machine(1, ""), workload, &["menu"], 300)).unwrap();
    assert_eq!(counted.kinds[0].wakeups, 0, "it never gets to sleep");
    assert!(counted.kinds[0].missed >= 19, "{}", counted.kinds[0].missed);
}

#[test]
fn requests_wait_for_a_device_that_is_busy() {
    // Two tasks, one server: each request of 100 us waits for the other's.
    let workload = load(
        r#"
[[device]]
name = "disk"
service_us = 100

[[task]]
name = "t"
count = 2
phase = [{ io = "disk" }]
"#,
    );
    let counted = count(&request(machine(2, ""), workload, &["shallowest"], 100)).unwrap();
    // 100 ms / 100 us, less what the first and last take.
    assert!((990..=1_000).contains(&counted.kinds[0].passes), "{}", counted.kinds[0].passes);
}

#[test]
fn groups_do_not_share_channels() {
    // The second ping starts after the end; the first wakes its own pong, or whichever waits.
    let ended = |group: &str| {
        let tables = format!(
            r#"
[[task]]
name = "ping"
count = 2
{group}
stagger_us = 500000
phase = [{{ run_us = 10 }}, {{ wake = "x" }}, {{ sleep_us = 1000 }}]

[[task]]
name = "pong"
count = 2
{group}
repeat = 1
phase = [{{ wait = "x" }}]
"#
        );
        count(&request(machine(2, ""), load(&tables), &["menu"], 100)).unwrap().kinds[1].ended
    };
    assert_eq!(ended("group = 1"), 1);
    assert_eq!(ended("group = 2"), 2);
    assert_eq!(ended(""), 2);
}

#[test]
fn package_is_awake_while_cpu_works_or_polls() {
    let extra = "package_awake_power_mw = 1000\npackage_awake_power_source = \"made up\"";
    let awake_us = |platform, governor| {
        let counted = count(&request(platform, load(PERIODIC), &[governor], 1_000)).unwrap();
        // At 1 W, a microjoule is a microsecond.
        counted.awake_energy.as_uj_f64()
    };
    // 100 us of work in each of 100 periods; the way out of C6 is part of the sleep.
    near(awake_us(machine(2, extra), "deepest"), 100.0 * 100.0, 0.01);
    // One of the two CPUs polls all the time.
    assert_eq!(awake_us(polling_machine(2, extra), "shallowest"), 1e6);
    assert_eq!(awake_us(machine(2, ""), "shallowest"), 0.0);
}
