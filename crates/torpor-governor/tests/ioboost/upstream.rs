// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `iowait` against schedutil's own file: the same boosts over random sequences of updates and
//! evaluations. The kernel's three functions are cut out of the file and wrapped as a policy.
//!
//! `TORPOR_BOOST_CALLS` sets how many evaluations to compare with each kernel.

use super::{WAITS, resolve};
use crate::support::{Rng, kernel_sources};
use std::path::{Path, PathBuf};
use torpor_governor::{Catalog, IoBoost, IoBoostInstance, IoBoostSetup};
use torpor_units::{CpuId, Hz, Instant};

const EVALUATIONS: u64 = 2_000_000;
const PER_SEQUENCE: u64 = 2_000;

/// What stands around the kernel's functions.
const BEFORE: &str = "\
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include \"ioboost.h\"
#define SCHED_CPUFREQ_IOWAIT (1U << 0)
/* Of Linux 6.1: nobody limits anything. */
#define cpu_rq(cpu) NULL
#define uclamp_rq_util_with(rq, util, p) (util)
struct sugov_cpu {
	unsigned int cpu;
	bool iowait_boost_pending;
	unsigned int iowait_boost;
	u64 last_update;
	unsigned long util, max;
};
static DEFINE_PER_CPU(struct sugov_cpu, sugov_cpu);
";

/// `sugov_update_single_common()` has these lines, before and after the rate limit.
const AFTER: &str = "
static void update(unsigned int cpu, u64 time, unsigned int flags)
{
	struct sugov_cpu *sg_cpu = per_cpu_ptr(&sugov_cpu, cpu);
	sugov_iowait_boost(sg_cpu, time, flags);
	sg_cpu->last_update = time;
}
static unsigned long cpu_boost(unsigned int cpu, u64 time, unsigned long max_cap)
{
	struct sugov_cpu *sg_cpu = per_cpu_ptr(&sugov_cpu, cpu);
	APPLY
}
static const struct ioboost_ops ops = {
	.name = \"upstream\", .update = update, .cpu_boost = cpu_boost,
};
static int __init start(void)
{
	return ioboost_register(&ops);
}
core_initcall(start);
";

const APPLY_6_1: &str = "sg_cpu->max = max_cap; sg_cpu->util = 0; sugov_iowait_apply(sg_cpu, time); return sg_cpu->util;";
const APPLY_6_12: &str = "return sugov_iowait_apply(sg_cpu, time, max_cap);";

/// The kernel's boost as a policy of its own.
fn upstream(version: &str, test: &str) -> Option<PathBuf> {
    let tree = kernel_sources(version, test)?;
    let file = tree.join("kernel/sched/cpufreq_schedutil.c");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let between = |start: &str, end: &str| {
        let from = text.find(start).unwrap_or_else(|| panic!("{version} has no `{start}`"));
        let len = text[from..].find(end).unwrap_or_else(|| panic!("{version} has no `{end}`"));
        &text[from..from + len]
    };
    let least = between("#define IOWAIT_BOOST_MIN", "\n");
    let functions = between("static bool sugov_iowait_reset(", "#ifdef CONFIG_NO_HZ_COMMON");
    let apply = if version == "6.1" { APPLY_6_1 } else { APPLY_6_12 };
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("upstream-boost");
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join(format!("sugov-{version}.c"));
    let policy = format!("{BEFORE}{least}\n{functions}{}", AFTER.replace("APPLY", apply));
    std::fs::write(&path, policy).unwrap();
    Some(path)
}

#[test]
fn iowait_boosts_as_linux_6_1_does() {
    compare("6.1");
}

#[test]
fn iowait_boosts_as_linux_6_12_does() {
    compare("6.12");
}

fn compare(version: &str) {
    let Some(path) = upstream(version, &format!("iowait against Linux {version}")) else { return };
    let pair = |hz: &Hz| {
        let theirs = resolve(path.to_str().unwrap(), *hz).unwrap_or_else(|e| panic!("{e}"));
        (resolve("iowait", *hz).unwrap(), theirs)
    };
    let pairs: Vec<(IoBoost, IoBoost)> = Hz::ALL.iter().map(pair).collect();
    let wanted = std::env::var("TORPOR_BOOST_CALLS").map_or(EVALUATIONS, |n| n.parse().unwrap());
    let mut met = Met::default();
    for seed in 0..wanted / PER_SEQUENCE {
        let (ours, theirs) = &pairs[(seed % 4) as usize];
        if let Err(difference) = run(ours, theirs, seed, &mut met) {
            panic!("Linux {version}, sequence {seed} at {}: {difference}", ours.hz());
        }
    }
    println!("iowait against Linux {version}: {met:?}");
    // What random sequences must have reached to be worth their name.
    let [none, rest @ ..] = met.by_boost;
    let reached = none > 50_000 && rest.iter().all(|n| *n > 50_000) && met.silences > 50_000;
    assert!(wanted < EVALUATIONS || reached, "{met:?}");
}

/// The comparison is sharp: a slip in any one of these places is told apart.
#[test]
fn a_slip_anywhere_is_told_apart() {
    let Some(theirs) = upstream("6.12", "slips in iowait are told apart") else { return };
    let theirs = resolve(theirs.to_str().unwrap(), Hz::H250).unwrap();
    let source = Catalog::ioboosts().into_iter().find(|b| b.name == "iowait").unwrap().source;
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("boost-slips");
    std::fs::create_dir_all(&dir).unwrap();
    let mut unseen = Vec::new();
    for (i, (sound, slip)) in SLIPS.iter().enumerate() {
        assert_eq!(source.matches(sound).count(), 1, "iowait.c must have one `{sound}`");
        let path = dir.join(format!("iowait-{i}.c"));
        std::fs::write(&path, source.replace(sound, slip)).unwrap();
        let slipped = resolve(path.to_str().unwrap(), Hz::H250).unwrap();
        if (0..50).all(|seed| run(&slipped, &theirs, seed, &mut Met::default()).is_ok()) {
            unseen.push(*slip);
        }
    }
    assert!(unseen.is_empty(), "not told apart: {unseen:#?}");
}

const SLIPS: &[(&str, &str)] = &[
    ("boost_min = SCHED_CAPACITY_SCALE / 8", "boost_min = SCHED_CAPACITY_SCALE / 8 + 1"),
    ("boost_max = SCHED_CAPACITY_SCALE", "boost_max = SCHED_CAPACITY_SCALE - 1"),
    ("rise_shift = 1", "rise_shift = 2"),
    ("fall_shift = 1", "fall_shift = 2"),
    ("silence_ticks = 1", "silence_ticks = 2"),
    ("silence_ns > (s64)", "silence_ns >= (s64)"),
    ("s64 silence_ns = now", "u64 silence_ns = now"),
    ("boost < boost_min ? 0", "boost <= boost_min ? 0"),
    ("iowait->boost = from_io ? boost_min : 0;", "iowait->boost = 0;"),
    ("iowait->is_pending = from_io;", ""),
    ("from_io && !iowait->is_pending", "from_io"),
    ("\t\tiowait->is_pending = true;\n", ""),
    ("\tiowait->last_update = now;\n", ""),
    ("\t\tiowait->is_pending = false;\n\t\treturn 0;", "\t\treturn 0;"),
    ("\tiowait->is_pending = false;\n\treturn (min_t", "\treturn (min_t"),
    ("if (!iowait->is_pending) {", "if (true) {"),
    ("\t\tiowait->boost = 0;\n", ""),
];

#[derive(Debug, Default)]
struct Met {
    /// Evaluations by what they gave of a capacity of 1024: 0, 128, 256, 512, 1024.
    by_boost: [u64; 5],
    /// Evaluations of a CPU that was last updated more than a tick ago.
    silences: u64,
}

/// A policy of three CPUs: each may be evaluated on another's update.
fn run(ours: &IoBoost, theirs: &IoBoost, seed: u64, met: &mut Met) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let hz = i64::from(ours.hz().get());
    let tick_ns = (1_000_000_000 + hz / 2) / hz;
    let cpus = [(CpuId(0), 1024), (CpuId(1), 1024), (CpuId(2), 1024)];
    let setup = IoBoostSetup { cpus: &cpus, tasks: 0 };
    let mut ours = ours.instantiate(&setup).map_err(|e| e.to_string())?;
    let mut theirs = theirs.instantiate(&setup).map_err(|e| e.to_string())?;
    // Sequences differ in how long the gaps are and how many updates come from IO.
    let (gap_bits, io_in) = (10 + rng.below(14), 1 + rng.below(3));
    let mut now_ns = rng.magnitude(40);
    let mut last_ns = [0; 3];
    let mut evaluations = 0;
    while evaluations < PER_SEQUENCE {
        now_ns += match rng.below(12) {
            0 => tick_ns + rng.below(5) as i64 - 2,
            1 => 0,
            // Clocks of CPUs are slightly apart.
            2 => -rng.magnitude(8).min(now_ns),
            _ => rng.magnitude(gap_bits),
        };
        let slot = rng.below(3) as usize;
        let flags = WAITS.when(rng.one_in(io_in));
        if !rng.one_in(8) {
            for boost in [&mut ours, &mut theirs] {
                boost.update(slot, Instant(now_ns), flags).map_err(|e| e.to_string())?;
            }
            last_ns[slot] = now_ns;
        }
        // Else the rate limit holds.
        if rng.one_in(3) {
            continue;
        }
        // A CPU's own frequency, or that of all three.
        for slot in if rng.one_in(4) { 0..3 } else { slot..slot + 1 } {
            let max_cap = if rng.one_in(2) { 1024 } else { rng.below(1025) };
            let asked = |boost: &mut IoBoostInstance| {
                boost.cpu_boost(slot, Instant(now_ns), max_cap).map_err(|e| e.to_string())
            };
            let (mine, kernels) = (asked(&mut ours)?, asked(&mut theirs)?);
            if mine != kernels {
                return Err(format!(
                    "cpu{slot} at {now_ns} ns of {max_cap}: ours {mine}, the kernel's {kernels}"
                ));
            }
            evaluations += 1;
            met.silences += u64::from(now_ns - last_ns[slot] > tick_ns);
            if max_cap == 1024 {
                let known = [0, 128, 256, 512, 1024].iter().position(|b| *b == mine);
                met.by_boost[known.ok_or_else(|| format!("{mine} is no power"))?] += 1;
            }
        }
    }
    Ok(())
}
