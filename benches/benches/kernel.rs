// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Measures a hosted kernel: events per second of CPU time, the simulator's share, the growth of
//! both with the machine, and the start of an instance. An event is an entry of the hardware's
//! queue: a timer, an IPI, the exit from an idle state, the end of work.
//!
//! `cargo bench -p torpor-benches --bench kernel -- 6.12`, with a kernel as for `--kernel`, and
//! perhaps numbers of CPUs.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant as Wall;
use torpor_benches::{Limit, aim, cpu_s};
use torpor_engine::decision::Unobserved;
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration, Hz, Instant};
use torpor_sim::kernel::{Kernel, Kernels, TaskSetup};
use torpor_sim::machine::{Act, Bench, Machine, TaskId};

/// A round has about 50 samples at 250 per second; all rounds give the simulator's part to +-4 ns.
const ROUNDS: usize = 15;
/// With 8 CPUs and 100 tasks, in millions per second.
const AIM: f64 = 6.0;
/// Growth of the simulator's part from 8 to 256 CPUs.
const OWN_GROWTH_AIM: f64 = 1.5;
const START_AIM_MS: f64 = 10.0;
const CPUS: [usize; 4] = [8, 16, 64, 256];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let (numbers, names): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|argument| argument.parse::<usize>().is_ok());
    let name = names.first().map_or("6.12", |name| name.as_str());
    let sizes = numbers.iter().filter_map(|number| number.parse().ok()).collect::<Vec<_>>();
    let sizes = if sizes.is_empty() { CPUS.to_vec() } else { sizes };
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
    let heads = ["events", "M/s", "ns each", "own ns", "start ms"];
    let [events, speed, each, own, start] = heads;
    println!("{:<22} {events:>9} {speed:>6} {each:>8} {own:>8} {start:>9}", "");
    let measured: Vec<Measured> = sizes.iter().map(|cpus| measure(&kernel, *cpus)).collect();
    let (small, large) = (&measured[0], &measured[measured.len() - 1]);
    let speed = 1e3 / small.event_ns;
    aim("hosted kernel, M events/s", speed, Limit::NotBelow(AIM));
    let growth = large.own_ns / small.own_ns;
    let what = format!("hosted kernel, own part, {} CPUs to {}", large.cpus, small.cpus);
    aim(&what, growth, Limit::NotAbove(OWN_GROWTH_AIM));
    let what = format!("hosted kernel, start of {} CPUs, ms", large.cpus);
    aim(&what, large.start_ms, Limit::NotAbove(START_AIM_MS));
}

/// Addresses of the running kernel's code, and the number of samples in them.
static CODE: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
static IN_KERNEL: AtomicU64 = AtomicU64::new(0);
static SAMPLES: AtomicU64 = AtomicU64::new(0);

extern "C" fn sample(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: a handler with SA_SIGINFO gets a valid context.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    #[cfg(target_arch = "x86_64")]
    let at = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let at = context.uc_mcontext.pc as usize;
    SAMPLES.fetch_add(1, Relaxed);
    let is_in_kernel = (CODE[0].load(Relaxed)..CODE[1].load(Relaxed)).contains(&at);
    IN_KERNEL.fetch_add(is_in_kernel.into(), Relaxed);
}

/// Samples while `body` runs. Returns the samples in the kernel's code, and all samples.
fn sampled(body: impl FnOnce()) -> (u64, u64) {
    let before = (IN_KERNEL.load(Relaxed), SAMPLES.load(Relaxed));
    let every = |microseconds| libc::itimerval {
        it_interval: libc::timeval { tv_sec: 0, tv_usec: microseconds },
        it_value: libc::timeval { tv_sec: 0, tv_usec: microseconds },
    };
    // SAFETY: the handler only counts. SA_ONSTACK is needed while a thread of the kernel runs on its
    // own stack.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = sample as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigaction(libc::SIGPROF, &raw const action, std::ptr::null_mut());
        libc::setitimer(libc::ITIMER_PROF, &every(1_000), std::ptr::null_mut());
    }
    body();
    // SAFETY: a local variable.
    unsafe { libc::setitimer(libc::ITIMER_PROF, &every(0), std::ptr::null_mut()) };
    (IN_KERNEL.load(Relaxed) - before.0, SAMPLES.load(Relaxed) - before.1)
}

/// Finds the code of the one kernel that is loaded.
fn find_code() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux shows them");
    let is_code = |line: &&str| line.contains("torpor-kernel") && line.contains(" r-xp ");
    let range = maps.lines().find(is_code).expect("the kernel's image is mapped");
    let ends = range.split([' ', '-']).take(2);
    for (end, place) in ends.zip(&CODE) {
        place.store(usize::from_str_radix(end, 16).expect("an address"), Relaxed);
    }
}

/// Returns the work of tasks that alternately run and sleep, with a total load of one half.
fn work(tasks: usize) -> impl FnMut(TaskId, Instant) -> Act {
    let mut asleep = vec![false; tasks];
    let mut seed = 1_u64;
    move |TaskId(task), now| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let chance = (seed >> 40) as i64 % 1_000;
        asleep[task] = !asleep[task];
        match asleep[task] {
            true => Act::Sleep(now + Duration(1_500_000 + 1_000 * chance)),
            false => Act::Run(Duration(30_000 + 100 * chance)),
        }
    }
}

struct Measured {
    cpus: usize,
    /// Time per event in the fastest round, in ns.
    event_ns: f64,
    own_ns: f64,
    start_ms: f64,
}

/// Starts a kernel, with its tasks asleep or queued.
fn started<'a>(kernel: &Kernel, bench: &'a Bench, cpus: usize) -> (f64, Machine<'a, Unobserved>) {
    let tasks = 100 * cpus / 8;
    let began = cpu_s();
    let instance = kernel.boot(&bench.hardware).unwrap_or_else(|e| panic!("{e}"));
    let start_ms = (cpu_s() - began) * 1e3;
    let mut sim = bench.start(instance, work(tasks));
    for number in 0..tasks {
        let setup = TaskSetup {
            name: "worker".to_owned(),
            number: 0,
            forked_on: CpuId((number % cpus) as u32),
            timer_slack: Duration::from_us(50),
            group: 0,
            attributes: Default::default(),
        };
        sim.add_task(setup).unwrap_or_else(|e| panic!("{e}"));
    }
    (start_ms, sim)
}

/// Returns the fastest round, and the simulator's share of all rounds.
fn measure(kernel: &Kernel, cpus: usize) -> Measured {
    let (mut event_ns, mut start_ms, mut events) = (f64::MAX, f64::MAX, 0);
    let mut samples = (0, 0);
    let platform = Platform::resolve("i5-10600k").unwrap_or_else(|e| panic!("{e}"));
    let bench = Bench::wide(platform, cpus as u32);
    for _ in 0..ROUNDS {
        let (start, mut sim) = started(kernel, &bench, cpus);
        start_ms = start_ms.min(start);
        find_code();
        let end = Instant(24_000_000_000 / cpus as i64);
        let began = cpu_s();
        let (in_kernel, all) = sampled(|| {
            sim.run(end, &mut |_| true).unwrap_or_else(|e| panic!("{e}"));
        });
        events = sim.stats().events;
        event_ns = event_ns.min((cpu_s() - began) * 1e9 / events as f64);
        samples = (samples.0 + in_kernel, samples.1 + all);
    }
    let own_ns = event_ns * (1.0 - samples.0 as f64 / samples.1 as f64);
    let (what, speed) = (format!("{cpus} CPUs, {} tasks", 100 * cpus / 8), 1e3 / event_ns);
    println!("{what:<22} {events:>9} {speed:>6.2} {event_ns:>8.0} {own_ns:>8.0} {start_ms:>9.1}");
    Measured { cpus, event_ns, own_ns, start_ms }
}
