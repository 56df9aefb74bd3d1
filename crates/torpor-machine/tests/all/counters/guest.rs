// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Dumps of real kernels: of the project's guests, and some that are not part of the project.

use std::fs;
use std::path::PathBuf;
use torpor_machine::counters::{Snapshot, delta, read, read_bytes};

/// Before and after each of the project's recordings.
fn own() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/guest");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

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
fn counts_equal_the_original_kernels_counters() {
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

/// A dump taken while the machine went down: paths without values.
#[test]
fn dump_without_values_is_noted() {
    let folder = own().remove(0);
    let text = fs::read_to_string(folder.join("sysfs-after.txt")).unwrap();
    let counted = ["usage", "time", "above", "below", "rejected"];
    let mut emptied = 0;
    let lines = text.lines().map(|line| {
        let path = line.split(':').next().unwrap_or_default();
        if !counted.iter().any(|name| path.ends_with(&format!("/{name}"))) {
            return format!("{line}\n");
        }
        emptied += 1;
        format!("{path}:\n")
    });
    let text: String = lines.collect();
    assert!(emptied >= 5, "{text}");
    let after = read_bytes("emptied", text.as_bytes()).unwrap();
    assert_eq!(after.problems.len(), emptied);
    assert!(after.problems.iter().all(|problem| problem.reason == "is empty"));
    let delta = delta(&sound(&folder, "before"), &after);
    assert!(delta.cpus.iter().flat_map(|cpu| &cpu.states).all(|s| s.usage.is_none()));
    let found: Vec<&str> = delta.notes.iter().map(|note| note.text.as_str()).collect();
    assert_eq!(found, ["no value of usage, time, above, below, rejected"]);
}

/// Cut at every 1,000th byte, and with 1,000 single bits flipped: an error or a loss, no panic.
#[test]
fn damaged_dumps_are_reported() {
    let mut tried = 0;
    for folder in own().into_iter().step_by(8) {
        let whole = fs::read(folder.join("sysfs-after.txt")).unwrap();
        for end in (0..whole.len()).step_by(1000) {
            drop(read_bytes("cut", &whole[..end]));
        }
        // A stride that shares no factor with 8 meets every bit's place.
        let bits = whole.len() * 8;
        for flip in 0..1000 {
            let bit = (flip * ((bits / 1000) | 1)) % bits;
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            match read_bytes("flipped", &bytes) {
                Ok(snapshot) => assert!(!snapshot.cpus.is_empty()),
                Err(error) => assert!(error.to_string().contains("hint: ")),
            }
            tried += 1;
        }
    }
    assert!(tried >= 4000, "{tried}");
}
