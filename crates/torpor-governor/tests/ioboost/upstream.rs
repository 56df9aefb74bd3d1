// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! `iowait` against schedutil's own file, and `intel-pstate` against the driver's: the same boosts
//! over random sequences of updates and evaluations. The kernel's lines are cut out of the file and
//! wrapped as a policy.
//!
//! `TORPOR_BOOST_CALLS` sets how many evaluations to compare with each kernel.

use super::{WAITS, resolve};
use crate::support::{Rng, kernel_sources};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use torpor_governor::{Catalog, IoBoost, IoBoostInstance, IoBoostSetup};
use torpor_units::{CpuId, Hz, Instant};

const EVALUATIONS: u64 = 2_000_000;
const PER_SEQUENCE: u64 = 2_000;

/// What surrounds the kernel's functions.
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

/// `intel_pstate_update_util()` has what is about waiting for IO first, before it looks at its
/// sampling interval; `get_target_pstate()` takes the boost for the least share that was busy.
const INTEL_PSTATE: &str = "\
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include \"ioboost.h\"
#define SCHED_CPUFREQ_IOWAIT (1U << 0)
struct cpudata {
	unsigned int iowait_boost;
	u64 last_update;
};
static DEFINE_PER_CPU(struct cpudata, cpus);
DEFINES
static void update(unsigned int number, u64 time, unsigned int flags)
{
	struct cpudata *cpu = per_cpu_ptr(&cpus, number);
	u64 delta_ns;
	LINES
}
static unsigned long cpu_boost(unsigned int number, u64 time, unsigned long max_cap)
{
	return (per_cpu_ptr(&cpus, number)->iowait_boost * max_cap) >> FRAC_BITS;
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

/// A boost of Torpor's, and the file it mirrors.
struct Mirror {
    ours: &'static str,
    linux: &'static str,
    file: &'static str,
    /// The kernel's lines as a policy of its own.
    policy: fn(&Source<'_>) -> String,
    /// Another CPU may make an update, whose clock is slightly apart.
    is_remote: bool,
    /// What it gives of a capacity of 1024, and how often the sequences must meet each.
    values: &'static [u32],
    met_min: u64,
    mutations: &'static [(&'static str, &'static str)],
}

const SUGOV: Mirror = Mirror {
    ours: "iowait",
    linux: "6.12",
    file: "kernel/sched/cpufreq_schedutil.c",
    policy: sugov,
    is_remote: true,
    values: &[0, 128, 256, 512, 1024],
    met_min: 50_000,
    mutations: IOWAIT_MUTATIONS,
};

const MIRRORS: [Mirror; 3] = [
    Mirror { linux: "6.1", ..SUGOV },
    SUGOV,
    Mirror {
        ours: "intel-pstate",
        linux: "6.12",
        file: "drivers/cpufreq/intel_pstate.c",
        policy: intel_pstate,
        // The driver leaves what other CPUs do alone.
        is_remote: false,
        values: &[0, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
        met_min: 2_000,
        mutations: INTEL_PSTATE_MUTATIONS,
    },
];

struct Source<'a> {
    linux: &'static str,
    text: &'a str,
}

impl Source<'_> {
    /// From one piece of text to the next one of another, without that.
    fn between(&self, start: &str, end: &str) -> &str {
        let from = self.text.find(start);
        let from = from.unwrap_or_else(|| panic!("{} has no `{start}`", self.linux));
        let len = self.text[from..].find(end);
        let len = len.unwrap_or_else(|| panic!("{} has no `{end}`", self.linux));
        &self.text[from..from + len]
    }
}

fn sugov(source: &Source<'_>) -> String {
    let least = source.between("#define IOWAIT_BOOST_MIN", "\n");
    let functions = source.between("static bool sugov_iowait_reset(", "#ifdef CONFIG_NO_HZ_COMMON");
    let apply = if source.linux == "6.1" { APPLY_6_1 } else { APPLY_6_12 };
    format!("{BEFORE}{least}\n{functions}{}", AFTER.replace("APPLY", apply))
}

fn intel_pstate(source: &Source<'_>) -> String {
    let defines = ["FRAC_BITS", "int_tofp(X)", "ONE_EIGHTH_FP"]
        .map(|name| source.between(&format!("#define {name}"), "\n"));
    let lines = source
        .between("delta_ns = time - cpu->last_update;", "delta_ns = time - cpu->sample.time;");
    INTEL_PSTATE.replace("DEFINES", &defines.join("\n")).replace("LINES", lines)
}

impl Mirror {
    /// The kernel's boost, as a file.
    fn upstream(&self, test: &str) -> Option<PathBuf> {
        let file = kernel_sources(self.linux, test)?.join(self.file);
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("upstream-boost");
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join(format!("{}-{}.c", self.ours, self.linux));
        let policy = (self.policy)(&Source { linux: self.linux, text: &text });
        std::fs::write(&path, policy).unwrap();
        Some(path)
    }
}

#[test]
fn every_boost_is_that_of_the_kernels_file() {
    for mirror in &MIRRORS {
        compare(mirror);
    }
}

fn compare(mirror: &Mirror) {
    let name = format!("{} against Linux {}", mirror.ours, mirror.linux);
    let Some(path) = mirror.upstream(&name) else { return };
    let pair = |hz: &Hz| {
        let theirs = resolve(path.to_str().unwrap(), *hz).unwrap_or_else(|e| panic!("{e}"));
        (resolve(mirror.ours, *hz).unwrap(), theirs)
    };
    let pairs: Vec<(IoBoost, IoBoost)> = Hz::ALL.iter().map(pair).collect();
    let wanted = std::env::var("TORPOR_BOOST_CALLS").map_or(EVALUATIONS, |n| n.parse().unwrap());
    let mut met = Met::default();
    for seed in 0..wanted / PER_SEQUENCE {
        let (ours, theirs) = &pairs[(seed % 4) as usize];
        if let Err(difference) = run(mirror, ours, theirs, seed, &mut met) {
            panic!("{name}, sequence {seed} at {}: {difference}", ours.hz());
        }
    }
    println!("{name}: {met:?}");
    // What random sequences must have reached to be worth their name.
    let count = |value: &u32| met.by_boost.get(value).copied().unwrap_or(0);
    let reached = mirror.values.iter().all(|v| count(v) > mirror.met_min) && met.silences > 50_000;
    assert!(wanted < EVALUATIONS || reached, "{name}: {met:?}");
}

/// The comparison is sharp: a change in any one of these places makes a difference.
#[test]
fn every_mutation_is_detected() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("boost-mutations");
    std::fs::create_dir_all(&dir).unwrap();
    let mut undetected = Vec::new();
    for mirror in &MIRRORS[1..] {
        let name = mirror.ours;
        let Some(theirs) = mirror.upstream(&format!("mutations of {name}")) else { return };
        let theirs = resolve(theirs.to_str().unwrap(), Hz::H250).unwrap();
        let source =
            Catalog::ioboosts().unwrap().into_iter().find(|b| b.name == name).unwrap().source;
        for (i, (original, mutation)) in mirror.mutations.iter().enumerate() {
            assert_eq!(source.matches(original).count(), 1, "{name}.c must have one `{original}`");
            let path = dir.join(format!("{name}-{i}.c"));
            std::fs::write(&path, source.replace(original, mutation)).unwrap();
            let mutant = resolve(path.to_str().unwrap(), Hz::H250).unwrap();
            let mut met = Met::default();
            if (0..50).all(|seed| run(mirror, &mutant, &theirs, seed, &mut met).is_ok()) {
                undetected.push(format!("{name}.c with `{mutation}` for `{original}`"));
            }
        }
    }
    assert!(undetected.is_empty(), "not detected: {undetected:#?}");
}

const INTEL_PSTATE_MUTATIONS: &[(&str, &str)] = &[
    ("boost_min = PSTATE_WHOLE / 8", "boost_min = PSTATE_WHOLE / 8 + 1"),
    ("\tif (boost < least)\n", "\tif (boost <= least)\n"),
    ("min(boost << 1, PSTATE_WHOLE)", "boost << 1"),
    ("boost << 1,", "boost << 2,"),
    ("> (s64)TICK_NSEC", ">= (s64)TICK_NSEC"),
    ("> (s64)TICK_NSEC", "> 2 * (s64)TICK_NSEC"),
    ("\t\tpstate->boost = 0;", "\t\tpstate->boost >>= 1;"),
    ("pstate->boost >>= 1;", "pstate->boost >>= 2;"),
    ("if (flags & IOBOOST_IOWAIT)", "if (!(flags & IOBOOST_IOWAIT))"),
    ("\tpstate->last_update = now;\n", ""),
];

const IOWAIT_MUTATIONS: &[(&str, &str)] = &[
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
    /// Evaluations by what they gave of a capacity of 1024.
    by_boost: BTreeMap<u32, u64>,
    /// Evaluations of a CPU that was last updated more than a tick ago.
    silences: u64,
}

/// A policy of three CPUs: each may be evaluated on another's update.
fn run(
    mirror: &Mirror,
    ours: &IoBoost,
    theirs: &IoBoost,
    seed: u64,
    met: &mut Met,
) -> Result<(), String> {
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
            2 if mirror.is_remote => -rng.magnitude(8).min(now_ns),
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
                if !mirror.values.contains(&mine) {
                    return Err(format!("{mine} is not among its values"));
                }
                *met.by_boost.entry(mine).or_default() += 1;
            }
        }
    }
    Ok(())
}
