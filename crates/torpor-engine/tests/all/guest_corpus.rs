// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The project's recordings of guests (tests/data/guest), verified: each finds the governor that
//! ran, and our counters equal the kernel's. The numbers are those of the first verification; a
//! change that loses a decision must say why.

use std::path::{Path, PathBuf};
use torpor_engine::Unwatched;
use torpor_engine::verify::{Fidelity, VerifyOptions, VerifyRequest, verify};
use torpor_governor::Catalog;

struct Recorded {
    name: &'static str,
    /// Torpor's name for the governor that ran there.
    governor: &'static str,
    /// Decisions followed by an idle entry.
    decisions: u64,
    /// Disagreeing decisions: with the answers of probes, and by tracepoints alone.
    astray: (u64, u64),
}

#[rustfmt::skip]
const CORPUS: &[Recorded] = &[
    Recorded { name: "amd64-6.1-menu-mix", governor: "menu", decisions: 236, astray: (0, 0) },
    Recorded { name: "amd64-6.1-t-menu-3.7-mix", governor: "menu-3.7", decisions: 229, astray: (0, 61) },
    Recorded { name: "amd64-6.1-t-menu-mix", governor: "menu", decisions: 239, astray: (0, 2) },
    Recorded { name: "amd64-6.1-t-teo-mix", governor: "teo", decisions: 227, astray: (0, 0) },
    Recorded { name: "amd64-6.12-menu-ipi", governor: "menu-6.12", decisions: 446, astray: (0, 4) },
    Recorded { name: "amd64-6.12-menu-mix", governor: "menu-6.12", decisions: 501, astray: (0, 4) },
    Recorded { name: "amd64-6.12-menu-pingpong", governor: "menu-6.12", decisions: 828, astray: (0, 20) },
    Recorded { name: "amd64-6.12-menu-predict", governor: "menu-6.12", decisions: 96, astray: (0, 0) },
    Recorded { name: "amd64-6.12-menu-predict-smp", governor: "menu-6.12", decisions: 227, astray: (1, 2) },
    Recorded { name: "amd64-6.12-menu-rates", governor: "menu-6.12", decisions: 1083, astray: (0, 0) },
    Recorded { name: "amd64-6.12-t-deepest-mix", governor: "deepest", decisions: 546, astray: (0, 0) },
    Recorded { name: "amd64-6.12-t-haltpoll-mix", governor: "haltpoll", decisions: 686, astray: (1, 1) },
    Recorded { name: "amd64-6.12-t-ladder-mix", governor: "ladder", decisions: 560, astray: (0, 0) },
    Recorded { name: "amd64-6.12-t-menu-3.7-mix", governor: "menu-3.7", decisions: 560, astray: (0, 67) },
    Recorded { name: "amd64-6.12-t-menu-3.8-mix", governor: "menu-3.8", decisions: 564, astray: (5, 112) },
    Recorded { name: "amd64-6.12-t-menu-6.12-mix", governor: "menu-6.12", decisions: 576, astray: (0, 4) },
    Recorded { name: "amd64-6.12-t-menu-mix", governor: "menu", decisions: 557, astray: (0, 13) },
    Recorded { name: "amd64-6.12-t-teo-6.12-mix", governor: "teo-6.12", decisions: 556, astray: (0, 0) },
    Recorded { name: "amd64-6.12-t-teo-mix", governor: "teo", decisions: 532, astray: (0, 0) },
    Recorded { name: "amd64-6.12-time-menu-ipi", governor: "menu-6.12", decisions: 453, astray: (0, 1) },
    Recorded { name: "amd64-6.12-time-menu-pingpong", governor: "menu-6.12", decisions: 824, astray: (0, 21) },
    Recorded { name: "amd64-6.12-time-menu-predict", governor: "menu-6.12", decisions: 87, astray: (0, 0) },
    Recorded { name: "amd64-6.12-time-menu-predict-smp", governor: "menu-6.12", decisions: 188, astray: (0, 0) },
    Recorded { name: "amd64-6.12-time-menu-rates", governor: "menu-6.12", decisions: 1083, astray: (0, 0) },
    Recorded { name: "amd64-6.12-time-t-teo-6.12-ipi", governor: "teo-6.12", decisions: 449, astray: (0, 0) },
    Recorded { name: "amd64-6.12-time-t-teo-6.12-pingpong", governor: "teo-6.12", decisions: 827, astray: (0, 0) },
    Recorded { name: "amd64-6.12-time-t-teo-6.12-predict", governor: "teo-6.12", decisions: 96, astray: (0, 0) },
    Recorded { name: "amd64-6.12-time-t-teo-6.12-predict-smp", governor: "teo-6.12", decisions: 225, astray: (0, 0) },
    Recorded { name: "amd64-6.12-time-t-teo-6.12-rates", governor: "teo-6.12", decisions: 1089, astray: (0, 0) },
    Recorded { name: "arm64-6.12-menu-ipi", governor: "menu-6.12", decisions: 346, astray: (0, 12) },
    Recorded { name: "arm64-6.12-menu-mix", governor: "menu-6.12", decisions: 509, astray: (0, 2) },
    Recorded { name: "arm64-6.12-menu-pingpong", governor: "menu-6.12", decisions: 819, astray: (0, 4) },
    Recorded { name: "arm64-6.12-menu-predict", governor: "menu-6.12", decisions: 141, astray: (0, 0) },
    Recorded { name: "arm64-6.12-menu-predict-smp", governor: "menu-6.12", decisions: 261, astray: (2, 1) },
    Recorded { name: "arm64-6.12-menu-rates", governor: "menu-6.12", decisions: 1078, astray: (0, 1) },
    Recorded { name: "arm64-6.12-t-ladder-mix", governor: "ladder", decisions: 470, astray: (0, 0) },
    Recorded { name: "arm64-6.12-t-menu-3.8-mix", governor: "menu-3.8", decisions: 520, astray: (0, 2) },
    Recorded { name: "arm64-6.12-t-menu-mix", governor: "menu", decisions: 502, astray: (0, 1) },
    Recorded { name: "arm64-6.12-t-shallowest-mix", governor: "shallowest", decisions: 1145, astray: (0, 0) },
    Recorded { name: "arm64-6.12-t-teo-6.12-ipi", governor: "teo-6.12", decisions: 454, astray: (0, 2) },
    Recorded { name: "arm64-6.12-t-teo-6.12-pingpong", governor: "teo-6.12", decisions: 822, astray: (0, 0) },
    Recorded { name: "arm64-6.12-t-teo-6.12-predict", governor: "teo-6.12", decisions: 169, astray: (0, 0) },
    Recorded { name: "arm64-6.12-t-teo-6.12-predict-smp", governor: "teo-6.12", decisions: 225, astray: (0, 0) },
    Recorded { name: "arm64-6.12-t-teo-6.12-rates", governor: "teo-6.12", decisions: 1059, astray: (0, 0) },
    Recorded { name: "arm64-6.12-t-teo-mix", governor: "teo", decisions: 503, astray: (0, 0) },
];

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/guest")
}

fn verified(name: &str, use_probes: bool) -> Fidelity {
    let folder = corpus().join(name);
    let snapshot = |file| torpor_machine::counters::read(&folder.join(file)).unwrap();
    let before = folder.join("sysfs-before.txt");
    let request = VerifyRequest {
        trace: folder.join("trace.dat.gz"),
        platform: torpor_machine::platform::resolve(before.to_str().unwrap()).unwrap(),
        governors: vec![],
        counters: Some((snapshot("sysfs-before.txt"), snapshot("sysfs-after.txt"))),
        options: VerifyOptions { probes: use_probes, fit: true, ..VerifyOptions::default() },
    };
    verify(&request, &Catalog::new(Default::default()), &Unwatched).unwrap()
}

#[test]
fn every_recording_is_in_the_table() {
    let mut found: Vec<String> = std::fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    found.sort();
    let mut listed: Vec<&str> = CORPUS.iter().map(|recorded| recorded.name).collect();
    listed.sort();
    assert_eq!(found, listed);
}

#[test]
fn each_governor_is_found_again() {
    for &Recorded { name, governor, decisions, astray } in CORPUS {
        assert!(astray.0 * 100 <= decisions, "{name}: less than 99 % agree");
        for (use_probes, astray) in [(true, astray.0), (false, astray.1)] {
            let fidelity = verified(name, use_probes);
            let own = fidelity.governors.iter().find(|g| g.governor == governor).unwrap();
            let compared = &fidelity.decisions;
            let seen = (compared.compared - compared.hidden, compared.compared - own.agreeing);
            assert_eq!(seen, (decisions, astray), "{name}, probes: {use_probes}");
            assert_eq!((compared.resets, compared.before_reset), (1, 0));
        }
    }
}

/// While every CPU was kept from sleeping at the recording's edges, none of its sleeps was cut.
#[test]
fn counters_equal_the_kernels() {
    for recorded in CORPUS {
        for c in verified(recorded.name, true).counters {
            let sysfs = c.sysfs.unwrap();
            assert_eq!(sysfs.rejected, Some(0), "{}: {c:?}", recorded.name);
            assert_eq!(sysfs.usage, Some(c.usage), "{}: {c:?}", recorded.name);
            assert_eq!(sysfs.above, Some(c.miss_above), "{}: {c:?}", recorded.name);
            assert_eq!(sysfs.below, Some(c.miss_below), "{}: {c:?}", recorded.name);
            // A sleep that ends within a microsecond of the threshold may fall on either side.
            let off = c.above.abs_diff(c.miss_above) + c.below.abs_diff(c.miss_below);
            assert!(off <= 1, "{}: {c:?}", recorded.name);
            // Each sleep's time is known to a microsecond or two (residency-overhead).
            let off_us = c.time_us.abs_diff(sysfs.time_us.unwrap());
            assert!(off_us <= 1 + c.usage * 3 / 2, "{}: {c:?}", recorded.name);
        }
    }
}
