// SPDX-License-Identifier: MIT OR GPL-2.0-only
#![no_main]

use libfuzzer_sys::fuzz_target;
use torpor_machine::counters::{Dump, delta, read_bytes, read_dump_bytes, since_boot, to_json};

fuzz_target!(|bytes: &[u8]| {
    let snapshot = match read_dump_bytes("fuzz", bytes) {
        Ok(Dump::Snapshot(snapshot)) => snapshot,
        Ok(Dump::Turbostat(log)) => {
            assert!(log.elapsed_ns.is_none_or(|ns| ns >= 0));
            assert!(log.cpus.iter().all(|cpu| cpu.states.len() == cpu.shares.len()));
            return;
        }
        Err(error) => return assert!(error.to_string().contains("hint: ")),
    };
    // A snapshot can be saved and read back.
    let again = read_bytes("saved", to_json(&snapshot).as_bytes()).expect("a saved snapshot");
    assert_eq!(*snapshot, again);
    // The difference between a snapshot and itself is zero.
    let none = delta(&snapshot, &again);
    for state in none.cpus.iter().flat_map(|cpu| &cpu.states) {
        assert!([state.usage, state.above, state.rejected].into_iter().flatten().all(|n| n == 0));
    }
    assert_eq!(since_boot(&snapshot).cpus.len(), none.cpus.len());
});
