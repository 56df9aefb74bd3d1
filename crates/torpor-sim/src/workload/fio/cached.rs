// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Jobs with buffered IO: hits, read-ahead, writes that only copy.
//!
//! FIDELITY(io-cache): a random read hits with the cached share of the file; only fsync writes
//! back.

use super::cost::{Cost, Path, read_ahead};
use super::{Job, Limits, SERVICE};
use crate::workload::{Cache, IoWait, Mix, Op, Transfer, TransferKind};
use torpor_machine::units::Duration;

/// `read_ahead_kb`, as block devices have it by default.
const WINDOW: u32 = 128 << 10;

const LOOK: &str = "its look at the page cache";
const READ: &str = "its read from the page cache";
const WRITE: &str = "its write to the page cache";
const AHEAD: &str = "its read-ahead";

/// Writes the program of random reads and mixes. A miss goes to the device.
pub(super) fn at_random(
    job: &mut Job<'_>,
    limits: &Limits,
    mix: Option<Mix>,
    cache: Option<Cache>,
) {
    let fill = job.push("ready to submit", Op::Goto(0));
    let lookup = job.push(LOOK, Op::Goto(0));
    let miss = Cost::of(job.engine, Path::Miss, job.bytes);
    job.work_to_submit("its submission", &miss);
    let transfer = Transfer { kind: TransferKind::Read, bytes: job.bytes, in_order: false };
    let (device, next) = (job.device, job.here() + 1);
    let submit = Op::IoSubmit { device, stream: SERVICE, transfer, mix: None, next };
    job.push("its submission", submit);
    job.push("its rate", job.pace(fill));

    let hit = job.here();
    job.at_once(READ, Path::Hit);
    let to_after = job.push(READ, Op::Goto(0));
    let write = job.here();
    job.at_once(WRITE, Path::Write);
    job.steps[to_after].op = Op::Goto(job.here());
    after_each(job, fill, mix.map_or(0.0, |mix| 1.0 - mix.reads));

    let wait = job.push("its wait for a result", Op::IoWait(job.wait));
    job.work_to_complete("its completion", &miss);
    job.think();
    job.steps[fill].op = limits.fill(wait);
    let stream = job.stream();
    job.steps[lookup].op = Op::IoLookup { mix, cache, stream, write, hit };
}

/// Writes the program of sequential reads: a window is read while the previous one is copied.
pub(super) fn in_order(job: &mut Job<'_>, limits: &Limits, cache: Option<Cache>) {
    let per_window = (WINDOW / job.bytes).max(1);
    let bytes = job.bytes * per_window;
    let lookup = job.push(LOOK, Op::Goto(0));
    let fill = job.push(AHEAD, Op::Goto(0));
    job.work(AHEAD, read_ahead(bytes), Duration::ZERO);
    let transfer = Transfer { kind: TransferKind::ReadAhead, bytes, in_order: true };
    let device = job.device;
    job.push(AHEAD, Op::IoSubmit { device, stream: SERVICE, transfer, mix: None, next: fill });
    let wait = job.push(AHEAD, Op::IoWait(IoWait::IoSchedule));
    job.steps[fill].op = Op::IoFill { iodepth: 2, runtime: None, number_ios: None, wait };
    let mut ends = Vec::new();
    // Copies of a window, and hits of an earlier pass.
    let mut copies = |job: &mut Job<'_>| {
        ends.push(job.push("the end of its time", Op::Goto(0)));
        job.at_once(READ, Path::Hit);
        job.think();
        let next = job.here() + 1;
        job.push("its rate", job.pace(next));
    };
    let begin = job.push(READ, Op::Goto(0));
    copies(job);
    job.push(READ, Op::LoopEnd { begin: begin + 1 });
    job.steps[begin].op = Op::LoopBegin { times: per_window.into(), end: job.here() };
    job.depth = 1;
    job.push(READ, Op::Goto(lookup));
    let hit = job.here();
    copies(job);
    job.push(READ, Op::Goto(lookup));
    let stream = job.stream();
    job.steps[lookup].op = Op::IoLookup { mix: None, cache, stream, write: hit, hit };
    let drain = drain(job);
    for end in ends {
        job.steps[end].op = limits.end(drain);
    }
}

/// Writes the program of writes, in any order.
pub(super) fn writes(job: &mut Job<'_>, limits: &Limits) {
    let begin = job.push("the end of its time", Op::Goto(0));
    job.at_once(WRITE, Path::Write);
    after_each(job, begin, 1.0);
    let drain = drain(job);
    job.steps[begin].op = limits.end(drain);
}

/// Adds the think time, the fsync and the rate; `written` is the share of IOs that write.
fn after_each(job: &mut Job<'_>, first: usize, written: f64) {
    job.think();
    if let Some(count) = job.fsync {
        let turn = job.push("its fsync", Op::Goto(0));
        let dirty = (count as f64 * written).round() as u64;
        let submit = Cost::of("psync", Path::Direct, job.bytes).submit;
        let (stream, device) = (job.stream(), job.device);
        let transfer = Transfer { kind: TransferKind::WriteBack, bytes: job.bytes, in_order: true };
        job.repeat("its write-back", dirty, |job| {
            job.work("its write-back", submit, Duration::ZERO);
            let next = job.here() + 1;
            job.push("its write-back", Op::IoSubmit { device, stream, transfer, mix: None, next });
        });
        job.repeat("its write-back", dirty, |job| {
            job.push("its write-back", Op::IoWait(IoWait::IoSchedule));
        });
        job.send("its fsync", TransferKind::Flush, 0);
        job.push("its fsync", Op::IoWait(IoWait::IoSchedule));
        job.steps[turn].op = Op::IoEvery { count, next: job.here() };
    }
    job.push("its rate", job.pace(first));
}

/// Adds the end of a job, after its last request, and returns it.
fn drain(job: &mut Job<'_>) -> usize {
    let drain = job.here();
    let wait = drain + 1;
    job.push("its end", Op::IoFill { iodepth: 1, runtime: None, number_ios: Some(0), wait });
    job.push("its end", Op::IoWait(IoWait::IoSchedule));
    job.push("its end", Op::Goto(drain));
    drain
}
