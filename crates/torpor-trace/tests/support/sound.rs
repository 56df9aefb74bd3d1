// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Guarantees of every reader for any input, for tests and fuzz targets.

use torpor_machine::units::{Duration, Instant};
use torpor_trace::{Event, Trace, TraceError};

/// Longest gap between two events; those beyond it are dropped as damage.
const GAP_MAX: Duration = Duration(30 * 86_400 * 1_000_000_000);

/// Checks the result of reading any bytes: an error with a hint, or ordered events in range.
///
/// # Panics
/// If the reader broke a guarantee.
pub fn check(outcome: &Result<Trace, TraceError>) {
    let trace = match outcome {
        Ok(trace) => trace,
        Err(error) => return assert!(error.to_string().contains("hint:"), "{error}"),
    };
    for event in &trace.events {
        assert!(event.time >= Instant(0) && event.time < Instant::NEVER, "{event:?}");
        let target = event.kind.target_cpu().unwrap_or(event.cpu);
        assert!(event.cpu.max(target).0 < trace.meta.cpu_count, "{event:?}");
    }
    let follows = |pair: &[Event]| {
        pair[0].time <= pair[1].time && pair[1].time.since(pair[0].time) <= GAP_MAX
    };
    assert!(trace.events.windows(2).all(follows), "events out of order, or a gap of 30 days");
    assert_eq!(trace.meta.sha256.len(), 64);
}
