// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Packets about the recording and the machine.

use super::wire::{Fields, Value};
use crate::builder::{Builder, CPUS_MAX};
use crate::loss;
use crate::model::Meta;
use std::collections::BTreeMap;

/// Losses counted by the recorder. The counts are running totals, so the last report counts.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    at_start: BTreeMap<u64, CpuLosses>,
    at_end: BTreeMap<u64, CpuLosses>,
    parse_errors: u64,
    lost_chunks: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct CpuLosses {
    overrun: u64,
    commit_overrun: u64,
    dropped: u64,
}

impl Stats {
    /// Reads `FtraceStats`: phase = 1 (1 start, 2 end), cpu_stats = 2, ftrace_parse_errors = 9.
    pub(crate) fn ftrace(&mut self, message: &[u8]) {
        let mut phase = 0;
        let mut cpus = BTreeMap::new();
        let mut parse_errors = 0;
        for (number, value) in Fields::new(message) {
            match (number, value) {
                (1, Value::Varint(number)) => phase = number,
                (2, Value::Bytes(stats)) => {
                    let (cpu, losses) = cpu_losses(stats);
                    cpus.insert(cpu, losses);
                }
                (9, _) => parse_errors = u64::saturating_add(parse_errors, 1),
                _ => {}
            }
        }
        if phase == 1 {
            self.at_start = cpus;
        } else {
            self.at_end = cpus;
            self.parse_errors = parse_errors;
        }
    }

    /// Reads `TraceStats.buffer_stats` = 1: { chunks_overwritten = 3, chunks_discarded = 18 }.
    pub(crate) fn trace(&mut self, message: &[u8]) {
        self.lost_chunks = 0;
        for (number, value) in Fields::new(message) {
            if let (1, Value::Bytes(buffer)) = (number, value) {
                for (number, value) in Fields::new(buffer) {
                    if let (3 | 18, Some(chunks)) = (number, value.number()) {
                        self.lost_chunks = self.lost_chunks.saturating_add(chunks);
                    }
                }
            }
        }
    }

    pub(crate) fn finish(self, out: &mut Builder) {
        for (cpu, end) in &self.at_end {
            // The kernel counts from boot; the difference belongs to this recording.
            let start = self.at_start.get(cpu).copied().unwrap_or_default();
            out.lose(&loss::FTRACE_OVERRUN, end.overrun.saturating_sub(start.overrun));
            out.lose(&loss::FTRACE_DROPPED, end.dropped.saturating_sub(start.dropped));
            let commit_overrun = end.commit_overrun.saturating_sub(start.commit_overrun);
            out.lose(&loss::FTRACE_COMMIT_OVERRUN, commit_overrun);
        }
        out.lose(&loss::FTRACE_PARSE_ERRORS, self.parse_errors);
        out.lose(&loss::CHUNKS_LOST, self.lost_chunks);
    }
}

fn cpu_losses(stats: &[u8]) -> (u64, CpuLosses) {
    let (mut cpu, mut losses) = (0, CpuLosses::default());
    for (number, value) in Fields::new(stats) {
        let Some(value) = value.number() else {
            continue;
        };
        match number {
            1 => cpu = value,
            3 => losses.overrun = value,
            4 => losses.commit_overrun = value,
            8 => losses.dropped = value,
            _ => {}
        }
    }
    (cpu, losses)
}

/// Reads `SystemInfo`: utsname = 1 { release = 3, machine = 4 }, android_build_fingerprint = 2,
/// num_cpus = 8, android_soc_model = 9.
pub(crate) fn system_info(message: &[u8], meta: &mut Meta) {
    let mut fingerprint = None;
    let mut soc = None;
    for (number, value) in Fields::new(message) {
        match (number, value) {
            (1, Value::Bytes(utsname)) => {
                for (number, value) in Fields::new(utsname) {
                    match (number, value) {
                        (3, Value::Bytes(release)) => meta.kernel_release = text(release),
                        (4, Value::Bytes(machine)) => meta.arch = text(machine),
                        _ => {}
                    }
                }
            }
            (2, Value::Bytes(print)) => fingerprint = text(print),
            (9, Value::Bytes(model)) => soc = text(model),
            (8, Value::Varint(cpus)) => note_cpus(cpus, meta),
            _ => {}
        }
    }
    // brand/product/device:release/...: the part before the colon names the machine.
    let product = fingerprint.and_then(|print| {
        let (product, _) = print.split_once(':')?;
        (product.matches('/').count() == 2).then(|| product.to_owned())
    });
    meta.machine = match (product, soc) {
        (Some(product), Some(soc)) => Some(format!("{product} ({soc})")),
        (product, soc) => product.or(soc),
    };
}

/// Reads `CpuInfo.cpus` = 1, one per CPU.
pub(crate) fn cpu_info(message: &[u8], meta: &mut Meta) {
    let cpus = Fields::new(message).filter(|(number, _)| *number == 1).count();
    note_cpus(cpus as u64, meta);
}

fn note_cpus(cpus: u64, meta: &mut Meta) {
    meta.cpu_count = meta.cpu_count.max(cpus.min(CPUS_MAX.into()) as u32);
}

fn text(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned())
}
