// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! schedutil (`governors/cpufreq/schedutil.c`) against the kernel's own file: the same frequency at
//! the same time, update by update.
//!
//! `TORPOR_SUGOV_UPDATES` sets how many updates to compare with each kernel, alone and shared.

use crate::upstream;

use std::path::{Path, PathBuf};
use torpor_engine::pelt::{Runqueue, Scale};
use torpor_governor::{
    Catalog, CpufreqCpu, CpufreqInstance, CpufreqSetup, CpufreqSpec, FreqDomain, FreqOpp, Release,
};
use torpor_sim::cpufreq::V6_1;
use torpor_sim::sched::Clamp;
use torpor_units::{CpuId, Duration, Hz, Instant};

const UPDATES: usize = 200_000;
/// The mid CPUs of a Pixel 6.
const FREQS_KHZ: [u32; 14] = [
    400_000, 553_000, 696_000, 799_000, 910_000, 1_024_000, 1_197_000, 1_328_000, 1_491_000,
    1_663_000, 1_836_000, 1_999_000, 2_130_000, 2_253_000,
];
const CAPACITY: u64 = 498;

#[test]
fn frequencies_are_those_of_linux_6_1() {
    compare(V6_1);
}

#[test]
fn frequencies_are_those_of_linux_6_12() {
    compare(Release::default());
}

/// What happens to a CPU's runqueue before it tells cpufreq.
#[derive(Clone, Copy, Debug)]
struct Update {
    cpu: usize,
    time_ns: u64,
    util: u64,
    runnable: u64,
    clamp: Clamp,
    idle_calls: u64,
}

/// The policy for a machine of one clock, whose driver takes half a millisecond.
fn schedutil(spec: &str, cpus: usize, capacity: u64, freqs_khz: &[u32]) -> CpufreqInstance {
    let spec: CpufreqSpec = spec.parse().unwrap();
    let policy = Catalog::new(Default::default()).resolve_cpufreq(&spec, Hz::H250).unwrap();
    let cpus: Vec<CpuId> = (0..cpus as u32).map(CpuId).collect();
    let opp = |&freq_khz| FreqOpp { freq_khz, is_inefficient: false };
    let opps: Vec<FreqOpp> = freqs_khz.iter().map(opp).collect();
    let domain = FreqDomain {
        cpus: &cpus,
        capacity,
        opps: &opps,
        transition_latency: Duration(500_000),
        transition_delay: None,
    };
    policy.instantiate(&CpufreqSetup { domains: &[domain], release: spec.release() }).unwrap()
}

fn compare(release: Release) {
    let Some(program) = program(release) else { return };
    let count = std::env::var("TORPOR_SUGOV_UPDATES").map_or(UPDATES, |n| n.parse().unwrap());
    // Of the driver's latency 6.1 takes a thousand times as much, 10 ms at most, 6.12 half as much
    // again.
    let of_driver_us = if release == V6_1 { 10_000 } else { 750 };
    for (cpus, params, limit_us) in
        [(1, ",rate_limit_us=0", 0), (1, "", of_driver_us), (4, ",rate_limit_us=1000", 1_000)]
    {
        let updates = updates(count, cpus);
        let theirs = answers(&program, &updates, cpus, Duration::from_us(limit_us));
        assert_eq!(theirs.len(), updates.len());
        let mut policy =
            schedutil(&format!("schedutil@{release}{params}"), cpus, CAPACITY, &FREQS_KHZ);
        let (mut freq_khz, mut changed_ns, mut changes) = (0, 0, 0);
        for (i, (update, theirs)) in updates.iter().zip(&theirs).enumerate() {
            let Update { cpu, time_ns, util, runnable, clamp, idle_calls } = *update;
            let shown = CpufreqCpu {
                util,
                runnable,
                idle_calls,
                uclamp_min: clamp.min.into(),
                uclamp_max: clamp.max.into(),
                ..CpufreqCpu::idle(cpu as u32, CAPACITY)
            };
            policy.show(0, cpu, shown);
            let now = Instant(time_ns as i64);
            if policy.is_due(0, now) {
                if let Some(opp) = policy.update(0, cpu, now, false).unwrap() {
                    (freq_khz, changed_ns) = (u64::from(FREQS_KHZ[opp]), time_ns);
                    changes += 1;
                }
            }
            assert_eq!((freq_khz, changed_ns), *theirs, "{release}, {cpus} CPUs, {i}: {update:?}");
        }
        println!("{release}: {cpus} CPUs, {limit_us} us: {count} updates, {changes} changes");
        assert!(changes > count / 100, "the updates are worth their name");
    }
}

/// A CPU that goes busy at its full speed: 206 is the first utilization that is more than a
/// quarter of 1024 with a quarter on top, 411 than half, 616 than three quarters. In periods
/// of 1.05 ms those come after 32 * log2(1024 / (1024 - util)) = 10.3, 23.7 and 42.5.
#[test]
fn the_frequency_climbs_with_the_utilization() {
    const PERIOD_NS: u64 = 1_048_576;
    for release in CpufreqSpec::RELEASES {
        let mut load = Runqueue::new(0, Scale::FULL);
        load.switch(true);
        let spec = format!("schedutil@{release},rate_limit_us=0");
        let mut policy = schedutil(&spec, 2, 1024, &[250_000, 500_000, 750_000, 1_000_000]);
        let mut steps = Vec::new();
        for period in 1..=60 {
            load.update(period * PERIOD_NS);
            let shown = CpufreqCpu { util: load.util().into(), ..CpufreqCpu::idle(0, 1024) };
            policy.show(0, 0, shown);
            let answer = policy.update(0, 0, Instant((period * PERIOD_NS) as i64), false).unwrap();
            steps.extend(answer.map(|opp| (period, opp)));
        }
        assert_eq!(steps, [(1, 0), (11, 1), (24, 2), (43, 3)], "{release}");
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
    let first =
        Update { cpu: 0, time_ns: 0, util: 0, runnable: 0, clamp: Clamp::NONE, idle_calls: 0 };
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
            // Tasks that wait, now and then, for more than the CPU can do.
            own.runnable = if below(4) == 0 { below(2 * CAPACITY) } else { own.util };
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
    let test = format!("schedutil against Linux {release}");
    let tree = upstream::kernel_sources(&release.to_string(), &test)?;
    let text = std::fs::read_to_string(tree.join("kernel/sched/cpufreq_schedutil.c")).unwrap();
    let (governor, _) = text.split_once("sysfs interface").expect("the file has its sections");
    let (governor, _) = governor.rsplit_once('\n').expect("the section has a line of its own");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sugov-{release}"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("sugov.c"), governor).unwrap();
    let program = folder.join("sugov");
    let args: &[&str] = if release == V6_1 { &["-DLINUX_6_1"] } else { &[] };
    upstream::compile(&program, "tests/sugov/upstream.c", &folder, args, &test)?;
    Some(program)
}

/// The frequency in kHz and when it was decided on, after each update.
fn answers(program: &Path, updates: &[Update], cpus: usize, limit: Duration) -> Vec<(u64, u64)> {
    let args = [cpus.to_string(), limit.0.to_string(), CAPACITY.to_string()];
    let args = args.into_iter().chain(FREQS_KHZ.map(|khz| khz.to_string()));
    let words = updates.iter().flat_map(|u| {
        let clamp = u64::from(u.clamp.min) | u64::from(u.clamp.max) << 32;
        [u.cpu as u64, u.time_ns, u.util | u.runnable << 32, clamp, u.idle_calls]
    });
    let answered = upstream::answers(program, args, words);
    answered.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}
