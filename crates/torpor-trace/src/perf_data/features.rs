// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Feature sections: facts about the machine and the recorder.

use crate::builder::CPUS_MAX;
use crate::cursor::Cursor;
use crate::model::Meta;

pub(crate) const TRACING_DATA: u64 = 1;
const OS_RELEASE: u64 = 4;
const ARCH: u64 = 6;
const NR_CPUS: u64 = 7;
const CPU_DESC: u64 = 8;

/// Adds a feature to the trace's metadata.
pub(crate) fn note(feature: u64, bytes: &[u8], meta: &mut Meta) {
    match feature {
        OS_RELEASE => meta.kernel_release = text(bytes),
        ARCH => meta.arch = text(bytes),
        CPU_DESC => meta.machine = text(bytes),
        // CPUs the machine can have, CPUs online.
        NR_CPUS => {
            if let Some(available) = Cursor::new(bytes).u32() {
                meta.cpu_count = meta.cpu_count.max(available.min(CPUS_MAX));
            }
        }
        _ => {}
    }
}

/// Parses a length and that many bytes, padded with NULs.
fn text(bytes: &[u8]) -> Option<String> {
    let mut cursor = Cursor::new(bytes);
    let length = cursor.u32()?;
    let text = cursor.bytes(length.into())?;
    let text = String::from_utf8_lossy(text);
    let text = text.trim_end_matches('\0').trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns the name in the kernel's `trace_clock` of the clock of `perf record -k`.
pub(crate) fn clock_name(clock_id: Option<u32>) -> &'static str {
    match clock_id {
        None => "perf",
        Some(0) => "realtime",
        Some(1) => "mono",
        Some(4) => "mono_raw",
        Some(7) => "boot",
        Some(11) => "tai",
        Some(_) => "unknown",
    }
}
