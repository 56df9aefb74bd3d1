// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compares our mirrors with the upstream files of Linux: the same decisions in random valid
//! sequences of calls.
//!
//! `TORPOR_SEED` repeats one sequence; `TORPOR_MIRROR_CALLS` sets the number of select() calls.

mod mutations;
mod pair;
use crate::support::{kernel_file, kernel_sources, resolve};
use mutations::*;
use pair::{Tally, run};
use std::path::Path;
use torpor_governor::{Catalog, Governor};
use torpor_machine::units::Hz;

const CALLS: u64 = 1_000_000;
const FIRST_SEED: u64 = 0x7045_0000;

/// A governor of Torpor and the file that it mirrors.
struct Mirror {
    ours: &'static str,
    /// The upstream file's name, and its Linux version.
    theirs: &'static str,
    linux: &'static str,
    /// Another governor, which must differ from it.
    other: &'static str,
    mutations: &'static [(&'static str, &'static str)],
    /// Number of states that it can select.
    reach: usize,
    keeps_tick: bool,
}

const fn mirror(
    ours: &'static str,
    (theirs, linux): (&'static str, &'static str),
    other: &'static str,
    mutations: &'static [(&'static str, &'static str)],
) -> Mirror {
    Mirror { ours, theirs, linux, other, mutations, reach: 10, keeps_tick: true }
}

const MIRRORS: [Mirror; 6] = [
    mirror("menu", ("menu", "6.1"), "menu-6.12", MENU_MUTATIONS),
    mirror("teo", ("teo", "6.1"), "teo-6.12", TEO_MUTATIONS),
    mirror("menu-6.12", ("menu", "6.12"), "menu", MENU_6_12_MUTATIONS),
    mirror("teo-6.12", ("teo", "6.12"), "teo", TEO_6_12_MUTATIONS),
    Mirror {
        keeps_tick: false,
        ..mirror("ladder", ("ladder", "6.12"), "haltpoll", LADDER_MUTATIONS)
    },
    Mirror { reach: 2, ..mirror("haltpoll", ("haltpoll", "6.12"), "ladder", HALTPOLL_MUTATIONS) },
];

#[test]
fn menu_decides_as_linux_6_1_does() {
    compare("menu");
}

#[test]
fn teo_decides_as_linux_6_1_does() {
    compare("teo");
}

#[test]
fn menu_6_12_decides_as_linux_does() {
    compare("menu-6.12");
}

#[test]
fn teo_6_12_decides_as_linux_does() {
    compare("teo-6.12");
}

#[test]
fn ladder_decides_as_linux_6_12_does() {
    compare("ladder");
}

#[test]
fn haltpoll_decides_as_linux_6_12_does() {
    compare("haltpoll");
}

/// The comparison detects another version of the governor.
#[test]
fn another_version_differs() {
    for mirror in &MIRRORS {
        let Some(theirs) = mirror.upstream(Hz::H250, "another version differs") else {
            return;
        };
        let other = resolve(mirror.other, Hz::H250);
        assert!(
            differ(&other, &theirs, 100),
            "{} decides as {} of {}",
            mirror.other,
            mirror.theirs,
            mirror.linux
        );
    }
}

#[test]
fn some_mutations_are_detected() {
    detects_mutations(8);
}

#[test]
#[ignore = "slow: compiles 140 governors; `make test-long`"]
fn every_mutation_is_detected() {
    detects_mutations(1);
}

/// Checks that the comparison detects mutations: of each mirror the first, and each `step`th after.
fn detects_mutations(step: usize) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutations");
    std::fs::create_dir_all(&dir).unwrap();
    let mut undetected = Vec::new();
    for mirror in &MIRRORS {
        let name = mirror.ours;
        let Some(upstream) = mirror.upstream(Hz::H250, "mutations are detected") else {
            return;
        };
        let builtin = Catalog::builtins().unwrap().into_iter().find(|b| b.name == name).unwrap();
        for (i, (original, mutation)) in mirror.mutations.iter().enumerate().step_by(step) {
            assert_eq!(
                builtin.source.matches(original).count(),
                1,
                "{name}.c must have one `{original}`"
            );
            let path = dir.join(format!("{name}-{i}.c"));
            std::fs::write(&path, builtin.source.replace(original, mutation)).unwrap();
            let mutant = resolve(path.to_str().unwrap(), Hz::H250);
            if !differ(&mutant, &upstream, 6_000) {
                undetected.push(format!("{name}.c with `{mutation}` for `{original}`"));
            }
        }
    }
    assert!(undetected.is_empty(), "not detected:\n{}", undetected.join("\n"));
}

impl Mirror {
    fn upstream(&self, hz: Hz, test: &str) -> Option<Governor> {
        let tree = kernel_sources(self.linux, test)?;
        Some(resolve(&format!("{}@{}", self.theirs, tree.display()), hz))
    }
}

/// Utilization awareness, in kernels of which no package is left.
#[test]
fn teo_with_utilization_decides_as_linux_6_3() {
    compare_with_file("teo,util_mode=step", "teo", "teo-6.3.c");
}

/// 6.6 to 6.10, in which the next timer comes after utilization.
#[test]
fn teo_6_6_decides_as_linux_does() {
    compare_with_file("teo-6.6", "teo", "teo-6.6.c");
}

/// That file has the first of the four changes.
#[test]
fn menu_3_8_decides_as_its_first_commit() {
    let first = "menu-3.8,typical_interval=0,general_timer=0,zero_residency=0";
    compare_with_file(first, "menu", "menu-69a37bea.c");
}

/// 6.12 without the stable patch that lets only states below 15 us replace polling.
#[test]
fn menu_6_12_decides_as_before_residency_threshold() {
    let ours = "menu-6.12,residency_threshold=0";
    let Some(tree) = kernel_sources("6.12", &format!("{ours} against Linux 6.12")) else { return };
    let text = std::fs::read_to_string(tree.join("drivers/cpuidle/governors/menu.c")).unwrap();
    let condition = "s->target_residency_ns < RESIDENCY_THRESHOLD_NS &&";
    assert_eq!(text.matches(condition).count(), 1, "menu.c has the patch");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("menu-without-threshold.c");
    std::fs::write(&path, text.replace(condition, "")).unwrap();
    compare_with_path(ours, "menu-6.12", &path);
}

/// Compares with a single file of another release, if this machine has it.
fn compare_with_file(ours: &str, like: &str, file: &str) {
    let test = format!("{ours} against {file}");
    if let Some(path) = kernel_file(file, &test) {
        compare_with_path(ours, like, &path);
    }
}

fn compare_with_path(ours: &str, like: &str, theirs: &Path) {
    let theirs = theirs.to_str().expect("the path is UTF-8");
    let pair = |hz: &Hz| (resolve(ours, *hz), resolve(theirs, *hz));
    let mirror = MIRRORS.iter().find(|m| m.ours == like).expect("a mirror of ours");
    compare_pairs(ours, mirror, &Hz::ALL.iter().map(pair).collect::<Vec<_>>());
}

fn differ(ours: &Governor, theirs: &Governor, sequences: u64) -> bool {
    let mut total = Tally::default();
    (0..sequences).any(|seed| run(ours, theirs, seed, &mut total, false).is_err())
}

fn compare(name: &str) {
    let mirror = MIRRORS.iter().find(|m| m.ours == name).expect("a mirror of ours");
    let test = format!("{name} against Linux {}", mirror.linux);
    let pair = |hz: &Hz| Some((resolve(name, *hz), mirror.upstream(*hz, &test)?));
    let Some(pairs) = Hz::ALL.iter().map(pair).collect::<Option<Vec<_>>>() else { return };
    compare_pairs(name, mirror, &pairs);
}

fn compare_pairs(name: &str, mirror: &Mirror, pairs: &[(Governor, Governor)]) {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name}={text} is no number")))
    };
    let one_seed = number("TORPOR_SEED");
    let calls = number("TORPOR_MIRROR_CALLS").unwrap_or(CALLS);
    let mut total = Tally::default();
    let mut seed = one_seed.unwrap_or(FIRST_SEED);
    while total.selects < calls {
        let (ours, theirs) = &pairs[(seed % 4) as usize];
        if run(ours, theirs, seed, &mut total, false).is_err() {
            let story = run(ours, theirs, seed, &mut total, true).expect_err("it differs again");
            panic!("{name} differs; repeat with TORPOR_SEED={seed}\n{story}");
        }
        if one_seed.is_some() {
            break;
        }
        seed += 1;
    }
    println!("{name}: {total:?}");
    if one_seed.is_none() && calls >= CALLS {
        total.check_coverage(mirror);
    }
}
