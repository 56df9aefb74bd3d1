// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Flows through several tasks, from begin to end; and devices that write and flush.

use crate::support::{count, load, machine, near, one_cluster, platform, request, run, takes};
use torpor_machine::units::Duration;
use torpor_sim::workload;

/// Two tasks on a CPU each. A frame begins when the first one's timer is due: 0, 10, 20 ms …
const CHAIN: &str = r#"
[[flow]]
name = "frame"
deadline_us = 3000

[[task]]
name = "ui"
cpus = "0"
phase = [{ begin = "frame" }, { run_us = 1000 }, { wake = "draw" }, { period_us = 10000 }]

[[task]]
name = "render"
cpus = "1"
phase = [{ wait = "draw" }, { run_us = 1500 }, { end = "frame" }]
"#;

#[test]
fn frame_lasts_from_timer_to_last_task() {
    let counted = count(&request(machine(2, ""), load(CHAIN), &["shallowest"], 100)).unwrap();
    let flow = counted.flows[0].clone();
    assert_eq!((flow.begun, flow.ended, flow.late), (10, 10, 0));
    // C1 takes 2 us to leave on either CPU: 2 + 1000 + 2 + 1500. The first task is there at once.
    let latencies = flow.time.latencies();
    takes(latencies.max().unwrap(), Duration(2_504_000), 2);
    // C6 takes 85, and the deadline is after that, too.
    let counted = count(&request(machine(2, ""), load(CHAIN), &["deepest"], 100)).unwrap();
    takes(counted.flows[0].time.latencies().max().unwrap(), Duration(2_670_000), 4);
    let tight = CHAIN.replace("3000", "2600");
    let counted = count(&request(machine(2, ""), load(&tight), &["deepest"], 100)).unwrap();
    assert_eq!((counted.flows[0].late, counted.flows[0].ended), (10, 10));
}

/// Requests come every 100 us, four at a time, and one worker takes 20 us for each: they take 20,
/// 40, 60 and 80 us from their interrupt, and the first the way out of C1 more, as all do.
#[test]
fn waiting_request_counts_from_its_arrival() {
    let text = r#"
[[interrupt]]
name = "net"
interval_us = 100
wake = "request"
count = 4

[[task]]
name = "worker"
phase = [{ wait = "request" }, { begin = "r" }, { run_us = 20 }, { end = "r" }]
"#;
    let counted = count(&request(machine(1, ""), load(text), &["shallowest"], 100)).unwrap();
    let times = counted.flows[0].time.latencies();
    assert!(times.count() >= 4 * 998, "{}", times.count());
    takes(times.max().unwrap(), Duration::from_us(82), 4);
    takes(times.mean().unwrap(), Duration::from_us(2 + 50), 4);
}

/// One client and one worker, each on its CPU, 1 ms of thought and 65 us of work a round; the
/// client's CPU is left twice, by its timer and by the answer, and the worker's once.
#[test]
fn fast_answers_raise_the_request_rate() {
    let text = r#"
[[task]]
name = "client"
cpus = "0"
timer_slack_us = 0
phase = [{ sleep_us = 1000 }, { begin = "r" }, { run_us = 5 }, { wake = "ask" }, { wait = "answer" }, { end = "r" }]

[[task]]
name = "worker"
cpus = "1"
phase = [{ wait = "ask" }, { run_us = 60 }, { wake = "answer" }]
"#;
    for (governor, exit_us) in [("shallowest", 2), ("deepest", 85)] {
        let counted = count(&request(machine(2, ""), load(text), &[governor], 1_000)).unwrap();
        let asked = 1_000_000 / (1000 + 65 + 3 * exit_us);
        let flow = &counted.flows[0];
        near(flow.ended as f64, asked as f64, 0.005);
        let took = Duration::from_us(65 + 3 * exit_us as i64);
        takes(flow.time.latencies().quantile(0.5).unwrap(), took, 3);
    }
}

/// Two workers: the second begins later and is done sooner. Each ends its own.
#[test]
fn a_task_ends_the_flow_that_it_began() {
    let text = r#"
[[task]]
name = "slow"
repeat = 1
cpus = "0"
phase = [{ begin = "r" }, { run_us = 1000 }, { end = "r" }]

[[task]]
name = "quick"
repeat = 1
cpus = "1"
start_us = 100
phase = [{ begin = "r" }, { run_us = 10 }, { end = "r" }]
"#;
    let counted = count(&request(machine(2, ""), load(text), &["shallowest"], 100)).unwrap();
    let times = counted.flows[0].time.latencies();
    assert!(times.max().unwrap() >= Duration::from_us(1000));
    assert!(times.quantile(0.5).unwrap() < Duration::from_us(20), "{times:?}");
}

#[test]
fn late_frame_counts_from_its_due_time() {
    // 14 ms of work every 10: the second begins 4 ms late, the third 8, the fourth, due at 30 and
    // begun at 42, 12; that skips a period, as the next is due at 50 and begins at 56.
    let text = "[[flow]]\nname = \"f\"\ndeadline_us = 15000\n[[task]]\nname = \"a\"\nphase = [\
                { begin = \"f\" }, { run_us = 14000 }, { end = \"f\" }, { period_us = 10000 }]\n";
    let counted = count(&request(machine(1, ""), load(text), &["shallowest"], 45)).unwrap();
    let flow = counted.flows[0].clone();
    assert_eq!((flow.ended, flow.late), (3, 2));
    let longest = flow.time.latencies().max().unwrap();
    assert!((Duration(22_000_000)..Duration(22_100_000)).contains(&longest), "{longest}");
}

#[test]
fn late_flow_switches_to_the_other_deadline() {
    // 1, 3, 1, 3, 5, 1 ms and so on, of 10: with 2 ms the second, fourth and fifth of six are late.
    // With 4 ms after a late one the second is, the fourth not, the fifth again.
    let phases = [1, 3, 1, 3, 5, 1].map(|ms| {
        format!(
            "{{ begin = \"f\" }}, {{ run_us = {ms}000 }}, {{ end = \"f\" }}, {{ period_us = 10000 }}"
        )
    });
    let task = format!("[[task]]\nname = \"a\"\nphase = [{}]\n", phases.join(", "));
    let late = |deadlines: &str| {
        let text = format!("[[flow]]\nname = \"f\"\n{deadlines}\n{task}");
        let counted = count(&request(machine(1, ""), load(&text), &["shallowest"], 60)).unwrap();
        (counted.flows[0].late, counted.flows[0].ended)
    };
    assert_eq!(late("deadline_us = 2000"), (3, 6));
    assert_eq!(late("deadline_us = 2000\ndeadline_after_late_us = 4000"), (2, 6));
}

/// A flow of 8 ms at full speed every 80.
const HINTED: &str = r#"
[[flow]]
name = "frame"
target_us = TARGET
boosts = ["ui"]

[[task]]
name = "ui"
cpus = "0"
phase = [{ begin = "frame" }, { run_us = 8000 }, { end = "frame" }, { period_us = 80000 }]
"#;

/// Two CPUs with four OPPs: a clock of one CPU alone is held while its tick goes on.
const OPPS: &str = r#"
opp = [
    { freq_khz = 500000, active_power_mw = 100 },
    { freq_khz = 1000000, active_power_mw = 300 },
    { freq_khz = 1500000, active_power_mw = 600 },
    { freq_khz = 2000000, active_power_mw = 1000 },
]
idle_state = [{ name = "C1", exit_latency_us = 0, target_residency_us = 0, power_mw = 100 }]
"#;

#[test]
fn hint_session_raises_frequency_until_flows_fit() {
    let median = |target: u32| {
        let text = HINTED.replace("TARGET", &target.to_string());
        let mut request =
            request(platform(&one_cluster(2, "", OPPS)), load(&text), &["shallowest"], 4_000);
        request.options.cpufreq = vec!["schedutil".parse().unwrap()];
        let counted = count(&request).unwrap();
        counted.flows[0].time.latencies().quantile(0.5).unwrap().0
    };
    let (slow, fast) = (median(200_000), median(12_000));
    // 512 is the greatest clamp, and asks for half of the frequency: 8 ms take 16. Linux 6.12 counts
    // a woken task's clamp after it has looked at the frequency, so a tick brings it.
    assert!((16_000_000..20_000_000).contains(&fast), "{fast}");
    assert!(slow > fast + 5_000_000, "{slow} {fast}");
}

#[test]
fn hint_session_needs_tasks_and_a_target() {
    let task =
        "[[task]]\nname = \"a\"\nphase = [{ begin = \"f\" }, { run_us = 5 }, { end = \"f\" }]\n";
    for (flow, words) in [
        ("target_us = 5", "it requires `boosts`"),
        ("boosts = \"a\"", "it requires `target_us`"),
        ("target_us = 5\nboosts = \"b\"", "there is no task of this name"),
        ("deadline_after_late_us = 5", "it requires `deadline_us`"),
    ] {
        let text = format!(
            "name = \"x\"\ntitle = \"x\"\nsource = \"x\"\n[[flow]]\nname = \"f\"\n{flow}\n{task}"
        );
        let error = workload::from_toml("x.toml", &text).unwrap_err().to_string();
        assert!(error.contains(words), "{flow}: {error}");
    }
}

#[test]
fn a_result_has_the_flows_and_their_metrics() {
    let outcome = run(&request(machine(2, ""), load(CHAIN), &["shallowest"], 100));
    let governor = &outcome.runs[0];
    assert_eq!(governor.flows[0].name, "frame");
    assert_eq!(governor.run.metrics["flow_late_pct"], Some(0.0));
    let mean_us = governor.run.metrics["flow_mean_us"].unwrap();
    assert!(governor.run.metrics["flow_p999_us"].unwrap() >= mean_us);
    assert!((2500.0..2510.0).contains(&mean_us), "{mean_us}");
    // Rows without any value are left out; here all flows are late.
    let tight = load(&CHAIN.replace("3000", "2600"));
    let outcome = run(&request(machine(2, ""), tight, &["deepest"], 100));
    let named = &outcome.flow_comparisons[0];
    assert_eq!(named.name, "frame");
    let rows = &named.comparison.rows;
    let keys: Vec<&str> = rows.iter().map(|row| row.key.as_str()).collect();
    assert!(keys.contains(&"flow_p999_us") && keys.contains(&"flow_late_pct"), "{keys:?}");
    // Without a deadline nothing is late, and nothing is on time.
    let without = load(&CHAIN.replace("deadline_us = 3000", ""));
    let outcome = run(&request(machine(2, ""), without, &["shallowest"], 100));
    assert_eq!(outcome.runs[0].run.metrics["flow_late_pct"], None);
}

#[test]
fn a_flow_has_both_ends() {
    for (tables, words) in [
        (
            "[[task]]\nname = \"a\"\nphase = [{ begin = \"f\" }, { run_us = 5 }]\n",
            "no task ends this flow",
        ),
        (
            "[[task]]\nname = \"a\"\nphase = [{ end = \"f\" }, { run_us = 5 }]\n",
            "no task begins this flow",
        ),
        (
            "[[flow]]\nname = \"f\"\ndeadline_us = 5\n[[task]]\nname = \"a\"\nphase = [{ run_us = 5 }]\n",
            "no task begins or ends this flow",
        ),
    ] {
        let text = format!("name = \"w\"\ntitle = \"w\"\nsource = \"made up\"\n{tables}");
        let error = workload::from_toml("w.toml", &text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let tables =
        "[[task]]\nname = \"a\"\nphase = [{ end = \"f\" }, { run_us = 5 }, { begin = \"f\" }]\n";
    let error = count(&request(machine(1, ""), load(tables), &["menu"], 100)).unwrap_err();
    assert!(error.contains("a flow that has not begun"), "{error}");
}

/// A drive that reads in 50 us, writes in 20, flushes in 300, and after 1 ms without a request, if
/// it was written to, is busy with itself for 2 ms.
const DRIVE: &str = r#"
[[io_device]]
name = "drive"
source = "made up"
queue_depth = 8
read_us = 50
write_us = 20
flush_us = 300
idle_after_us = 1000
idle_work_us = 2000
"#;

fn job(more: &str) -> torpor_sim::Workload {
    let costs = "submit_us = 0\ncomplete_us = 0\n";
    load(&format!("[[fio]]\nname = \"j\"\ndevice = \"drive\"\n{costs}{more}"))
}

#[test]
fn flush_takes_time_and_is_no_request() {
    let plain = count(&request(
        machine(1, DRIVE),
        job("rw = \"write\"\nnumber_ios = 40\n"),
        &["shallowest"],
        50,
    ));
    let synced = count(&request(
        machine(1, DRIVE),
        job("rw = \"write\"\nnumber_ios = 40\nfsync = 4\n"),
        &["shallowest"],
        50,
    ));
    let (plain, synced) = (plain.unwrap(), synced.unwrap());
    assert_eq!((plain.kinds[0].ios, synced.kinds[0].ios), (40, 40));
    assert_eq!(plain.devices[0].requests, 40);
    assert_eq!(synced.devices[0].requests, 50, "one in four");
    let more = synced.devices[0].service - plain.devices[0].service;
    assert_eq!(more, Duration(3_000_000));
}

#[test]
fn idle_work_of_a_device_delays_requests() {
    // A write, then 2 ms of thinking with the timer's slack. After 1 ms without a request the device does 2 ms of
    // background work, and the next request waits for its second half.
    let latency = |rw: &str| {
        let job = job(&format!("rw = \"{rw}\"\nthinktime_us = 1950\n"));
        let counted = count(&request(machine(1, DRIVE), job, &["shallowest"], 100)).unwrap();
        counted.kinds[0].io_latency.latencies()
    };
    let (reads, writes) = (latency("read"), latency("write"));
    assert!(reads.max().unwrap() < Duration(60_000), "nothing to write back: {:?}", reads.max());
    let waited = writes.quantile(0.5).unwrap();
    assert!((Duration(1_000_000)..Duration(1_050_000)).contains(&waited), "{waited}");
}

#[test]
fn mixed_jobs_keep_the_share_of_reads() {
    let job = job("rw = \"randrw\"\nrwmixread = 80\nnumber_ios = 2000\n");
    let counted = count(&request(machine(1, DRIVE), job, &["shallowest"], 1_000)).unwrap();
    // 0.8 of 50 us and 0.2 of 20, each a standard error of 0.27 us.
    let mean_us = counted.devices[0].service.as_us_f64() / 2000.0;
    assert!((mean_us - 44.0).abs() < 1.4, "{mean_us}");
}
