// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The project's own recordings of guests (tests/data/guest), verified: each governor that ran is
//! found again, and our counters are the kernel's. What each recording reached when it was made
//! stands here; a change that loses a decision must say why.

use std::path::{Path, PathBuf};
use torpor_engine::Unwatched;
use torpor_engine::verify::{Fidelity, VerifyOptions, VerifyRequest, verify};
use torpor_governor::Catalog;

struct Recorded {
    name: &'static str,
    /// What ran there, as it is called here.
    governor: &'static str,
    decisions: u64,
    /// Decisions that do not agree: with the answers of probes, and by tracepoints alone.
    astray: (u64, u64),
}

#[rustfmt::skip]
const CORPUS: &[Recorded] = &[
    //CORPUS
];

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/guest")
}

fn verified(name: &str, use_probes: bool) -> Fidelity {
    let folder = corpus().join(name);
    let snapshot = |file| torpor_counters::read(&folder.join(file)).unwrap();
    let before = folder.join("sysfs-before.txt");
    let request = VerifyRequest {
        trace: folder.join("trace.dat.gz"),
        platform: torpor_platform::resolve(before.to_str().unwrap()).unwrap(),
        governors: vec![],
        counters: Some((snapshot("sysfs-before.txt"), snapshot("sysfs-after.txt"))),
        options: VerifyOptions { use_probes, ..VerifyOptions::default() },
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
    for recorded in CORPUS {
        for (use_probes, astray) in [(true, recorded.astray.0), (false, recorded.astray.1)] {
            let fidelity = verified(recorded.name, use_probes);
            let is_own = |g: &&_| -> bool {
                let g: &torpor_engine::verify::GovernorFidelity = g;
                g.governor == recorded.governor
            };
            let own = fidelity.governors.iter().find(is_own).unwrap();
            let seen = (fidelity.decisions.compared, fidelity.decisions.compared - own.agreeing);
            let entered = recorded.decisions;
            assert_eq!(seen, (entered, astray), "{} probes: {use_probes}", recorded.name);
            assert!(astray * 100 <= entered, "{}: less than 99 % agree", recorded.name);
            assert_eq!((fidelity.decisions.resets, fidelity.decisions.before_reset), (1, 0));
        }
    }
}

/// While every CPU was kept from sleeping at the recording's edges, none of its sleeps was cut.
#[test]
fn our_counters_are_the_kernels_to_the_last_sleep() {
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
