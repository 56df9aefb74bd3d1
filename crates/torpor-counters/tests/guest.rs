// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Dumps of real kernels, which are not part of the project: what they are known to hold.

use std::fs;
use std::path::PathBuf;
use torpor_counters::{Snapshot, delta, read};

fn dumps() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/guest");
    if !folder.is_dir() {
        println!("not run: shared/traces is absent");
        return None;
    }
    Some(folder)
}

/// Each has a list of counts by its maker: `cpu0 C1 sysfs usage 3 time 24 above 0 below 0 | …`.
#[test]
fn counts_of_recorded_kernels_are_those_that_their_maker_found() {
    let Some(folder) = dumps() else { return };
    let mut compared = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(list) = fs::read_to_string(folder.join("trace-vs-sysfs.txt")) else { continue };
        let snapshots = ["before", "after"].map(|when| sound(&folder, when));
        let delta = delta(&snapshots[0], &snapshots[1]);
        assert!(delta.notes.is_empty(), "{:?}", delta.notes);
        assert!((9_000_000_000..20_000_000_000).contains(&delta.elapsed_ns.unwrap()));
        for line in list.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let cpu = delta.cpus.iter().find(|cpu| cpu.cpu.to_string() == words[0]).unwrap();
            let state = cpu.states.iter().find(|state| state.name == words[1]).unwrap();
            let counts = [state.usage, state.time_us, state.above, state.below];
            let listed = [4, 6, 8, 10].map(|at| words[at].parse().ok());
            assert_eq!(counts, listed, "{}: {line}", folder.display());
            compared += 1;
        }
    }
    assert_eq!(compared, 22);
}

fn sound(folder: &std::path::Path, when: &str) -> Snapshot {
    let snapshot = read(&folder.join(format!("sysfs-{when}.txt"))).unwrap();
    assert!(snapshot.problems.is_empty() && snapshot.notes.is_empty(), "{snapshot:?}");
    snapshot
}

/// Two of the recordings lost what was counted at their end: paths without values.
#[test]
fn a_dump_without_values_is_read_and_tells_so() {
    let Some(folder) = dumps() else { return };
    for name in ["x86-6.12-menu-probes", "x86-6.12-menu-rich"] {
        let after = read(&folder.join(name).join("sysfs-after.txt")).unwrap();
        assert_eq!(after.problems.len(), 80);
        assert!(after.problems.iter().all(|problem| problem.reason == "is empty"));
        let delta = delta(&sound(&folder.join(name), "before"), &after);
        assert_eq!(delta.cpus.len(), 2);
        assert!(delta.cpus.iter().flat_map(|cpu| &cpu.states).all(|s| s.usage.is_none()));
        assert_eq!(delta.notes.len(), 4, "one a state: {:?}", delta.notes);
    }
}
