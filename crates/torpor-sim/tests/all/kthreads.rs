// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Threads in which drivers complete requests: sleeps and wake-ups of one IO, worked by hand.

use crate::support::{big_little, count, load, machine, request, takes};
use torpor_machine::platform::Platform;
use torpor_machine::units::Duration;
use torpor_sim::machine::Counted;

/// A device that interrupts CPU 0, and takes 100 us for a read.
fn device(keys: &str) -> String {
    format!(
        "overhead_source = \"made up\"\nio_device = [{{ name = \"d\", source = \"made up\", read_us = 100, \
         write_us = 20, queue_depth = 8, nr_hw_queues = 1, irq_cpu = \"0\", irq_us = 4, \
         softirq_us = 3, {keys} }}]"
    )
}

/// A job without CPU time, on CPU `cpu`.
fn job(cpu: usize) -> String {
    format!(
        "[[fio]]\nname = \"job\"\ndevice = \"d\"\nsubmit_us = 0\ncomplete_us = 0\n\
         cpus_allowed = \"{cpu}\"\n"
    )
}

fn counted(platform: Platform, tables: &str) -> Counted {
    count(&request(platform, load(tables), &["shallowest"], 200)).unwrap()
}

/// Sleeps of each CPU for each IO of the job, without the few of the start.
fn sleeps(counted: &Counted) -> Vec<f64> {
    let ios = counted.kinds[0].ios as f64;
    let of = |cpu: &torpor_sim::machine::CpuCounted| {
        let usage: u64 = cpu.totals.states.iter().map(|state| state.usage).sum();
        (usage as f64 / ios * 10.0).round() / 10.0
    };
    counted.cpus.iter().map(of).collect()
}

/// Wake-ups of the job's and the driver's task for each IO.
fn wakeups(counted: &Counted) -> Vec<f64> {
    let ios = counted.kinds[0].ios as f64;
    let of = |kind: &torpor_result::TaskTotals| (kind.wakeups as f64 / ios * 10.0).round() / 10.0;
    counted.kinds.iter().map(of).collect()
}

#[test]
fn each_completion_wakes_its_tasks_and_cpus() {
    for (keys, cpu, slept, woken) in [
        ("completion = \"irq\"", 0, [1.0, 0.0], vec![1.0]),
        ("completion = \"irq\"", 1, [1.0, 1.0], vec![1.0]),
        ("completion = \"threaded\"", 0, [1.0, 0.0], vec![1.0, 1.0]),
        ("completion = \"threaded\"", 1, [1.0, 1.0], vec![1.0, 1.0]),
        ("completion = \"worker\"", 0, [1.0, 0.0], vec![1.0, 1.0]),
        ("completion = \"worker\"", 1, [1.0, 1.0], vec![1.0, 1.0]),
        // Each command's answer wakes CPU 0 again; the job sleeps through them.
        ("interrupts_per_io = 2", 1, [2.0, 1.0], vec![1.0]),
        ("interrupts_per_io = 3, completion = \"worker\"", 1, [3.0, 1.0], vec![1.0, 1.0]),
    ] {
        let counted = counted(machine(2, &device(keys)), &job(cpu));
        assert_eq!(sleeps(&counted), slept, "{keys}, job on CPU {cpu}");
        assert_eq!(wakeups(&counted), woken, "{keys}, job on CPU {cpu}");
    }
}

#[test]
fn latency_adds_up_in_each_context() {
    // The device's 100 us and C1's 2 us on both CPUs. A handler wakes the job when it begins, a thread
    // after 4 us of handler and 3 us of completion, as a worker, before which the handler has had 4 us.
    for (keys, ns) in [
        ("completion = \"irq\"", 104_000),
        ("completion = \"threaded\"", 111_000),
        ("completion = \"worker\"", 111_000),
        // Nobody waits for the answer to the last command.
        ("interrupts_per_io = 2", 104_000),
        // The device has that when the first one's answer, 3.2 us later, has been handled: 2 + 4 us.
        ("interrupts_per_io = 3", 104_000 + 9_200),
    ] {
        let counted = counted(machine(2, &device(keys)), &job(1));
        let latency = counted.kinds[0].io_latency.latencies();
        takes(latency.quantile(0.5).unwrap(), Duration(ns), 6);
    }
}

#[test]
fn worker_completes_for_any_cpu() {
    // CPU 0 has a quarter of the capacity of CPU 2, which submits. An interrupt and a thread send an
    // IPI there, and the 3 us of completion are its; a worker does them itself, in 12 us.
    for (completion, on_2_us) in [("irq", 3.0), ("threaded", 3.0), ("worker", 0.0)] {
        let keys = format!("completion = \"{completion}\"");
        let mut platform = big_little();
        platform.io_devices = machine(1, &device(&keys)).io_devices;
        platform.tick_handling = Duration::ZERO;
        let counted = counted(platform, &job(2));
        let found = counted.cpus[2].overhead.as_us_f64() / counted.kinds[0].ios as f64;
        // The kernel's own work is less than a microsecond.
        assert!((on_2_us..on_2_us + 1.0).contains(&found), "{completion}: {found}");
    }
}

#[test]
fn thread_does_not_wait_for_a_busy_task() {
    let busy = "[[task]]\nname = \"busy\"\ncpus = \"0\"\nphase = [{ run_us = 1000000 }]\n";
    let tables = job(1) + busy;
    let keys = "completion = \"threaded\"";
    let counted = counted(machine(2, &device(keys)), &tables);
    // 100 us, 7 us of the thread, and C1's 2 us of the job's CPU: CPU 0 is awake.
    let latency = counted.kinds[1].io_latency.latencies();
    takes(latency.quantile(0.99).unwrap(), Duration::from_us(109), 8);
}

#[test]
fn each_queues_cpu_has_a_thread() {
    let keys =
        device("completion = \"threaded\"").replace("nr_hw_queues = 1, irq_cpu = \"0\", ", "");
    let counted = counted(machine(4, &keys), &job(3));
    assert_eq!(wakeups(&counted), [1.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(sleeps(&counted), [0.0, 0.0, 0.0, 1.0]);
}

#[test]
fn waiting_threads_hide_no_deadlock() {
    let waits = "number_ios = 5\n[[task]]\nname = \"a\"\nphase = [{ wait = \"x\" }]\n\
                 [[task]]\nname = \"b\"\nphase = [{ wait = \"y\" }, { wake = \"x\" }, { wake = \"y\" }]\n";
    let platform = machine(2, &device("completion = \"worker\""));
    let error = match count(&request(platform, load(&(job(0) + waits)), &["menu"], 100)) {
        Ok(_) => panic!("it went on"),
        Err(error) => error,
    };
    let all = "deadlock: nothing can wake `a` (0) on channel `x`, `b` (0) on channel `y`";
    assert!(error.ends_with(all), "{error}");
}
