// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Events a second of CPU time of a hosted kernel, how the cost of one grows with the machine, and
//! what an instance takes to start. An event is an entry taken off the hardware's queue: a timer, an
//! IPI, a state left, work done.
//!
//! `cargo bench -p torpor-benches --bench kernel -- 6.12`, with the name of a kernel as `--kernel`
//! takes it.

use std::time::Instant as Wall;
use torpor_kernel::{Kernel, Kernels, Machine, Sim, Step, TaskId, TaskSetup};
use torpor_platform::Platform;
use torpor_units::{CpuId, Duration, Hz, Instant};

const ROUNDS: usize = 5;
const AIM: f64 = 0.7;
/// At 256 CPUs against 8.
const GROWTH_AIM: f64 = 1.5;
const START_AIM_MS: f64 = 20.0;

fn main() {
    let name = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let name = name.unwrap_or_else(|| "6.12".to_owned());
    let started = Wall::now();
    let spec = name.parse().unwrap_or_else(|e| match e {});
    let kernel = match Kernels::new(Default::default()).resolve(&spec, Hz::H250, &|_, _| {}) {
        Ok(kernel) => kernel,
        Err(error) => return println!("not run: {error}"),
    };
    println!(
        "{name} (Linux {}): {:.1} s to compile or find it",
        kernel.release,
        started.elapsed().as_secs_f64()
    );
    println!("{:<34} {:>12} {:>10} {:>10} {:>10}", "", "events", "M/s", "ns each", "start ms");
    let small = measure(&kernel, 8, 100);
    println!("aim: {AIM} M/s; {}", verdict(1e3 / small.0 >= AIM));
    println!("aim: start in {START_AIM_MS} ms; {}", verdict(small.1 < START_AIM_MS));
    for cpus in [16, 64] {
        measure(&kernel, cpus, 100 * cpus / 8);
    }
    let large = measure(&kernel, 256, 3_200);
    println!(
        "aim: {GROWTH_AIM} times an event's cost at 8 CPUs; {:.2}, {}",
        large.0 / small.0,
        verdict(large.0 / small.0 <= GROWTH_AIM)
    );
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "not met" }
}

/// Of this thread: others on the machine do not count.
fn cpu_s() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is a local variable.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    assert_eq!(result, 0, "Linux has this clock");
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// A machine of like CPUs, as many as asked, in clusters of 8 with a cache each.
fn machine(cpus: usize) -> Machine {
    let mut machine =
        Machine::of_platform(&Platform::resolve("i5-10600k").unwrap_or_else(|e| panic!("{e}")));
    let cluster = machine.clusters[0].clone();
    let clusters = (0..cpus.div_ceil(8))
        .map(|n| torpor_kernel::Cluster { cache: n as u32, ..cluster.clone() });
    machine.clusters = clusters.collect();
    machine.set_cpus((0..cpus).map(|cpu| cpu / 8).collect());
    machine
}

/// Tasks that compute and sleep by turns, each with times of its own; all together half a load.
fn work(tasks: usize) -> impl FnMut(TaskId, Instant) -> Step {
    let mut asleep = vec![false; tasks];
    let mut seed = 1_u64;
    move |TaskId(task), now| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let chance = (seed >> 40) as i64 % 1_000;
        asleep[task] = !asleep[task];
        match asleep[task] {
            true => Step::Sleep(now + Duration(1_500_000 + 1_000 * chance)),
            false => Step::Run(Duration(30_000 + 100 * chance)),
        }
    }
}

/// The best of some rounds: ns an event, and ms to start.
fn measure(kernel: &Kernel, cpus: usize, tasks: usize) -> (f64, f64) {
    let machine = machine(cpus);
    let (mut best, mut start, mut events) = (f64::MAX, f64::MAX, 0);
    for _ in 0..ROUNDS {
        let began = cpu_s();
        let instance = kernel.boot(&machine).unwrap_or_else(|e| panic!("{e}"));
        start = start.min((cpu_s() - began) * 1e3);
        let mut sim = Sim::new(instance, machine.clone(), work(tasks));
        for number in 0..tasks {
            let setup = TaskSetup {
                name: "worker".to_owned(),
                number: 0,
                forked_on: CpuId((number % cpus) as u32),
                timer_slack: Duration::from_us(50),
                attributes: Default::default(),
            };
            sim.add_task(setup).unwrap_or_else(|e| panic!("{e}"));
        }
        let began = cpu_s();
        let end = Instant(8_000_000_000 / cpus as i64);
        sim.run(end, &mut |_| true).unwrap_or_else(|e| panic!("{e}"));
        events = sim.stats().events;
        best = best.min((cpu_s() - began) * 1e9 / events as f64);
    }
    let what = format!("{cpus} CPUs, {tasks} tasks");
    println!("{what:<34} {events:>12} {:>10.2} {best:>10.0} {start:>10.1}", 1e3 / best);
    (best, start)
}
