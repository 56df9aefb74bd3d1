// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What the check says of the built-in governors and of the kernel's own files. Each entry has
//! its paragraph in `docs/findings.md`.

use std::path::{Path, PathBuf};
use std::process::Command;
use torpor_check::{Kind, Options, check};
use torpor_governor::{Catalog, CatalogOptions};

fn found(governor: &str) -> Vec<Kind> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let catalog = Catalog::new(CatalogOptions { cache_dir: Some(cache), compiler: None });
    let spec = governor.parse().expect("the test's spec is sound");
    let options = Options { decisions: 1_500_000, ..Options::default() };
    let report = check(&catalog, &spec, &options, &mut |_| true)
        .unwrap_or_else(|e| panic!("{governor}: {e}"));
    report.findings.iter().map(|finding| finding.kind).collect()
}

/// The unpacked kernel source of a Debian package, or why it cannot be had.
fn kernel_sources(version: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new("sh").arg(root.join("tests/kernel_sources.sh")).arg(version).output();
    let output = output.expect("sh could not be started");
    match output.status.code() {
        Some(0) => Some(String::from_utf8_lossy(&output.stdout).trim().into()),
        Some(77) => {
            let why = String::from_utf8_lossy(&output.stderr);
            eprintln!("not run: the check of Linux {version}: {}", why.trim());
            None
        }
        _ => panic!("kernel_sources.sh: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

fn compare(version: &str, expected: &[(&str, &[Kind])]) {
    let Some(tree) = kernel_sources(version) else { return };
    for (name, kinds) in expected {
        assert_eq!(found(&format!("{name}@{}", tree.display())), *kinds, "{name} of {version}");
    }
}

#[test]
fn the_built_in_governors_break_what_they_mirror_and_nothing_else() {
    assert_eq!(found("shallowest"), []);
    assert_eq!(found("deepest"), []);
    assert_eq!(found("teo"), []);
    assert_eq!(found("menu"), [Kind::Disabled, Kind::Latency]);
}

#[test]
fn linux_6_1_has_what_the_findings_say() {
    compare(
        "6.1",
        &[
            ("menu", &[Kind::Disabled, Kind::Latency]),
            ("teo", &[]),
            ("ladder", &[Kind::Disabled, Kind::Latency, Kind::Tick, Kind::Memory]),
            ("haltpoll", &[Kind::Index, Kind::Disabled, Kind::Latency]),
        ],
    );
}

#[test]
fn linux_6_12_has_what_the_findings_say() {
    compare(
        "6.12",
        &[
            ("menu", &[Kind::Disabled]),
            ("teo", &[]),
            ("ladder", &[Kind::Disabled, Kind::Latency, Kind::Tick, Kind::Memory]),
            ("haltpoll", &[Kind::Index, Kind::Disabled, Kind::Latency]),
        ],
    );
}
