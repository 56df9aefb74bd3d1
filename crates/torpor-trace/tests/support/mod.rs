// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Shared by the tests of this crate.
#![allow(dead_code)] // Each test takes what it needs.

pub mod dat;
pub mod dat_sample;
pub mod perf;
pub mod proto;

use std::path::{Path, PathBuf};
use torpor_machine::units::{Duration, Instant};
use torpor_trace::{EventKind, Trace, TraceError};

/// A recording next to the project, or a line that says why the test did not run.
pub fn shared_trace(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("../shared/traces").join(name);
    if path.exists() {
        return Some(path);
    }
    println!("not run: ../shared/traces is absent");
    None
}

/// A recording of the project's own.
pub fn own_trace(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Checks what holds for any outcome of reading.
pub fn is_sound(outcome: &Result<Trace, TraceError>) -> Result<(), String> {
    let trace = match outcome {
        Ok(trace) => trace,
        Err(error) if error.to_string().contains("hint:") => return Ok(()),
        Err(error) => return Err(format!("no hint: {error}")),
    };
    if !trace.events.is_sorted_by_key(|event| event.time) {
        return Err("events out of order".to_owned());
    }
    // Events after a gap of more than 30 days are damage.
    const GAP_MAX: Duration = Duration(30 * 86_400 * 1_000_000_000);
    if trace.events.windows(2).any(|pair| pair[1].time.since(pair[0].time) > GAP_MAX) {
        return Err("a gap of more than 30 days".to_owned());
    }
    let is_there = |cpu: torpor_machine::units::CpuId| cpu.0 < trace.meta.cpu_count;
    let unsound = trace.events.iter().find(|event| {
        let target = match event.kind {
            EventKind::SchedWaking { target_cpu, .. }
            | EventKind::SchedWakeup { target_cpu, .. }
            | EventKind::SchedWakeupNew { target_cpu, .. }
            | EventKind::IpiSend { target_cpu, .. } => target_cpu,
            _ => event.cpu,
        };
        let in_time = event.time >= Instant(0) && event.time < Instant::NEVER;
        !in_time || !is_there(event.cpu) || !is_there(target)
    });
    unsound.map_or(Ok(()), |event| Err(format!("{event:?} of {} CPUs", trace.meta.cpu_count)))
}
