// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Guarantees of every reader, whatever the bytes.

use torpor_trace::{Event, EventKind, read_bytes};
use torpor_machine::units::{Duration, Instant};

/// Events after a gap of more than 30 days are damage, and left out.
const GAP_MAX: Duration = Duration(30 * 86_400 * 1_000_000_000);

/// Reads the bytes and checks what the engine relies on.
///
/// # Panics
/// If the reader broke a promise, which is what a fuzzer looks for.
pub fn read_is_sound(bytes: &[u8]) {
    let Ok(trace) = read_bytes("fuzz", bytes) else {
        return;
    };
    assert!(trace.events.is_sorted_by_key(|event| event.time));
    for event in &trace.events {
        assert!(event.time >= Instant(0) && event.time < Instant::NEVER);
        assert!(event.cpu.0 < trace.meta.cpu_count);
        if let EventKind::SchedWaking { target_cpu, .. }
        | EventKind::SchedWakeup { target_cpu, .. }
        | EventKind::SchedWakeupNew { target_cpu, .. }
        | EventKind::IpiSend { target_cpu, .. } =
            event.kind
        {
            assert!(target_cpu.0 < trace.meta.cpu_count);
        }
    }
    let is_near = |pair: &[Event]| pair[1].time.since(pair[0].time) <= GAP_MAX;
    assert!(trace.events.windows(2).all(is_near));
    assert_eq!(trace.meta.sha256.len(), 64);
}
