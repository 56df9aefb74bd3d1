// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Linux 6.12, as Debian ships its source, on simulated machines.

use super::support::{MS, US, linux_6_12, machine, pinned, start, task};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use torpor_engine::decision::Unobserved;
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_sim::kernel::{Attributes, CpuSet, Overheads, Policy, TaskSetup};
use torpor_sim::machine::{Act, Bench, Machine, TaskId};

const SECOND: Instant = Instant(1_000 * MS);

fn run(sim: &mut Machine<'_, Unobserved>, until: Instant) {
    sim.run(until, &mut |_| true).unwrap_or_else(|e| panic!("{e}"));
}

/// Computes, then sleeps until its next period.
fn periodic(period: i64, work: i64) -> impl FnMut(TaskId, Instant) -> Act {
    let (mut next, mut computes) = (0, false);
    move |_, now| {
        computes = !computes;
        if computes {
            return Act::Run(Duration(work));
        }
        next = (next + period).max(now.0 + 1);
        Act::Sleep(Instant(next))
    }
}

fn busy(_: TaskId, _: Instant) -> Act {
    Act::Run(Duration(10 * MS))
}

#[test]
fn idle_machine_stops_its_ticks() {
    let Some(kernel) = linux_6_12("an idle machine") else { return };
    let machine = machine("pixel6");
    let mut sim = start(&kernel, &machine, busy);
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
fn sleeper_runs_each_period_within_slack() {
    let Some(kernel) = linux_6_12("a sleeper") else { return };
    let machine = machine("pixel6");
    let mut sim = start(&kernel, &machine, periodic(10 * MS, 200 * US));
    sim.add_task(task("sleeper")).unwrap();
    run(&mut sim, SECOND);
    let stats = &sim.stats().tasks[0];
    assert!((99..=101).contains(&stats.wakeups), "{stats:?}");
    // 50 us of slack; no state of this machine takes a millisecond to leave.
    assert!(stats.latency_max >= Duration(50 * US), "{stats:?}");
    assert!(stats.latency_max < Duration(2 * MS), "{stats:?}");
}

/// Every third attempt of a CPU: the kernel counts it as `rejected`, and nothing else.
#[test]
fn state_refused_by_the_driver_counts_as_rejected() {
    let Some(kernel) = linux_6_12("a refused idle state") else { return };
    let machine = machine("pixel6");
    let mut sim = start(&kernel, &machine, periodic(10 * MS, 200 * US));
    let refused = Arc::new(AtomicU64::new(0));
    let (counts, mut attempts) = (Arc::clone(&refused), [0_u64; 8]);
    sim.instance().reject_entries(Box::new(move |cpu, _| {
        attempts[cpu] += 1;
        let is_refused = attempts[cpu] % 3 == 0;
        counts.fetch_add(u64::from(is_refused), Ordering::Relaxed);
        is_refused.then_some(Duration(5 * US))
    }));
    let sums = |sim: &mut Machine<'_, Unobserved>| {
        let usage = (0..8).flat_map(|cpu| sim.idle_usage(CpuId(cpu)).unwrap());
        usage.fold((0, 0), |(usage, rejected), state| {
            (usage + state.usage, rejected + state.rejected)
        })
    };
    let before = sums(&mut sim);
    sim.add_task(task("sleeper")).unwrap();
    run(&mut sim, SECOND);
    let after = sums(&mut sim);
    let entries: u64 = sim.stats().cpus.iter().flat_map(|cpu| &cpu.entries).sum();
    assert_eq!(after.1 - before.1, refused.load(Ordering::Relaxed));
    assert!(after.1 > 30, "{} refused", after.1);
    // A CPU that sleeps at the end has not counted that yet.
    assert!(entries.abs_diff(after.0 - before.0) <= 8, "{entries} sleeps, {} counted", after.0);
    assert!((99..=101).contains(&sim.stats().tasks[0].wakeups));
}

#[test]
fn busy_tasks_share_cpu_by_weight() {
    let Some(kernel) = linux_6_12("two tasks on one CPU") else { return };
    // The kernel's weights: nice 0 is 1024, nice 5 is 335.
    for (nice, share) in [(0, 0.5), (5, 335.0 / 1359.0)] {
        let machine = machine("pixel6");
        let mut sim = start(&kernel, &machine, busy);
        let first = pinned("busy", 7);
        let attributes = Attributes { nice, ..first.attributes };
        sim.add_task(first.clone()).unwrap();
        sim.add_task(TaskSetup { attributes, ..first }).unwrap();
        run(&mut sim, Instant(4 * SECOND.0));
        let stats = sim.stats();
        let times: Vec<f64> = stats.tasks.iter().map(|t| t.run_time.0 as f64).collect();
        let got = times[1] / (times[0] + times[1]);
        assert!((got - share).abs() < 0.01, "nice {nice}: {got} in place of {share}");
        assert!(stats.cpus[7].busy > Duration(3_990 * MS), "{:?}", stats.cpus[7]);
    }
}

#[test]
fn small_tasks_run_little_heavy_ones_big() {
    let Some(kernel) = linux_6_12("energy-aware placement") else { return };
    let machine = machine("pixel6");
    assert_eq!(
        machine.hardware.cpufreq,
        torpor_machine::platform::CpufreqGovernor::Schedutil.into(),
        "EAS needs it"
    );
    let work = |task: TaskId, now: Instant| {
        if task.0 == 2 {
            return Act::Run(Duration(10 * MS));
        }
        // Turns by time: a task that has just woken is at a period's beginning.
        match now.0 % (20 * MS) < MS {
            true => Act::Sleep(Instant((now.0 / (20 * MS) + 1) * 20 * MS - MS)),
            false => Act::Run(Duration(100 * US)),
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
fn io_wait_counts_and_ends_with_the_request() {
    let Some(kernel) = linux_6_12("io") else { return };
    let mut asks = false;
    let work = move |_: TaskId, _: Instant| {
        asks = !asks;
        if asks { Act::Io(Duration(150 * US)) } else { Act::Run(Duration(20 * US)) }
    };
    let machine = machine("rk3399");
    let mut sim = start(&kernel, &machine, work);
    sim.add_task(task("fio")).unwrap();
    run(&mut sim, SECOND);
    let stats = &sim.stats().tasks[0];
    // At most 1/170 us; a little CPU is slower and sleeps between.
    assert!((1_500..5_900).contains(&stats.wakeups), "{stats:?}");
}

#[test]
fn ping_pong_tasks_run_in_turn() {
    let Some(kernel) = linux_6_12("ping-pong") else { return };
    let mut turns = [0_u32; 2];
    let work = move |task: TaskId, _: Instant| {
        turns[task.0] += 1;
        // One task begins by computing, the other by waiting for it.
        match (turns[task.0] + 2 * task.0 as u32) % 3 {
            0 => Act::Wait,
            1 => Act::Run(Duration(30 * US)),
            _ => Act::Wake(TaskId(1 - task.0)),
        }
    };
    let machine = machine("rk3399");
    let mut sim = start(&kernel, &machine, work);
    sim.add_task(task("ping")).unwrap();
    sim.add_task(task("pong")).unwrap();
    run(&mut sim, SECOND);
    let stats = sim.stats();
    let (ping, pong) = (stats.tasks[0].wakeups, stats.tasks[1].wakeups);
    assert!(ping > 500 && ping.abs_diff(pong) <= 1, "{stats:?}");
}

#[test]
fn instances_are_separate_and_repeatable() {
    let Some(kernel) = linux_6_12("determinism") else { return };
    let machine = machine("pixel6");
    let once = || {
        let mut sim = start(&kernel, &machine, periodic(3 * MS, 700 * US));
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
fn kernels_counters_equal_the_hardwares() {
    let Some(kernel) = linux_6_12("idle counters") else { return };
    let machine = machine("pixel6");
    let mut sim = start(&kernel, &machine, periodic(7 * MS, 300 * US));
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

/// Returns the shares that a run on one CPU gives to its tasks.
fn shares(tasks: &[Attributes]) -> Option<Vec<Duration>> {
    let kernel = linux_6_12("scheduling policies")?;
    let machine = machine("pixel6");
    let mut sim = start(&kernel, &machine, busy);
    for attributes in tasks {
        let affinity = CpuSet::from_iter([CpuId(7)]);
        let attributes = Attributes { affinity, ..*attributes };
        sim.add_task(TaskSetup { attributes, ..task("busy") }).unwrap();
    }
    run(&mut sim, Instant(4 * SECOND.0));
    Some(sim.stats().tasks.iter().map(|task| task.run_time).collect())
}

#[test]
fn realtime_tasks_come_first_and_idle_ones_last() {
    let of = |policy| Attributes { policy, ..Default::default() };
    let normal = Attributes::default();
    let Some(fifo) = shares(&[normal, of(Policy::Fifo(50)), of(Policy::Fifo(10))]) else { return };
    // The kernel's own limit: a fair task has 50 ms of each second despite them.
    assert!((190 * MS..215 * MS).contains(&fifo[0].0), "{fifo:?}");
    assert!(fifo[1] > Duration(3_780 * MS) && fifo[2] == Duration::ZERO, "{fifo:?}");
    let robin = shares(&[of(Policy::RoundRobin(9)), of(Policy::RoundRobin(9))]).unwrap();
    assert!((robin[0].0 - robin[1].0).abs() <= 100 * MS, "100 ms is a turn: {robin:?}");
    // Weights: 3 and 1024.
    let idle = shares(&[normal, of(Policy::Idle)]).unwrap();
    assert!((5 * MS..25 * MS).contains(&idle[1].0), "{idle:?}");
}

#[test]
fn uclamp_changes_placement_and_frequency() {
    let Some(kernel) = linux_6_12("utilization clamps") else { return };
    let machine = machine("pixel6");
    let busy = |uclamp, work: i64| {
        let mut sim = start(&kernel, &machine, periodic(16 * MS, work));
        let attributes = Attributes { uclamp, ..Attributes::default() };
        sim.add_task(TaskSetup { attributes, ..task("clamped") }).unwrap();
        run(&mut sim, SECOND);
        let cpus = sim.stats().cpus;
        let sum =
            |cpus: &[torpor_sim::machine::CpuStats]| cpus.iter().map(|c| c.busy.0).sum::<i64>();
        (sum(&cpus[6..]) as f64, sum(&cpus) as f64)
    };
    // A hundredth of a big CPU.
    let (big, all) = busy((0, 1024), 160 * US);
    assert!(big < 0.1 * all);
    let (big, all) = busy((900, 1024), 160 * US);
    assert!(big > 0.9 * all);
    // A quarter of one: whatever the CPU, its frequency is kept low.
    let (_, free) = busy((0, 1024), 4 * MS);
    let (_, clamped) = busy((0, 100), 4 * MS);
    assert!(clamped > 1.2 * free, "{clamped} {free}");
}

/// Tasks of which the first changes the others, and itself, while they run.
#[test]
fn affinity_change_moves_tasks_in_any_state() {
    let Some(kernel) = linux_6_12("changes of affinity") else { return };
    let only =
        |cpu| Attributes { affinity: CpuSet::from_iter([CpuId(cpu)]), ..Attributes::default() };
    let mut turn = 0;
    let work = move |task: TaskId, now: Instant| {
        if task.0 > 0 {
            return match task.0 {
                1 => Act::Run(Duration(10 * MS)),
                2 => Act::Sleep(now + Duration(MS)),
                _ => Act::Wait,
            };
        }
        turn += 1;
        let cpu = (turn / 8 % 8) as u32;
        match turn % 8 {
            0 => Act::Change(TaskId(0), only(7 - cpu)),
            n @ 1..=3 => Act::Change(TaskId(n), only(cpu)),
            4 => Act::Wake(TaskId(3)),
            5 => Act::Change(TaskId(0), Attributes::default()),
            6 => Act::Run(Duration(300 * US)),
            _ => Act::Sleep(now + Duration(3 * MS)),
        }
    };
    let machine = machine("i5-10600k");
    let mut sim = start(&kernel, &machine, work);
    for name in ["changer", "runner", "sleeper", "waiter"] {
        sim.add_task(task(name)).unwrap();
    }
    run(&mut sim, SECOND);
    let stats = sim.stats();
    // About every 5 ms, at a low frequency: each is moved to the next CPU.
    for (task, stats) in stats.tasks.iter().enumerate() {
        assert!((180..310).contains(&stats.migrations), "task {task}: {stats:?}");
    }
    assert!(stats.tasks[1].run_time > Duration(700 * MS), "{:?}", stats.tasks[1]);
}

/// Thousands that live for a moment leave no more behind than a few.
#[test]
fn memory_of_exited_tasks_is_reused() {
    let Some(kernel) = linux_6_12("tasks that exit") else { return };
    let mut has_run = std::collections::BTreeSet::new();
    let work = move |task: TaskId, _: Instant| match has_run.insert(task) {
        true => Act::Run(Duration(10 * US)),
        false => Act::Exit,
    };
    let machine = machine("rk3399");
    let mut sim = start(&kernel, &machine, work);
    let mut used = Vec::new();
    for round in 0..50 {
        for _ in 0..100 {
            sim.add_task(task("short")).unwrap();
        }
        run(&mut sim, Instant((round + 1) * 20 * MS));
        used.push(sim.instance().memory_used());
    }
    let stats = sim.stats();
    assert!(stats.tasks.iter().all(|task| task.run_time >= Duration(10 * US)));
    // Memory comes in pieces of 256 KiB; the last one that is needed comes in round 13.
    assert_eq!(used[49], used[19], "{used:?}");
}

/// RCU frees the memory of a task that exits: a CPU with such callbacks keeps its tick until the
/// grace period is over, which a kernel thread ends.
#[test]
fn rcu_keeps_the_tick_until_grace_period_ends() {
    let Some(kernel) = linux_6_12("RCU") else { return };
    let machine = machine("i5-10600k");
    let entries = |does_exit: bool| {
        let mut has_run = false;
        let work = move |_: TaskId, now: Instant| {
            has_run = !has_run;
            match (has_run, does_exit) {
                (true, _) => Act::Run(Duration(10 * US)),
                (false, true) => Act::Exit,
                (false, false) => Act::Sleep(now + Duration(1_000 * SECOND.0)),
            }
        };
        let mut sim = start(&kernel, &machine, work);
        run(&mut sim, Instant(SECOND.0 + MS));
        let before: u64 = sim.stats().cpus[0].entries.iter().sum();
        sim.add_task(pinned("short", 0)).unwrap();
        run(&mut sim, Instant(SECOND.0 + 100 * MS));
        sim.stats().cpus[0].entries.iter().sum::<u64>() - before
    };
    let (kept, stopped) = (entries(true), entries(false));
    // At 250 Hz: some ticks, not those of all the 100 ms.
    assert!((stopped + 2..stopped + 12).contains(&kept), "{kept} against {stopped}");
}

/// A machine whose kernel takes no time, except for the given costs.
fn with_costs(platform: &str, costs: Overheads) -> Bench {
    let mut bench = machine(platform);
    bench.hardware.overheads = costs;
    bench
}

const FREE: Overheads = Overheads {
    interrupt: Duration::ZERO,
    context_switch: Duration::ZERO,
    ipi_send: Duration::ZERO,
    ipi_handling: Duration::ZERO,
    governor_timer: Duration::ZERO,
    timer_programming: Duration::ZERO,
    step_ps: 0,
    remote_step_ps: 0,
};

/// To look for tasks elsewhere is no use to a CPU that is idle for a shorter time than that takes
/// (`rq->avg_idle` against `sd->max_newidle_lb_cost`).
#[test]
fn slow_balancing_happens_less_often() {
    let Some(kernel) = linux_6_12("newidle balancing") else { return };
    let steps = |remote_step_ps: u32| {
        let mut machine = Bench::wide(Platform::resolve("i5-10600k").expect("it ships"), 64);
        machine.hardware.overheads = Overheads { remote_step_ps, ..FREE };
        let mut asleep = [false; 800];
        let work = move |TaskId(task): TaskId, now: Instant| {
            asleep[task] = !asleep[task];
            let own = US * task as i64;
            match asleep[task] {
                true => Act::Sleep(now + Duration(1_600 * US + own)),
                false => Act::Run(Duration(50 * US + own / 10)),
            }
        };
        let mut sim = start(&kernel, &machine, work);
        for number in 0..800 {
            sim.add_task(TaskSetup { forked_on: CpuId(number % 64), ..task("short") }).unwrap();
        }
        run(&mut sim, Instant(200 * MS));
        let held: i64 = sim.stats().cpus.iter().map(|cpu| cpu.held_up.0).sum();
        held as f64 * 1e3 / f64::from(remote_step_ps)
    };
    let (cheap, dear) = (steps(20_000), steps(2_000_000));
    assert!(dear < 0.5 * cheap, "{dear:.0} steps in place of {cheap:.0}");
}

/// A task that is moved away while it runs is moved by its CPU's migration thread.
#[test]
fn a_thread_of_the_kernel_takes_time() {
    let Some(kernel) = linux_6_12("a kernel thread's time") else { return };
    let machine = with_costs("i5-10600k", Overheads { context_switch: Duration(10 * US), ..FREE });
    let held_up = |moves: i64| {
        let mut turn = 0;
        let work = move |TaskId(task): TaskId, _: Instant| {
            if task == 1 || turn == 2 * moves {
                return Act::Run(Duration(SECOND.0));
            }
            turn += 1;
            let to = Attributes {
                affinity: CpuSet::from_iter([CpuId(1 + (turn / 2 % 2) as u32)]),
                ..Attributes::default()
            };
            if turn % 2 == 1 { Act::Change(TaskId(1), to) } else { Act::Run(Duration(MS)) }
        };
        let mut sim = start(&kernel, &machine, work);
        sim.add_task(pinned("mover", 0)).unwrap();
        sim.add_task(pinned("moved", 1)).unwrap();
        run(&mut sim, Instant(100 * MS));
        sim.stats().cpus[1..3].iter().map(|cpu| cpu.held_up.0).sum::<i64>()
    };
    // A move is a switch to that thread on one CPU, and one to the task on the other.
    let more = held_up(20) - held_up(10);
    assert!((150 * US..=200 * US).contains(&more), "{more} for ten moves");
}

/// So its idle times are those of the hardware, and so is what it makes of them.
#[test]
fn the_kernels_idle_times_begin_after_its_work() {
    let Some(kernel) = linux_6_12("idle times") else { return };
    let machine = machine("pixel6");
    assert!(machine.hardware.overheads.interrupt > Duration::ZERO, "measured");
    let mut sim = start(&kernel, &machine, periodic(7 * MS, 300 * US));
    sim.add_task(pinned("periodic", 7)).unwrap();
    // While the task runs.
    run(&mut sim, Instant(140 * 7 * MS + MS));
    let usage = sim.idle_usage(CpuId(7)).unwrap();
    let stats = &sim.stats().cpus[7];
    assert!(stats.entries.iter().sum::<u64>() >= 140, "{stats:?}");
    for (usage, asleep) in usage.iter().zip(&stats.asleep) {
        assert_eq!(usage.time_ns, asleep.0 as u64, "{usage:?}");
    }
}
