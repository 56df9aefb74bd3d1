// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! IO: jobs and devices worked by hand, against queueing theory, and what the scheduler sees.

use crate::support::{
    big_little, catalog, count, count_seed, load, machine, near, request, run, takes,
};
use torpor_machine::platform::Platform;
use torpor_machine::units::Duration;
use torpor_sim::Session;
use torpor_sim::machine::Counted;
use torpor_sim::record::Recorder;
use torpor_trace::{EventKind, PrevState};

/// A machine with a device `d`: 100 us a read, 20 us and 5 us a KiB a write.
fn with_device(cpus: usize, keys: &str) -> Platform {
    machine(cpus, &device(keys))
}

fn device(keys: &str) -> String {
    format!(
        "overhead_source = \"made up\"\nio_device = [{{ name = \"d\", source = \"made up\", read_us = 100, \
         write_us = 20, write_per_kib_us = 5, {keys} }}]"
    )
}

/// A job without CPU time, on device `d`.
fn job(keys: &str) -> String {
    format!("[[fio]]\nname = \"job\"\ndevice = \"d\"\nsubmit_us = 0\ncomplete_us = 0\n{keys}\n")
}

fn ios(counted: &Counted) -> u64 {
    counted.kinds.iter().map(|k| k.ios).sum()
}

#[test]
fn single_request_adds_up_all_latencies() {
    let platform = with_device(1, "queue_depth = 8, irq_us = 4, softirq_us = 3");
    let job = job("submit_us = 6\ncomplete_us = 5").replace("submit_us = 0\ncomplete_us = 0\n", "");
    let counted = count(&request(platform, load(&job), &["shallowest"], 1_000)).unwrap();
    // C1 takes 2 us to leave; then 4 us of handler, 3 us of completion. The task takes the result
    // 109 us after it submitted, and works 5 + 6 us up to the next submission.
    let latency = counted.kinds[0].io_latency.latencies();
    takes(latency.max().unwrap(), Duration::from_us(109), 2);
    takes(latency.quantile(0.01).unwrap(), Duration::from_us(109), 2);
    near(ios(&counted) as f64, 1e6 / 120.0, 0.01);
    // The device has a request for 100 us and until it is handled, 2 us later.
    let totals = &counted.devices[0];
    assert_eq!(totals.service.0, 100_000 * totals.requests as i64);
    let busy = totals.busy.0 as f64 / 1e9;
    near(busy, 102.0 / 120.0, 0.005);
}

#[test]
fn a_request_takes_longer_by_direction_and_size() {
    for (keys, ns) in [
        ("rw = \"randread\"", 100_000),
        ("rw = \"read\"\nbs = \"1m\"", 100_000),
        ("rw = \"randwrite\"", 20_000 + 4 * 5_000),
        ("rw = \"write\"\nbs = \"64k\"", 20_000 + 64 * 5_000),
        ("rw = \"write\"\nbs = \"512\"", 20_000 + 5_000 / 2),
    ] {
        let platform = with_device(1, "queue_depth = 8");
        let counted = count(&request(platform, load(&job(keys)), &["shallowest"], 100)).unwrap();
        let latency = counted.kinds[0].io_latency.latencies();
        // And C1's 2 us.
        takes(latency.max().unwrap(), Duration(ns + 2_000), 2);
    }
}

#[test]
fn device_serves_no_more_than_its_parallelism() {
    for (iodepth, parallelism) in [(1, 4), (4, 4), (16, 4), (3, 8)] {
        let platform = with_device(1, &format!("queue_depth = 64, parallelism = {parallelism}"));
        let job = job(&format!("ioengine = \"io_uring\"\niodepth = {iodepth}"));
        let counted = count(&request(platform, load(&job), &["shallowest"], 1_000)).unwrap();
        let at_once = iodepth.min(parallelism);
        // With requests waiting the device never stops; otherwise each round has C1's 2 us.
        let round_us = if iodepth > parallelism { 100.0 } else { 102.0 };
        let expected = 1e6 / round_us * f64::from(at_once);
        let found = ios(&counted) as f64;
        assert!((found / expected - 1.0).abs() < 0.002, "{iodepth}, {parallelism}: {found}");
    }
}

#[test]
fn request_waits_for_a_tag() {
    // The device takes two of three jobs' requests, one after the other, 10 us each. With C1's 2
    // us, the first is completed from 12 us to 62; only then does the third get its tag, though the
    // device is done with the second at 20. That is completed next, and the third at 112.
    let keys = "queue_depth = 2, nr_hw_queues = 1, softirq_us = 50, irq_cpu = \"0\"";
    let mut platform = with_device(4, keys);
    platform.io_devices[0].read.fixed = torpor_machine::toml::Distribution::Constant(10.0);
    let job = job("numjobs = 3\nthinktime_us = 20000");
    let counted = count(&request(platform, load(&job), &["shallowest"], 10)).unwrap();
    let response = counted.devices[0].response.latencies();
    assert_eq!(response.count(), 3);
    near(response.max().unwrap().0 as f64, 112_000.0, 0.05);
}

/// Little: requests under way are their rate times their time; and a device is busy for as long
/// as it works on them (utilization law).
#[test]
fn queueing_identities_hold() {
    let device = "queue_depth = 4, nr_hw_queues = 1, parallelism = 1, irq_cpu = \"0\"";
    let text = device.to_owned() + ", softirq_us = 1, irq_us = 1";
    for engine in ["psync", "libaio", "io_uring"] {
        let iodepth = if engine == "psync" { 1 } else { 5 };
        let job = job(&format!(
            "ioengine = \"{engine}\"\niodepth = {iodepth}\nnumjobs = 3\nthinktime_us = 30"
        ));
        let mut platform = with_device(4, &text);
        platform.io_devices[0].read.fixed =
            torpor_machine::toml::Distribution::Exponential { mean: 100.0 };
        let counted = count(&request(platform, load(&job), &["menu"], 2_000)).unwrap();
        let totals = &counted.devices[0];
        let response = totals.response.latencies().mean().unwrap().0 as f64;
        let little = totals.requests as f64 * response / totals.queue_time as f64;
        assert!((little - 1.0).abs() < 1e-3, "{engine}: {little}");
        // One at a time: it is idle only when no request is there, but for the time of handling.
        let service = totals.service.0 as f64 / totals.busy.0 as f64;
        assert!((0.9..=1.0).contains(&service), "{engine}: {service}");
    }
}

#[test]
fn mm1_device_response_matches_theory() {
    // Requests come as tasks do, Poisson; one server, rho 0.7: 1 / (mu - lambda) of 333 us.
    let tables = r#"
[[task]]
name = "request"
count = 0
repeat = 1
phase = [{ io = "disk" }]

[[interrupt]]
name = "client"
interval_us = { dist = "exponential", mean = 142.857 }
spawn = "request"

[[device]]
name = "disk"
service_us = { dist = "exponential", mean = 100 }
"#;
    let mut platform = machine(2, "");
    for state in &mut platform.clusters[0].idle_states {
        state.exit_latency = Duration::ZERO;
    }
    let request = request(platform, load(tables), &["shallowest"], 4_000);
    let means: Vec<f64> = (1..=12)
        .map(|seed| {
            let counted = count_seed(&request, seed).unwrap();
            counted.devices[0].response.latencies().mean().unwrap().as_us_f64()
        })
        .collect();
    let interval = torpor_result::interval::paired(&means).unwrap();
    assert!(interval.low <= 333.3 && 333.3 <= interval.high, "{interval:?}");
    assert!(interval.high - interval.low < 20.0, "{interval:?}");
}

#[test]
fn device_without_a_queue_waits_for_the_cpu() {
    let jobs = job("numjobs = 4\ncpus_allowed = \"1\"");
    let rate = |queue: &str| {
        let keys = format!("irq_cpu = \"0\", irq_us = 10, softirq_us = 7, {queue}");
        let counted = count(&request(with_device(2, &keys), load(&jobs), &["shallowest"], 1_000));
        ios(&counted.unwrap()) as f64
    };
    // With one, the next request begins as the last ends; without, C1's 2 us, 10 us of handler
    // and 7 us of completion later.
    let (with, without) =
        (rate("nr_hw_queues = 1, queue_depth = 32"), rate("command_queue = false"));
    assert!((with / 10_000.0 - 1.0).abs() < 0.002, "{with}");
    assert!((without / (1e6 / 119.0) - 1.0).abs() < 0.002, "{without}");
    // A queue of one request is the same thing.
    assert_eq!(without, rate("nr_hw_queues = 1, queue_depth = 1"));
}

/// Interrupts and completions that a CPU handled, in us.
fn overhead_us(counted: &Counted) -> Vec<f64> {
    counted.cpus.iter().map(|cpu| cpu.overhead.as_us_f64()).collect()
}

#[test]
fn interrupts_go_to_the_queues_cpu() {
    let jobs = job("cpus_allowed = \"3\"");
    let overheads = |queues: &str| {
        let platform = with_device(4, &format!("queue_depth = 8, irq_us = 1, {queues}"));
        overhead_us(&count(&request(platform, load(&jobs), &["shallowest"], 100)).unwrap())
    };
    for (queues, cpu) in [
        ("softirq_us = 0", 3),
        ("nr_hw_queues = 1", 0),
        ("nr_hw_queues = 2", 2),
        ("nr_hw_queues = 64", 3),
        ("nr_hw_queues = 1, irq_cpu = \"1\"", 1),
    ] {
        let found = overheads(queues);
        for (number, us) in found.iter().enumerate() {
            // The kernel's own work takes a tenth of that.
            assert_eq!(*us > 500.0, number == cpu, "{queues}: {found:?}");
        }
    }
}

#[test]
fn completion_goes_to_the_submitter() {
    // CPUs 0 and 1 have a quarter of the capacity of 2 and 3; the interrupt goes to CPU 0.
    let keys = "queue_depth = 8, nr_hw_queues = 1, irq_cpu = \"0\", irq_us = 1, softirq_us = 2";
    let mut platform = big_little();
    platform.io_devices = with_device(1, keys).io_devices;
    platform.tick_handling = Duration::ZERO;
    for (cpu, expected) in [(1, [1 + 2, 0, 0]), (2, [1, 0, 2]), (0, [1 + 2, 0, 0])] {
        let jobs = job(&format!("cpus_allowed = \"{cpu}\""));
        let counted = count(&request(platform.clone(), load(&jobs), &["shallowest"], 100)).unwrap();
        let found = overhead_us(&counted);
        for (number, us) in expected.into_iter().enumerate() {
            // A little CPU takes four times as long.
            let each = f64::from(us) * if number < 2 { 4.0 } else { 1.0 };
            let requests = counted.devices[0].requests as f64;
            // The kernel's own work is less than a microsecond.
            assert!((found[number] / requests - each).abs() < 0.7, "{cpu}: {found:?}");
        }
    }
}

#[test]
fn each_engine_waits_as_the_kernel_does() {
    for (keys, state) in [
        ("ioengine = \"psync\"", PrevState::DiskSleep),
        ("ioengine = \"libaio\"", PrevState::Sleeping),
        ("ioengine = \"io_uring\"", PrevState::Sleeping),
        ("ioengine = \"io_uring\"\niowait = false", PrevState::Sleeping),
    ] {
        let platform = with_device(1, "queue_depth = 8");
        let request = request(platform, load(&job(keys)), &["shallowest"], 50);
        let session = Session::new(&request, &catalog()).unwrap();
        let run = session.simulate(0, 1, Recorder::default(), &mut |_| true).unwrap();
        let (counted, recorder) = run.unwrap();
        assert!(ios(&counted) > 400, "{keys}: {}", ios(&counted));
        let trace = recorder.into_trace(&session.plan(1));
        let left = trace.events.iter().filter_map(|event| match event.kind {
            EventKind::SchedSwitch { prev_pid: 1.., prev_state, .. } => Some(prev_state),
            _ => None,
        });
        assert!(left.into_iter().all(|found| found == state), "{keys}");
    }
}

#[test]
fn job_ends_with_its_last_result_after_runtime() {
    let jobs = job("ioengine = \"libaio\"\niodepth = 7\nruntime = 0.01");
    let platform = with_device(1, "queue_depth = 8");
    let counted = count(&request(platform, load(&jobs), &["menu"], 100)).unwrap();
    assert_eq!(counted.kinds[0].ended, 1);
    // 10 ms of one request after another, and the seven that were under way then.
    assert_eq!(ios(&counted), counted.devices[0].requests);
    assert!((100..=107).contains(&ios(&counted)), "{}", ios(&counted));
}

#[test]
fn shipped_devices_fit_any_machine() {
    for name in ["nvme", "emmc", "sd", "ufs"] {
        let tables = format!("[[fio]]\nname = \"j\"\ndevice = \"{name}\"\nnumjobs = 2\n");
        let mut request = request(big_little(), load(&tables), &["menu", "teo"], 200);
        request.options.seeds = 2;
        let one = run(&request);
        let metrics = &one.runs[0].run.metrics;
        assert!(
            one.notes
                .iter()
                .any(|n| n.contains(&format!("no measured IO device of `b`: `{name}`")))
        );
        assert!(metrics["iops"].unwrap() > 900.0, "{name}: {metrics:?}");
        assert!(metrics["device_util_pct"].unwrap() > 50.0, "{name}: {metrics:?}");
        assert!(metrics["io_latency_p50_us"] <= metrics["io_latency_p99_us"]);
        request.options.threads = Some(2);
        let two = run(&request);
        assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&two).unwrap());
    }
    let quiet = load("[[task]]\nname = \"t\"\nphase = [{ run_us = 5 }, { sleep_us = 50 }]\n");
    let outcome = run(&request(machine(1, ""), quiet, &["menu"], 20));
    assert_eq!(outcome.runs[0].run.metrics["iops"], None);
}

#[test]
fn job_error_names_key_value_and_allowed() {
    let refused = |tables: &str| {
        let text = format!("name = \"w\"\ntitle = \"w\"\nsource = \"made up\"\n{tables}");
        torpor_sim::workload::from_toml("test.toml", &text).unwrap_err().to_string()
    };
    for (keys, parts) in [
        ("iodepth = 0", ["fio[0].iodepth = 0", "1 to 32768"]),
        ("iodepth = 8", ["fio[0].iodepth = 8", "1 with psync"]),
        (
            "ioengine = \"sync\"",
            ["fio[0].ioengine = \"sync\"", "\"psync\" or \"libaio\" or \"io_uring\""],
        ),
        ("rw = \"trim\"", ["fio[0].rw = \"trim\"", "\"randread\" or"]),
        ("bs = \"4q\"", ["fio[0].bs = \"4q\"", "a multiple of 512 bytes"]),
        ("bs = \"100\"", ["fio[0].bs = \"100\"", "a multiple of 512 bytes"]),
        ("numjobs = 0", ["fio[0].numjobs = 0", "1 or more"]),
        ("iowait = false", ["fio[0].iowait = false", "io_uring"]),
    ] {
        let error = refused(&job(keys));
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    assert!(refused("").contains("a workload has at least one task"));

    // Which devices there are shows with the machine.
    let workload = load("[[fio]]\nname = \"j\"\ndevice = \"nmve\"\n");
    let request = request(machine(1, ""), workload, &["menu"], 20);
    let catalog = catalog();
    let Err(error) = Session::new(&request, &catalog) else { panic!("it is unknown") };
    let error = error.to_string();
    for part in [
        "fio[0].device = \"nmve\": there is no device of this name",
        "test.toml:6:10",
        "allowed: emmc, nvme, sd, ufs",
        "did you mean `nvme`?",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}
