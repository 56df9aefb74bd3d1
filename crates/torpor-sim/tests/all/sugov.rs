// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! schedutil against the kernel's own file: the same frequency at the same time, update by update.
//!
//! `TORPOR_SUGOV_UPDATES` sets how many updates to compare with each kernel, alone and shared.

use crate::upstream;

use std::path::{Path, PathBuf};
use torpor_platform::Clock;
use torpor_sim::cpufreq::{CpuDemand, Release, Schedutil, rate_limit};
use torpor_sim::sched::Clamp;
use torpor_units::{Duration, Instant};

const UPDATES: usize = 200_000;
/// The mid CPUs of a Pixel 6.
const FREQS_KHZ: [u32; 14] = [
    400_000, 553_000, 696_000, 799_000, 910_000, 1_024_000, 1_197_000, 1_328_000, 1_491_000,
    1_663_000, 1_836_000, 1_999_000, 2_130_000, 2_253_000,
];
const CAPACITY: u64 = 498;

#[test]
fn frequencies_are_those_of_linux_6_1() {
    compare(Release::V6_1);
}

#[test]
fn frequencies_are_those_of_linux_6_12() {
    compare(Release::V6_12);
}

/// What happens to a CPU's runqueue before it tells cpufreq.
#[derive(Clone, Copy, Debug)]
struct Update {
    cpu: usize,
    time_ns: u64,
    util: u64,
    clamp: Clamp,
    idle_calls: u64,
}

fn compare(release: Release) {
    let Some(program) = program(release) else { return };
    let count = std::env::var("TORPOR_SUGOV_UPDATES").map_or(UPDATES, |n| n.parse().unwrap());
    let clock = Clock { transition_latency: Duration(500_000), ..Clock::default() };
    for (cpus, limit) in
        [(1, Duration::ZERO), (1, rate_limit(&clock, release)), (4, Duration(1_000_000))]
    {
        let updates = updates(count, cpus);
        let theirs = answers(&program, &updates, cpus, limit);
        assert_eq!(theirs.len(), updates.len());
        let mut governor = Schedutil::new(release, FREQS_KHZ.to_vec(), limit);
        let idle =
            CpuDemand { util: 0, boost: 0, perf_min: 0, clamp: Clamp::NONE, capacity: CAPACITY };
        let mut demands = vec![idle; cpus];
        let (mut freq_khz, mut changed_ns, mut changes) = (0, 0, 0);
        for (i, (update, theirs)) in updates.iter().zip(&theirs).enumerate() {
            let Update { cpu, time_ns, util, clamp, idle_calls } = *update;
            demands[cpu] = CpuDemand { util, clamp, ..idle };
            let now = Instant(time_ns as i64);
            let next = if !governor.is_due(now) {
                None
            } else if cpus == 1 {
                let is_capped = clamp.max != Clamp::NONE.max && util >= clamp.max.into();
                governor.update_single(now, &demands[0], idle_calls, is_capped)
            } else {
                let performance = demands.iter().map(|d| d.performance(release)).max().unwrap();
                governor.update_shared(now, performance, CAPACITY)
            };
            if let Some(opp) = next {
                (freq_khz, changed_ns) = (u64::from(FREQS_KHZ[opp]), time_ns);
                changes += 1;
            }
            let name = release.name();
            assert_eq!((freq_khz, changed_ns), *theirs, "{name}, {cpus} CPUs, {i}: {update:?}");
        }
        println!(
            "{}: {cpus} CPUs, limit {limit}: {count} updates, {changes} changes",
            release.name()
        );
        assert!(changes > count / 100, "the updates are worth their name");
    }
}

/// Random updates whose utilization wanders, with tasks' clamps now and then.
fn updates(count: usize, cpus: usize) -> Vec<Update> {
    let mut state = 0x5e5e_0001_u64;
    let mut below = |n: u64| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        ((u128::from(state.wrapping_mul(0x2545_f491_4f6c_dd1d)) * u128::from(n)) >> 64) as u64
    };
    let first = Update { cpu: 0, time_ns: 0, util: 0, clamp: Clamp::NONE, idle_calls: 0 };
    let mut cpu_states = vec![first; cpus];
    let mut time_ns = 0;
    (0..count)
        .map(|_| {
            time_ns += [below(1_000), below(400_000), below(9_000_000)][below(3) as usize];
            let cpu = below(cpus as u64) as usize;
            let own = &mut cpu_states[cpu];
            (own.cpu, own.time_ns) = (cpu, time_ns);
            own.util = match below(4) {
                0 => below(CAPACITY + 1),
                1 => own.util / 2,
                _ => (own.util + below(40)).saturating_sub(below(40)).min(CAPACITY),
            };
            own.idle_calls += below(2);
            if below(20) == 0 {
                let max = [1024, below(1025)][below(2) as usize] as u16;
                let min = [0, below(1025)][below(2) as usize] as u16;
                own.clamp = Clamp { min, max };
            }
            *own
        })
        .collect()
}

/// Compiles the kernel's file, up to its sysfs interface, with what it needs around it.
fn program(release: Release) -> Option<PathBuf> {
    let test = format!("schedutil against Linux {}", release.name());
    let tree = upstream::kernel_sources(release.name(), &test)?;
    let text = std::fs::read_to_string(tree.join("kernel/sched/cpufreq_schedutil.c")).unwrap();
    let (governor, _) = text.split_once("sysfs interface").expect("the file has its sections");
    let (governor, _) = governor.rsplit_once('\n').expect("the section has a line of its own");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sugov-{}", release.name()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("sugov.c"), governor).unwrap();
    let program = folder.join("sugov");
    let args: &[&str] = if release == Release::V6_1 { &["-DLINUX_6_1"] } else { &[] };
    upstream::compile(&program, "tests/sugov/upstream.c", &folder, args, &test)?;
    Some(program)
}

/// The frequency in kHz and when it was decided on, after each update.
fn answers(program: &Path, updates: &[Update], cpus: usize, limit: Duration) -> Vec<(u64, u64)> {
    let args = [cpus.to_string(), limit.0.to_string(), CAPACITY.to_string()];
    let args = args.into_iter().chain(FREQS_KHZ.map(|khz| khz.to_string()));
    let words = updates.iter().flat_map(|u| {
        let clamp = u64::from(u.clamp.min) | u64::from(u.clamp.max) << 32;
        [u.cpu as u64, u.time_ns, u.util, clamp, u.idle_calls]
    });
    let answered = upstream::answers(program, args, words);
    answered.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}
