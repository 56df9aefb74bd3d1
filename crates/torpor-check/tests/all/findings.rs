// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Results of the check for the built-in governors and the kernel's own files. Each entry has its
//! paragraph in `docs/findings.md`.

use crate::upstream;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use torpor_check::{Kind, Options, check};
use torpor_governor::{Catalog, CatalogOptions, CpuSetup, Governor, Inputs, Setup, StateDesc};
use torpor_machine::units::{CpuId, Duration, Hz, Instant};

fn catalog() -> Catalog {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    Catalog::new(CatalogOptions { cache_dir: Some(cache), ..Default::default() })
}

fn found(governor: &str) -> Vec<Kind> {
    found_within(300_000, governor)
}

fn found_within(decisions: u64, governor: &str) -> Vec<Kind> {
    let catalog = catalog();
    let spec = governor.parse().expect("the test's spec is sound");
    let options = Options { decisions, ..Options::default() };
    let report = check(&catalog, &spec, &options, &mut |_| true)
        .unwrap_or_else(|e| panic!("{governor}: {e}"));
    report.findings.iter().map(|finding| finding.kind).collect()
}

fn compare(version: &str, expected: &[(&str, &[Kind])]) {
    let test = format!("the check of Linux {version}");
    let Some(tree) = upstream::kernel_sources(version, &test) else { return };
    for (name, kinds) in expected {
        assert_eq!(found(&format!("{name}@{}", tree.display())), *kinds, "{name} of {version}");
    }
}

#[test]
fn builtin_governors_have_upstreams_flaws() {
    assert_eq!(found("shallowest"), []);
    assert_eq!(found("deepest"), []);
    assert_eq!(found("teo"), []);
    assert_eq!(found("menu"), [Kind::Disabled, Kind::Latency]);
}

#[test]
fn linux_6_1_has_documented_findings() {
    compare(
        "6.1",
        &[
            ("menu", &[Kind::Disabled, Kind::Latency]),
            ("teo", &[]),
            ("ladder", &[Kind::Disabled, Kind::Latency, Kind::Tick]),
            ("haltpoll", &[Kind::Disabled, Kind::Latency]),
        ],
    );
}

#[test]
fn linux_6_12_has_documented_findings() {
    compare(
        "6.12",
        &[
            ("menu", &[Kind::Disabled]),
            ("teo", &[]),
            ("ladder", &[Kind::Disabled, Kind::Latency, Kind::Tick]),
            ("haltpoll", &[Kind::Disabled, Kind::Latency]),
        ],
    );
}

/// The same governors in a tree whose idle loop calls them on a one-state machine, as before 7.0,
/// and in one whose loop does not.
#[test]
fn one_state_tables_depend_on_the_idle_loop() {
    let test = "tables of one state";
    let Some(tree) = upstream::kernel_sources("6.12", test) else { return };
    let governors = Path::new("drivers/cpuidle/governors");
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("one-state");
    for (release, check, expected) in [
        ("VERSION = 6\nPATCHLEVEL = 12\n", "", true),
        ("VERSION = 6\nPATCHLEVEL = 12\n", "if (drv->state_count > 1)", false),
        ("VERSION = 7\nPATCHLEVEL = 0\n", "", true),
    ] {
        let copy = root.join(format!("{}-{expected}", &release[10..11]));
        for folder in [governors, Path::new("kernel/sched")] {
            std::fs::create_dir_all(copy.join(folder)).expect("a folder");
        }
        for file in ["ladder.c", "haltpoll.c"] {
            let text = std::fs::read(tree.join(governors).join(file)).expect("the tree has it");
            std::fs::write(copy.join(governors).join(file), text).expect("it is written");
        }
        std::fs::write(copy.join("Makefile"), release).expect("it is written");
        std::fs::write(copy.join("kernel/sched/idle.c"), check).expect("it is written");
        let spec = |name: &str| format!("{name}@{}", copy.display());
        let asks = |name: &str| {
            catalog().asks_about_one_state(&spec(name).parse().expect("a spec")).expect("it reads")
        };
        assert_eq!(asks("ladder"), expected, "{release}{check}");
        let found = [found(&spec("ladder")), found(&spec("haltpoll"))].concat();
        assert_eq!(found.contains(&Kind::Memory), expected, "{release}{check}");
        assert_eq!(found.contains(&Kind::Index), expected, "{release}{check}");
    }
}

/// 2^32 us, in ns.
const FAR_NS: i64 = (1 << 32) * 1_000;

/// Returns the state chosen for a timer this far away, after eight sleeps of 100 ms.
fn choice_after_long_sleeps(governor: &Governor, timer_ns: i64) -> i32 {
    let states = [(0, true), (1, false), (100, false)].map(|(us, is_polling)| StateDesc {
        name: format!("S{us}"),
        exit_latency: Duration::from_us(us),
        target_residency: Duration::from_us(us * 10),
        is_polling,
        is_disabled: false,
    });
    let setup = Setup { cpus: &[CpuSetup::new(CpuId(0), &states)] };
    let mut instance = governor.instantiate(&setup).expect("it loads");
    let mut now = Instant(0);
    let inputs = |now, timer_ns| Inputs {
        now,
        sleep_length: Duration(timer_ns),
        delta_next: Duration(timer_ns.min(1_000_000)),
        nr_iowait: 0,
        ..Inputs::default()
    };
    for _ in 0..8 {
        let choice = instance.select(0, &inputs(now, 10_000_000_000)).expect("it answers");
        now += Duration::from_us(100_000);
        instance.set_last_residency(0, Duration::from_us(100_000));
        instance.reflect(0, choice.state, now, false).expect("it returns");
    }
    instance.select(0, &inputs(now, timer_ns)).expect("it answers").state
}

/// Returns what a file of a kernel breaks: kinds of the check, and `far-timer`.
fn broken(file: &Path) -> BTreeSet<String> {
    let path = file.to_str().expect("it is UTF-8");
    let mut kinds: BTreeSet<_> =
        found_within(150_000, path).iter().map(|kind| format!("{kind:?}").to_lowercase()).collect();
    let governor =
        catalog().resolve(&path.parse().expect("a path"), Hz::H250).expect("it compiles");
    if choice_after_long_sleeps(&governor, FAR_NS) < 2 {
        kinds.insert("far-timer".into());
    }
    kinds
}

/// Each patch of `governors/patches`, applied alone to each tree that it names.
#[test]
#[ignore = "slow: 150,000 decisions of nine governors; `make test-long`"]
fn patches_end_the_findings_they_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../governors/patches");
    let mut before = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("it is there") {
        let patch = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&patch).expect("it is text");
        let words = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)).expect(key);
            line.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>()
        };
        let file = words("--- a/").pop_first().expect("a file");
        for version in words("Trees:") {
            let name = patch.file_name().expect("a name").to_string_lossy();
            let test = format!("{name} on Linux {version}");
            let Some(tree) = upstream::kernel_sources(&version, &test) else { continue };
            let whole = tree.join(&file);
            // In its tree, a file need not bear tables of one state.
            let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
            let [original, copy] = ["", &name].map(|patch| {
                let file = whole.file_stem().expect("a name").to_string_lossy();
                temporary.join(format!("{file}-{version}-{patch}.c"))
            });
            for to in [&original, &copy] {
                std::fs::copy(&whole, to).expect("the tree has it");
            }
            let Ok(done) =
                Command::new("patch").args(["-s", "-F0"]).arg(&copy).arg(&patch).status()
            else {
                eprintln!("not run: {test}: no program `patch`");
                continue;
            };
            assert!(done.success(), "{test}");
            let (after, ends) = (broken(&copy), words("Ends:"));
            let before = before.entry(whole).or_insert_with(|| broken(&original));
            assert_eq!(after, before.difference(&ends).cloned().collect(), "{test}");
            assert!(ends.is_subset(before), "{test}: {before:?}");
        }
    }
}

/// 2^32 us, 71.6 minutes: the number of microseconds to a timer is kept in 32 bits. It breaks no
/// rule, so no check finds it; it was found by reading.
#[test]
fn menu_takes_far_timer_for_a_due_one() {
    let mut names = vec!["menu".to_owned()];
    for version in ["6.1", "6.12"] {
        let tree = upstream::kernel_sources(version, &format!("timers of menu of Linux {version}"));
        names.extend(tree.map(|tree| format!("menu@{}", tree.display())));
    }
    for name in names {
        let spec = name.parse().expect("a name");
        let governor = catalog().resolve(&spec, Hz::H250).expect("it compiles");
        let choose = |timer_ns| choice_after_long_sleeps(&governor, timer_ns);
        assert_eq!(choose(FAR_NS - 1_000_000), 2, "{name}");
        assert!(choose(FAR_NS) < 2, "{name}");
    }
}
