// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Writes to the files of a hosted kernel, at the start and while the load runs.

use crate::support::{big_little, catalog, count, load, machine, request};
use torpor_machine::units::CpuId;
use torpor_sim::machine::Counted;
use torpor_sim::{Request, Session};

/// A task on each of two CPUs, with sleeps that are long enough for C6.
const SLEEPERS: &str = r#"
[[task]]
name = "zero"
cpus = "0"
phase = [{ run_us = 50 }, { sleep_us = 2000 }]

[[task]]
name = "one"
cpus = "1"
phase = [{ run_us = 50 }, { sleep_us = 2000 }]
"#;

fn with_change(change: &str) -> Request {
    request(machine(2, ""), load(&format!("{SLEEPERS}{change}")), &["menu"], 300)
}

/// Sleeps of each section in a CPU's state.
fn usage(counted: &Counted, cpu: usize, state: usize) -> Vec<u64> {
    counted.sections.iter().map(|section| section.cpus[cpu].totals.states[state].usage).collect()
}

#[test]
fn sections_sum_to_the_run() {
    let change = "[[change]]\nevery = \"70ms\"\ncpu_dma_latency_us = 1000\n";
    let counted = count(&with_change(change)).unwrap();
    assert_eq!(counted.sections.len(), 5);
    let spans: i64 = counted.sections.iter().map(|section| section.span.0).sum();
    assert_eq!((spans, counted.span.0), (300_000_000, 300_000_000));
    let of_sections: u64 = usage(&counted, 0, 1).iter().sum();
    assert_eq!(of_sections, counted.cpus[0].totals.states[1].usage);
    assert!(of_sections > 100);
}

#[test]
fn latency_limit_holds_from_its_write_on() {
    let change = "[[change]]\nat = \"100ms\"\ncpus = \"1\"\npm_qos_resume_latency_us = 10\n\
                  [[change]]\nat = \"200ms\"\ncpus = \"1\"\npm_qos_resume_latency_us = 0\n";
    let counted = count(&with_change(change)).unwrap();
    let [before, limited, after] = usage(&counted, 1, 1)[..] else { panic!("three sections") };
    assert!(before > 20 && limited <= 1 && after > 20, "{before} {limited} {after}");
    assert!(usage(&counted, 0, 1).iter().all(|sleeps| *sleeps > 20));
    // The sleep under way began before the write.
    assert_eq!(counted.sections[1].cpus[1].totals.forbidden, 0);
}

/// The simulator takes over the limits when the shell has set them, not at the change.
#[test]
fn a_change_after_writes_of_the_start_forbids_nothing() {
    let mut request =
        with_change("[[change]]\nat = \"100ms\"\nwrite = [\"kernel.timer_migration=0\"]\n");
    request.options.writes = vec!["kernel.timer_migration=1".parse().unwrap()];
    let counted = count(&request).unwrap();
    assert!(usage(&counted, 0, 1)[1] > 20);
    assert!(counted.sections[1].cpus.iter().all(|cpu| cpu.totals.forbidden == 0));
}

#[test]
fn limit_of_one_cpu_is_pm_qos() {
    let mut request = with_change("");
    request.options.latency_limit.of_cpus.insert(CpuId(1), torpor_machine::units::Duration(10_000));
    let counted = count(&request).unwrap();
    assert_eq!(counted.cpus[1].totals.states[1].usage, 0);
    assert!(counted.cpus[0].totals.states[1].usage > 100);
}

#[test]
fn disabled_state_is_not_too_shallow() {
    let change =
        "[[change]]\nat = \"100ms\"\ndisable = [1]\n[[change]]\nat = \"200ms\"\nenable = [1]\n";
    let counted = count(&with_change(change)).unwrap();
    let [before, disabled, after] = usage(&counted, 0, 1)[..] else { panic!("three sections") };
    assert!(before > 20 && disabled <= 1 && after > 20, "{before} {disabled} {after}");
    let below = counted.sections[1].cpus[0].totals.states[0].below;
    assert!(below <= 1, "{below} too shallow");
}

#[test]
fn offline_cpu_leaves_its_task_to_another() {
    let change = "[[change]]\nat = \"100ms\"\ncpus = \"1\"\nonline = false\n\
                  [[change]]\nat = \"200ms\"\ncpus = \"1\"\nonline = true\n";
    let tasks =
        "[[task]]\nname = \"four\"\ncount = 4\nphase = [{ run_us = 900 }, { sleep_us = 300 }]\n";
    let workload = load(&format!("{tasks}{change}"));
    let counted = count(&request(machine(4, ""), workload, &["menu"], 300)).unwrap();
    let busy = |cpu: usize| -> Vec<i64> {
        counted.sections.iter().map(|part| part.cpus[cpu].task_time.0 / 1_000_000).collect()
    };
    let (one, others) = (busy(1), [busy(0)[1], busy(2)[1], busy(3)[1]]);
    assert!(one[0] > 50 && one[1] < 5 && one[2] > 40, "{one:?}");
    assert!(others.iter().sum::<i64>() > 220, "{others:?}");
}

#[test]
fn frequency_limit_is_applied_at_once() {
    let change = "[[change]]\nat = \"100ms\"\nscaling_max_freq_khz = 1000000\n\
                  [[change]]\nat = \"200ms\"\nscaling_max_freq_khz = 2000000\n";
    let tasks =
        "[[task]]\nname = \"busy\"\ncpus = \"3\"\nphase = [{ run_us = 3000 }, { sleep_us = 10 }]\n";
    let workload = load(&format!("{tasks}{change}"));
    let mut request = request(big_little(), workload, &["menu"], 300);
    request.options.cpufreq = vec!["schedutil".parse().unwrap()];
    let counted = count(&request).unwrap();
    let high = |part: usize| counted.sections[part].domains[1].time_at[1].0 / 1_000_000;
    // Utilization rises for some 70 ms at first.
    assert!(high(0) > 20 && high(1) < 5 && high(2) > 80, "{} {} {}", high(0), high(1), high(2));
}

#[test]
fn task_gets_new_attributes() {
    let change = "[[change]]\nat = \"100ms\"\ntask = \"busy\"\naffinity = \"1\"\n";
    let tasks =
        "[[task]]\nname = \"busy\"\ncpus = \"0\"\nphase = [{ run_us = 500 }, { sleep_us = 100 }]\n";
    let workload = load(&format!("{tasks}{change}"));
    let counted = count(&request(machine(2, ""), workload, &["menu"], 200)).unwrap();
    assert!(counted.sections[0].cpus[0].task_time.0 > 70_000_000);
    assert!(counted.sections[1].cpus[1].task_time.0 > 70_000_000);
}

fn refusal(write: &str) -> String {
    let mut request = with_change("");
    request.options.writes = vec![write.parse().unwrap()];
    count(&request).unwrap_err()
}

#[test]
fn unknown_file_and_refused_value_are_errors() {
    let unknown = refusal("kernel.sched_utl_clamp_max=1");
    assert!(unknown.contains("/proc/sys/kernel/sched_util_clamp_max"), "{unknown}");
    let refused = refusal("kernel.sched_util_clamp_max=9999");
    assert!(refused.contains("sched_util_clamp_max") && refused.contains("-EINVAL"), "{refused}");
    let later = with_change("[[change]]\nat = \"10ms\"\nwrite = \"no_such_file=1\"\n");
    assert!(count(&later).unwrap_err().contains("no_such_file"));
}

#[test]
fn files_of_each_kind_take_a_write() {
    for write in [
        "kernel.sched_rt_runtime_us=900000",
        "kernel.timer_migration=0",
        "/sys/kernel/debug/sched/features=NO_NEXT_BUDDY",
        "/sys/kernel/debug/sched/base_slice_ns=2000000",
        "/sys/devices/system/cpu/cpuidle/current_governor=teo",
        "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor=powersave",
        "haltpoll.guest_halt_poll_ns=1000",
        "/dev/cpu_dma_latency=10",
        "/sys/devices/system/cpu/cpu1/online=0",
    ] {
        let mut request = with_change("");
        request.options.writes = vec![write.parse().unwrap()];
        count(&request).unwrap_or_else(|error| panic!("{write}: {error}"));
    }
}

/// On four CPUs with tasks everywhere, each goes off and on several times.
#[test]
fn cpus_go_off_and_on_again_and_again() {
    let mut text = String::from(
        "[[task]]\nname = \"worker\"\ncount = 16\nphase = [{ run_us = 300 }, { sleep_us = 700 }]\n",
    );
    for (round, at) in (0..12).map(|round| (round, 20 + 30 * round)) {
        let cpu = 1 + round % 3;
        text += &format!(
            "[[change]]\nat = \"{at}ms\"\nwrite = \"/sys/devices/system/cpu/cpu{cpu}/online=0\"\n\
             [[change]]\nat = \"{}ms\"\nwrite = \"/sys/devices/system/cpu/cpu{cpu}/online=1\"\n",
            at + 15
        );
    }
    let counted = count(&request(machine(4, ""), load(&text), &["menu"], 400)).unwrap();
    assert_eq!(counted.sections.len(), 25);
    let (mut while_off_ns, mut while_on_ns) = (0, 0);
    for (number, part) in counted.sections.iter().enumerate().skip(1) {
        let off = 1 + (number - 1) / 2 % 3;
        let busy = |cpu: usize| part.cpus[cpu].task_time.0 > 0;
        assert!((0..4).filter(|cpu| *cpu != off).all(busy), "section {number}");
        let sum = if number % 2 == 1 { &mut while_off_ns } else { &mut while_on_ns };
        *sum += part.cpus[off].task_time.0;
    }
    // It takes a while to leave a busy CPU; tasks return to it.
    assert!(while_off_ns < while_on_ns, "{while_off_ns} {while_on_ns}");
}

#[test]
fn a_limit_of_a_missing_cpu_is_an_error() {
    let mut request = with_change("");
    request.options.latency_limit.of_cpus.insert(CpuId(9), torpor_machine::units::Duration(10_000));
    let error = Session::new(&request, &catalog()).err().expect("cpu9 is not there").to_string();
    assert!(error.contains("CPU 9") && error.contains("CPUs 0 to"), "{error}");
}

/// As without a driver: the kernel halts its CPUs by the architecture's own idle function.
#[test]
fn cpuidle_can_be_off() {
    let mut request = with_change("");
    request.options.kernel_args = Some("cpuidle.off=1".to_owned());
    let counted = count(&request).unwrap_or_else(|error| panic!("{error}"));
    assert!(counted.cpus[0].task_time.0 > 0);
}
