// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Jobs in fio's words, made into tasks.
//!
//! A job keeps `iodepth` requests under way: it submits one after another until there are as many,
//! then takes one result and submits the next. That is fio with its defaults, `iodepth_batch` 1,
//! `iodepth_batch_complete_min` 1 and `iodepth_low` as `iodepth`: each submission and each result
//! is a system call of its own.
//!
//! FIDELITY(io-work): an IO takes the same work however many are under way.

use super::names::Names;
use super::read::{clamp, from_us};
use super::{Dist, Draw, IoWait, Mix, Op, Step, TaskKind, Transfer, TransferKind};
use torpor_toml::{Report, Table};
use torpor_units::{CpuId, Duration};

pub(super) const ENGINES: &[&str] = &["psync", "libaio", "io_uring"];
/// `IORING_MAX_ENTRIES`.
pub(super) const IODEPTH_MAX: f64 = 32_768.0;
pub(super) const BLOCK_DEFAULT: u32 = 4096;
/// The block size of O_DIRECT.
const SECTOR: u64 = 512;
const BLOCK_MAX: u64 = 1 << 30;

/// A task's work for one IO, submission and completion, where a job says nothing of it. Chosen:
/// about 3 us in all on a fast core, more for `libaio`, which takes two system calls, and less for
/// `io_uring`, which shares its rings with the kernel.
fn costs(engine: &str) -> (Duration, Duration) {
    match engine {
        "psync" => (Duration(2_000), Duration(1_000)),
        "libaio" => (Duration(2_200), Duration(1_300)),
        _ => (Duration(1_800), Duration(1_000)),
    }
}

pub(super) fn read(report: &mut Report, table: &Table, names: &mut Names) -> Option<TaskKind> {
    let engine = if table.has("ioengine") { table.text("ioengine")? } else { "psync" };
    let iodepth = table.number("iodepth").unwrap_or(1.0) as u32;
    check(report, table, engine, iodepth);
    // The page cache has no asynchronous reads for libaio: each waits in `io_schedule()`.
    let waits_at_once = engine == "libaio" && table.bool("direct") == Some(false);
    let iodepth = if waits_at_once { 1 } else { iodepth };
    let transfer = transfer(report, table);
    let device = names.device(table, "device", table.text("device")?);
    let (to_submit, to_complete) = costs(engine);
    let mut job = Job { steps: Vec::new(), draws: 0, timers: 0 };
    let submit = job.work(report, table, "submit_us", device, to_submit)?;
    let complete = job.work(report, table, "complete_us", device, to_complete)?;
    let service = job.stream();
    let wait = match engine {
        "psync" => IoWait::IoSchedule,
        "libaio" if waits_at_once => IoWait::IoSchedule,
        "libaio" => IoWait::ReadEvents,
        _ => IoWait::CqRing { iowait: table.bool("iowait").unwrap_or(true) },
    };
    let runtime = table.number("runtime").map(|s| from_us(s * 1e6));
    let number_ios = table.number("number_ios").map(|n| n as u64);
    let mix = mix(report, table, &mut job);
    let pace = table.number("rate_iops").map(|rate| Duration((1e9 / rate).round() as i64));
    let wait_at = 3 + usize::from(pace.is_some());
    job.push("ready to submit", Op::IoFill { iodepth, runtime, number_ios, wait: wait_at });
    job.push("its submission", submit);
    let next = if pace.is_some() { 3 } else { 0 };
    let submit = Op::IoSubmit { device, stream: service, transfer: transfer?, mix, next };
    job.push("its submission", submit);
    if let Some(period) = pace {
        // Its wait for the next request's time ends where it may submit again.
        job.timers = 1;
        job.push("its rate", Op::IoPace { period });
    }
    job.push("its wait for a result", Op::IoWait(wait));
    job.push("its completion", complete);
    if let Some(us) = table.number("thinktime_us").filter(|us| *us > 0.0) {
        let stream = job.stream();
        job.push("its think time", Op::Sleep(Draw { dist: Dist::Constant(from_us(us)), stream }));
    }
    if let Some(every) = table.number("fsync").filter(|n| *n > 0.0) {
        job.push("its fsync", Op::IoEvery(every as u64));
        let transfer = Transfer { kind: TransferKind::Flush, bytes: 0, in_order: true };
        let (stream, next) = (job.stream(), job.steps.len() + 1);
        job.push("its fsync", Op::IoSubmit { device, stream, transfer, mix: None, next });
        job.push("its fsync", Op::IoWait(IoWait::IoSchedule));
    }
    Some(TaskKind {
        name: table.text("name")?.to_owned(),
        count: table.number("numjobs").unwrap_or(1.0) as u32,
        cpus: table.cpus("cpus_allowed").map(<[CpuId]>::to_vec),
        start: from_us(1e6 * table.number("startdelay").unwrap_or(0.0)),
        stagger: Duration::ZERO,
        each_cpu: false,
        activity: None,
        timer_slack: Duration::ZERO,
        weight: super::read::WEIGHT_DEFAULT as u32,
        clamp: clamp(report, table),
        groups: 1,
        repeat: None,
        draws: job.draws,
        depth: 0,
        timers: job.timers,
        program: job.steps,
    })
}

struct Job {
    steps: Vec<Step>,
    draws: usize,
    timers: usize,
}

/// Which requests read, where both kinds are asked for.
fn mix(report: &mut Report, table: &Table, job: &mut Job) -> Option<Mix> {
    let is_mixed = matches!(table.text("rw"), Some("rw" | "readwrite" | "randrw"));
    if table.has("rwmixread") && !is_mixed {
        let mut finding = table.finding("rwmixread", "there is one kind of request".to_owned());
        finding.allowed = Some("together with `rw = \"randrw\"`, rw or readwrite".to_owned());
        report.push(finding);
    }
    is_mixed.then(|| Mix {
        reads: table.number("rwmixread").unwrap_or(50.0) / 100.0,
        stream: job.stream(),
    })
}

impl Job {
    fn stream(&mut self) -> usize {
        self.draws += 1;
        self.draws - 1
    }

    fn push(&mut self, place: &str, op: Op) {
        self.steps.push(Step { op, place: place.to_owned() });
    }

    fn work(
        &mut self,
        report: &mut Report,
        table: &Table,
        key: &str,
        device: usize,
        default: Duration,
    ) -> Option<Op> {
        let stream = self.stream();
        if !table.has(key) {
            return Some(Op::IoWork { device, work: default });
        }
        Some(Op::Run(Draw { dist: super::read::dist(report, table, key)?, stream }))
    }
}

fn check(report: &mut Report, table: &Table, engine: &str, iodepth: u32) {
    if iodepth == 0 {
        let mut finding = table.finding("iodepth", "a job without requests".to_owned());
        finding.allowed = Some(format!("1 to {IODEPTH_MAX}"));
        report.push(finding);
    }
    if engine == "psync" && iodepth > 1 {
        let mut finding = table.finding("iodepth", "`psync` has one request at a time".to_owned());
        finding.allowed = Some("1 with psync; more with libaio and io_uring".to_owned());
        finding.hint = Some("`numjobs` makes more jobs".to_owned());
        report.push(finding);
    }
    if table.has("iowait") && engine != "io_uring" {
        let mut finding = table.finding("iowait", format!("`{engine}` does not ask for it"));
        finding.allowed = Some("together with `ioengine = \"io_uring\"`".to_owned());
        report.push(finding);
    }
    for (key, message) in
        [("number_ios", "a job without requests"), ("rate_iops", "a job that never asks")]
    {
        if table.number(key) == Some(0.0) {
            let mut finding = table.finding(key, message.to_owned());
            finding.hint = Some("leave it out".to_owned());
            report.push(finding);
        }
    }
    if table.number("numjobs") == Some(0.0) {
        let mut finding = table.finding("numjobs", "no job at all".to_owned());
        finding.allowed = Some("1 or more".to_owned());
        report.push(finding);
    }
}

/// What `rw` and `bs` say; without them a random read of 4 KiB.
pub(super) fn transfer(report: &mut Report, table: &Table) -> Option<Transfer> {
    let kind = match table.text("rw") {
        Some("write" | "randwrite") => TransferKind::Write,
        _ => TransferKind::Read,
    };
    let bytes = if table.has("bs") { block_size(report, table)? } else { BLOCK_DEFAULT };
    let in_order = matches!(table.text("rw"), Some("read" | "write" | "rw" | "readwrite"));
    Some(Transfer { kind, bytes, in_order })
}

/// As fio reads sizes: `k` and `m` are powers of 1024.
fn block_size(report: &mut Report, table: &Table) -> Option<u32> {
    let lower = table.text("bs")?.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &lower[digits.len()..] {
        "" | "b" => Some(1),
        "k" | "kb" | "kib" => Some(1 << 10),
        "m" | "mb" | "mib" => Some(1 << 20),
        _ => None,
    };
    let bytes = factor.and_then(|factor| digits.parse::<u64>().ok()?.checked_mul(factor));
    let bytes = bytes.filter(|b| (1..=BLOCK_MAX).contains(b) && b % SECTOR == 0);
    if bytes.is_none() {
        let mut finding = table.finding("bs", "not a size of direct IO".to_owned());
        finding.allowed = Some("a multiple of 512 bytes up to 1 GiB, such as \"4k\"".to_owned());
        report.push(finding);
    }
    bytes.map(|bytes| bytes as u32)
}
