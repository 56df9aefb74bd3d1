// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Linux 6.12, as Debian ships its source, on simulated machines.

mod support;

use support::{MS, US, linux_6_12, machine, start, task};
use torpor_kernel::{Sim, Step, TaskId, TaskSetup, Work};
use torpor_units::{CpuId, Duration, Instant};

const SECOND: Instant = Instant(1_000 * MS);

fn run<W: Work>(sim: &mut Sim<W>, until: Instant) {
    sim.run(until, &mut |_| true).unwrap_or_else(|e| panic!("{e}"));
}

/// Computes, then sleeps until its next period.
struct Periodic {
    period: i64,
    work: Duration,
    next: i64,
    computes: bool,
}

impl Periodic {
    fn new(period: i64, work: i64) -> Periodic {
        Periodic { period, work: Duration(work), next: 0, computes: false }
    }
}

impl Work for Periodic {
    fn next(&mut self, _: TaskId, now: Instant) -> Step {
        self.computes = !self.computes;
        if self.computes {
            return Step::Run(self.work);
        }
        self.next = (self.next + self.period).max(now.0 + 1);
        Step::Sleep(Instant(self.next))
    }
}

fn busy(_: TaskId, _: Instant) -> Step {
    Step::Run(Duration(10 * MS))
}

#[test]
fn an_idle_machine_sleeps_with_its_ticks_stopped() {
    let Some(kernel) = linux_6_12("an idle machine") else { return };
    let mut sim = start(&kernel, &machine("pixel6"), busy);
    run(&mut sim, SECOND);
    let stats = sim.stats();
    for (cpu, stats) in stats.cpus.iter().enumerate() {
        let asleep: i64 = stats.asleep.iter().map(|d| d.0).sum();
        assert!(asleep > 999 * MS, "cpu {cpu} slept {asleep} ns of a second");
        let entries: u64 = stats.entries.iter().sum();
        assert!(entries < 30, "cpu {cpu} slept {entries} times: 250 would be every tick");
    }
}

#[test]
fn a_sleeper_runs_every_period_within_slack_and_exit_latency() {
    let Some(kernel) = linux_6_12("a sleeper") else { return };
    let machine = machine("pixel6");
    let mut sim = start(&kernel, &machine, Periodic::new(10 * MS, 200 * US));
    sim.add_task(task("sleeper")).unwrap();
    run(&mut sim, SECOND);
    let stats = &sim.stats().tasks[0];
    assert!((99..=101).contains(&stats.wakeups), "{stats:?}");
    // 50 us of slack; no state of this machine takes a millisecond to leave.
    assert!(stats.latency_max >= Duration(50 * US), "{stats:?}");
    assert!(stats.latency_max < Duration(2 * MS), "{stats:?}");
}

#[test]
fn two_busy_tasks_share_a_cpu_by_their_weights() {
    let Some(kernel) = linux_6_12("two tasks on one CPU") else { return };
    // The kernel's weights: nice 0 is 1024, nice 5 is 335.
    for (nice, share) in [(0, 0.5), (5, 335.0 / 1359.0)] {
        let mut sim = start(&kernel, &machine("pixel6"), busy);
        let pinned = |nice| TaskSetup { nice, affinity: vec![CpuId(7)], ..task("busy") };
        sim.add_task(pinned(0)).unwrap();
        sim.add_task(pinned(nice)).unwrap();
        run(&mut sim, Instant(4 * SECOND.0));
        let stats = sim.stats();
        let times: Vec<f64> = stats.tasks.iter().map(|t| t.run_time.0 as f64).collect();
        let got = times[1] / (times[0] + times[1]);
        assert!((got - share).abs() < 0.01, "nice {nice}: {got} in place of {share}");
        assert!(stats.cpus[7].busy > Duration(3_990 * MS), "{:?}", stats.cpus[7]);
    }
}

#[test]
fn small_tasks_stay_little_and_a_heavy_one_goes_big() {
    let Some(kernel) = linux_6_12("energy-aware placement") else { return };
    let machine = machine("pixel6");
    assert!(machine.schedutil, "EAS needs it");
    let work = |task: TaskId, now: Instant| {
        if task.0 == 2 {
            return Step::Run(Duration(10 * MS));
        }
        // Turns by time: a task that has just woken is at a period's beginning.
        match now.0 % (20 * MS) < MS {
            true => Step::Sleep(Instant((now.0 / (20 * MS) + 1) * 20 * MS - MS)),
            false => Step::Run(Duration(100 * US)),
        }
    };
    let mut sim = start(&kernel, &machine, work);
    for name in ["small", "other", "heavy"] {
        sim.add_task(task(name)).unwrap();
    }
    run(&mut sim, Instant(2 * SECOND.0));
    let stats = sim.stats();
    let big: i64 = stats.cpus[6..].iter().map(|cpu| cpu.busy.0).sum();
    assert!(big > 1_800 * MS, "the heavy task is on a big CPU: {stats:?}");
}

#[test]
fn io_wakes_the_task_and_counts_as_waiting_for_io() {
    let Some(kernel) = linux_6_12("io") else { return };
    let mut asks = false;
    let work = move |_: TaskId, _: Instant| {
        asks = !asks;
        if asks { Step::Io(Duration(150 * US)) } else { Step::Run(Duration(20 * US)) }
    };
    let mut sim = start(&kernel, &machine("rk3399"), work);
    sim.add_task(task("fio")).unwrap();
    run(&mut sim, SECOND);
    let stats = &sim.stats().tasks[0];
    // At most 1/170 us; a little CPU is slower and sleeps between.
    assert!((1_500..5_900).contains(&stats.wakeups), "{stats:?}");
}

#[test]
fn a_pair_that_wakes_each_other_runs_in_turn() {
    let Some(kernel) = linux_6_12("ping-pong") else { return };
    let mut turns = [0_u32; 2];
    let work = move |task: TaskId, _: Instant| {
        turns[task.0] += 1;
        // One begins by computing, the other by waiting for it.
        match (turns[task.0] + 2 * task.0 as u32) % 3 {
            0 => Step::Wait,
            1 => Step::Run(Duration(30 * US)),
            _ => Step::Wake(TaskId(1 - task.0)),
        }
    };
    let mut sim = start(&kernel, &machine("rk3399"), work);
    sim.add_task(task("ping")).unwrap();
    sim.add_task(task("pong")).unwrap();
    run(&mut sim, SECOND);
    let stats = sim.stats();
    let (ping, pong) = (stats.tasks[0].wakeups, stats.tasks[1].wakeups);
    assert!(ping > 500 && ping.abs_diff(pong) <= 1, "{stats:?}");
}

#[test]
fn instances_share_nothing_and_repeat_to_the_nanosecond() {
    let Some(kernel) = linux_6_12("determinism") else { return };
    let machine = machine("pixel6");
    let once = || {
        let mut sim = start(&kernel, &machine, Periodic::new(3 * MS, 700 * US));
        for _ in 0..5 {
            sim.add_task(task("periodic")).unwrap();
        }
        run(&mut sim, SECOND);
        let usage: Vec<_> = (0..8).map(|cpu| sim.idle_usage(CpuId(cpu)).unwrap()).collect();
        (sim.stats(), usage)
    };
    let alone = once();
    let together: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(once)).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert!(together.iter().all(|run| *run == alone));
}

#[test]
fn the_kernels_own_counters_equal_what_the_hardware_saw() {
    let Some(kernel) = linux_6_12("idle counters") else { return };
    let mut sim = start(&kernel, &machine("pixel6"), Periodic::new(7 * MS, 300 * US));
    sim.add_task(task("periodic")).unwrap();
    run(&mut sim, SECOND);
    let stats = sim.stats();
    for cpu in 0..8 {
        let usage = sim.idle_usage(CpuId(cpu)).unwrap();
        let kernels: u64 = usage.iter().map(|u| u.usage).sum();
        let ours: u64 = stats.cpus[cpu as usize].entries.iter().sum();
        // The kernel counts a sleep when it ends; so do we.
        assert_eq!(kernels, ours, "cpu {cpu}: {usage:?}");
    }
}
