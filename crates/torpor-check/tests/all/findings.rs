// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Results of the check for the built-in governors and the kernel's own files. Each entry has its
//! paragraph in `docs/findings.md`.

use crate::upstream;
use std::path::Path;
use torpor_check::{Kind, Options, check};
use torpor_governor::{Catalog, CatalogOptions, CpuSetup, Governor, Inputs, Setup, StateDesc};
use torpor_machine::units::{CpuId, Duration, Hz, Instant};

fn catalog() -> Catalog {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    Catalog::new(CatalogOptions { cache_dir: Some(cache), ..Default::default() })
}

fn found(governor: &str) -> Vec<Kind> {
    let catalog = catalog();
    let spec = governor.parse().expect("the test's spec is sound");
    let options = Options { decisions: 300_000, ..Options::default() };
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

/// The same governors in a tree whose idle loop offers tables of one state, as before 7.0, and in
/// one whose loop does not.
#[test]
fn one_state_table_is_offered_to_own_loops_only() {
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

/// 2^32 us, 71.6 minutes: the number of microseconds to a timer is kept in 32 bits. It breaks no
/// rule, so no check finds it; it was found by reading.
#[test]
fn menu_takes_a_far_timer_for_a_due_one() {
    let hour_and_more_ns = (1_i64 << 32) * 1_000;
    let mut names = vec!["menu".to_owned()];
    for version in ["6.1", "6.12"] {
        let tree = upstream::kernel_sources(version, &format!("timers of menu of Linux {version}"));
        names.extend(tree.map(|tree| format!("menu@{}", tree.display())));
    }
    for name in names {
        let spec = name.parse().expect("a name");
        let governor = catalog().resolve(&spec, Hz::H250).expect("it compiles");
        let choose = |timer_ns| choice_after_long_sleeps(&governor, timer_ns);
        assert_eq!(choose(hour_and_more_ns - 1_000_000), 2, "{name}");
        assert!(choose(hour_and_more_ns) < 2, "{name}");
    }
}
