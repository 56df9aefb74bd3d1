// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Makes tasks of fio jobs.
//!
//! A job keeps `iodepth` requests in flight: it submits them one by one, then reaps one result and
//! submits the next. That is fio with its defaults, `iodepth_batch` 1, `iodepth_batch_complete_min`
//! 1 and `iodepth_low` as `iodepth`: each submission and each result is a system call of its own.
//!
//! FIDELITY(io-work): the work of an IO does not depend on the CPU's caches.

mod cached;
mod cost;

use super::names::Names;
use super::read::{clamp, from_us};
use super::{Draw, IoWait, Mix, Op, Step, TaskKind, Transfer, TransferKind};
use crate::kernel::Policy;
use crate::random::Dist;
use cost::{Cost, Path};
use torpor_machine::toml::{Report, Table};
use torpor_machine::units::{CpuId, Duration};

pub(super) const ENGINES: &[&str] = &["psync", "libaio", "io_uring"];
/// `IORING_MAX_ENTRIES`.
pub(super) const IODEPTH_MAX: f64 = 32_768.0;
pub(super) const BLOCK_DEFAULT: u32 = 4096;
/// The block size of O_DIRECT.
const SECTOR: u64 = 512;
const BLOCK_MAX: u64 = 1 << 30;
const MIXED: &[&str] = &["rw", "readwrite", "randrw"];

pub(super) fn read(report: &mut Report, table: &Table, names: &mut Names) -> Option<TaskKind> {
    let engine = if table.has("ioengine") { table.text("ioengine")? } else { "psync" };
    let iodepth = table.number("iodepth").unwrap_or(1.0) as u32;
    check(report, table, engine, iodepth);
    let is_cached = table.bool("direct") == Some(false);
    // The page cache has no asynchronous reads for libaio: each waits in `io_schedule()`.
    let waits_at_once = engine == "libaio" && is_cached;
    let iodepth = if waits_at_once { 1 } else { iodepth };
    let transfer = transfer(report, table);
    let cache = cache(report, table, is_cached);
    let device = device(report, table, names)?;
    let submit = own_work(report, table, "submit_us", 0)?;
    let complete = own_work(report, table, "complete_us", 1)?;
    let wait = match engine {
        "psync" => IoWait::IoSchedule,
        "libaio" if waits_at_once => IoWait::IoSchedule,
        "libaio" => IoWait::ReadEvents,
        _ => IoWait::CqRing { iowait: table.bool("iowait").unwrap_or(true) },
    };
    let transfer = transfer?;
    let mut job = Job {
        engine,
        device,
        bytes: transfer.bytes,
        own: [submit, complete],
        wait,
        period: table.number("rate_iops").map(|rate| Duration((1e9 / rate).round() as i64)),
        think: table.number("thinktime_us").filter(|us| *us > 0.0).map(from_us),
        fsync: table.number("fsync").filter(|n| *n > 0.0).map(|n| n as u64),
        steps: Vec::new(),
        draws: 3,
        depth: 0,
    };
    let mix = mix(report, table, &mut job);
    let limits = Limits {
        iodepth,
        runtime: table.number("runtime").map(|s| from_us(s * 1e6)),
        number_ios: table.number("number_ios").map(|n| n as u64),
    };
    match (is_cached, transfer.kind, transfer.in_order, mix) {
        (false, ..) => direct(&mut job, &limits, transfer, mix),
        (true, TransferKind::Read, true, None) => cached::in_order(&mut job, &limits, cache),
        (true, TransferKind::Read, _, mix) => cached::at_random(&mut job, &limits, mix, cache),
        (true, ..) => cached::writes(&mut job, &limits),
    }
    Some(TaskKind {
        name: table.text("name")?.to_owned(),
        count: table.number("numjobs").unwrap_or(1.0) as u32,
        cpus: table.cpus("cpus_allowed").map(<[CpuId]>::to_vec),
        start: from_us(1e6 * table.number("startdelay").unwrap_or(0.0)),
        stagger: Duration::ZERO,
        parent_cpu: super::read::parent_cpu(table),
        each_cpu: false,
        activity: None,
        during: None,
        cgroup: names.cgroup(report, table),
        timer_slack: super::read::from_us(super::read::TIMER_SLACK_US),
        slice: Duration::ZERO,
        weight: super::read::WEIGHT_DEFAULT as u32,
        policy: Policy::Normal,
        clamp: clamp(report, table),
        groups: 1,
        repeat: None,
        draws: job.draws,
        depth: job.depth,
        timers: usize::from(job.period.is_some()),
        program: job.steps,
    })
}

/// Reads the job's device, or its file.
fn device(report: &mut Report, table: &Table, names: &mut Names) -> Option<usize> {
    match (table.text("device"), table.text("filename")) {
        (Some(name), None) => Some(names.device(table, "device", name)),
        (None, Some(name)) => Some(names.file(table, "filename", name)),
        (given, _) => {
            let key = if given.is_some() { "filename" } else { "device" };
            let mut finding = table.finding(key, "a job has one device".to_owned());
            finding.allowed = Some("one of `device` and `filename`".to_owned());
            report.push(finding);
            None
        }
    }
}

/// Writes the program of a job with direct IO.
fn direct(job: &mut Job, limits: &Limits, transfer: Transfer, mix: Option<Mix>) {
    let cost = Cost::of(job.engine, Path::Direct, job.bytes);
    let fill = job.push("ready to submit", Op::Goto(0));
    job.work_to_submit("its submission", &cost);
    let (device, next) = (job.device, job.here() + 1);
    let submit = Op::IoSubmit { device, stream: SERVICE, transfer, mix, next };
    job.push("its submission", submit);
    // After the wait for the next request the job may submit again.
    job.push("its rate", job.pace(fill));
    let wait = job.here();
    job.steps[fill].op = limits.fill(wait);
    job.push("its wait for a result", Op::IoWait(job.wait));
    job.work_to_complete("its completion", &cost);
    job.think();
    if let Some(count) = job.fsync {
        job.push("its fsync", Op::IoEvery { count, next: fill });
        job.send("its fsync", TransferKind::Flush, 0);
        job.push("its fsync", Op::IoWait(IoWait::IoSchedule));
    }
}

/// Stream of a job's requests; the streams before are for its own work.
const SERVICE: usize = 2;

/// A job's program under construction.
struct Job<'a> {
    engine: &'a str,
    device: usize,
    bytes: u32,
    /// Work of submission and completion, if the job sets it.
    own: [Option<Draw>; 2],
    wait: IoWait,
    period: Option<Duration>,
    think: Option<Duration>,
    fsync: Option<u64>,
    steps: Vec<Step>,
    draws: usize,
    depth: usize,
}

/// Limits of requests in flight, of time and of requests.
struct Limits {
    iodepth: u32,
    runtime: Option<Duration>,
    number_ios: Option<u64>,
}

impl Limits {
    fn fill(&self, wait: usize) -> Op {
        let Limits { iodepth, runtime, number_ios } = *self;
        Op::IoFill { iodepth, runtime, number_ios, wait }
    }

    fn end(&self, end: usize) -> Op {
        Op::IoBegin { runtime: self.runtime, number_ios: self.number_ios, end }
    }
}

/// Reads the share of reads of a mixed job.
fn mix(report: &mut Report, table: &Table, job: &mut Job<'_>) -> Option<Mix> {
    let is_mixed = table.text("rw").is_some_and(|rw| MIXED.contains(&rw));
    if table.has("rwmixread") && !is_mixed {
        let mut finding =
            table.finding("rwmixread", "the job does not mix reads and writes".to_owned());
        finding.allowed = Some("together with `rw = \"randrw\"`, rw or readwrite".to_owned());
        report.push(finding);
    }
    is_mixed.then(|| Mix {
        reads: table.number("rwmixread").unwrap_or(50.0) / 100.0,
        stream: job.stream(),
    })
}

/// Reads the cached part of the job's file, if its size is known.
fn cache(report: &mut Report, table: &Table, is_cached: bool) -> Option<super::Cache> {
    let bytes = if table.has("bs") { block_size(report, table)? } else { BLOCK_DEFAULT };
    if table.has("size_mib") && !is_cached {
        let message = "direct IO does not use the page cache".to_owned();
        let mut finding = table.finding("size_mib", message);
        finding.allowed = Some("together with `direct = false`".to_owned());
        report.push(finding);
    }
    let size = table.number("size_mib")? as u64 * (1 << 20);
    Some(super::Cache { blocks: (size / u64::from(bytes)).max(1) })
}

/// Reads the work that a job sets itself.
fn own_work(report: &mut Report, table: &Table, key: &str, stream: usize) -> Option<Option<Draw>> {
    if !table.has(key) {
        return Some(None);
    }
    Some(Some(Draw { dist: super::read::dist(report, table, key)?, stream }))
}

impl Job<'_> {
    fn stream(&mut self) -> usize {
        self.draws += 1;
        self.draws - 1
    }

    fn here(&self) -> usize {
        self.steps.len()
    }

    fn push(&mut self, place: &str, op: Op) -> usize {
        self.steps.push(Step { op, place: place.to_owned() });
        self.here() - 1
    }

    fn work(&mut self, place: &str, work: Duration, asleep: Duration) {
        self.push(place, Op::IoWork { device: self.device, work, asleep });
    }

    fn work_to_submit(&mut self, place: &str, cost: &Cost) {
        match self.own[0].clone() {
            Some(own) => _ = self.push(place, Op::Run(own)),
            None => self.work(place, cost.submit, Duration::ZERO),
        }
    }

    fn work_to_complete(&mut self, place: &str, cost: &Cost) {
        match self.own[1].clone() {
            Some(own) => _ = self.push(place, Op::Run(own)),
            None => self.work(place, cost.result, cost.asleep),
        }
    }

    /// Adds an IO that the page cache serves.
    fn at_once(&mut self, place: &str, path: Path) {
        let cost = Cost::of(self.engine, path, self.bytes);
        self.work_to_submit(place, &cost);
        self.work_to_complete(place, &cost);
        self.push(place, Op::IoHit);
    }

    fn send(&mut self, place: &str, kind: TransferKind, bytes: u32) {
        let transfer = Transfer { kind, bytes, in_order: true };
        let (device, stream, next) = (self.device, self.stream(), self.here() + 1);
        self.push(place, Op::IoSubmit { device, stream, transfer, mix: None, next });
    }

    fn think(&mut self) {
        if let Some(think) = self.think {
            let stream = self.stream();
            let draw = Draw { dist: Dist::Constant(think), stream };
            self.push("its think time", Op::Sleep(draw));
        }
    }

    /// Returns the wait for the next request's time, or a jump to `next`.
    fn pace(&self, next: usize) -> Op {
        self.period.map_or(Op::Goto(next), |period| Op::IoPace { period, next })
    }

    fn repeat(&mut self, place: &str, times: u64, body: impl Fn(&mut Self)) {
        let begin = self.push(place, Op::Goto(0));
        body(self);
        self.push(place, Op::LoopEnd { begin: begin + 1 });
        self.steps[begin].op = Op::LoopBegin { times, end: self.here() };
        self.depth = 1;
    }
}

fn check(report: &mut Report, table: &Table, engine: &str, iodepth: u32) {
    if iodepth == 0 {
        let mut finding = table.finding("iodepth", "a job needs at least one request".to_owned());
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
        let mut finding = table.finding("iowait", format!("`{engine}` does not use it"));
        finding.allowed = Some("together with `ioengine = \"io_uring\"`".to_owned());
        report.push(finding);
    }
    for (key, message) in
        [("number_ios", "a job needs at least one request"), ("rate_iops", "the rate is zero")]
    {
        if table.number(key) == Some(0.0) {
            let mut finding = table.finding(key, message.to_owned());
            finding.hint = Some("leave it out".to_owned());
            report.push(finding);
        }
    }
    if table.number("numjobs") == Some(0.0) {
        let mut finding = table.finding("numjobs", "the number of jobs is zero".to_owned());
        finding.allowed = Some("1 or more".to_owned());
        report.push(finding);
    }
}

/// Reads `rw` and `bs`; without them a random read of 4 KiB.
pub(super) fn transfer(report: &mut Report, table: &Table) -> Option<Transfer> {
    let kind = match table.text("rw") {
        Some("write" | "randwrite") => TransferKind::Write,
        _ => TransferKind::Read,
    };
    let bytes = if table.has("bs") { block_size(report, table)? } else { BLOCK_DEFAULT };
    let in_order = matches!(table.text("rw"), Some("read" | "write" | "rw" | "readwrite"));
    Some(Transfer { kind, bytes, in_order })
}

/// Reads a size as fio does: `k` and `m` are powers of 1024.
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
