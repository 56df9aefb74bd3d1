// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A task's phases: their keys, and the steps that they become.

use super::keys::{COUNT, DIRECTIONS, DIST, REPEAT, TIME};
use super::names::{Index, Names, Sort};
use super::read::{dist, dist_or_zero, from_us};
use super::{Cache, IoWait, Mix, Transfer, fio};
use crate::random::Dist;
use torpor_machine::shape;
use torpor_machine::toml::{Kind, Report, Shape, Table};
use torpor_machine::units::{Duration, Instant};

/// Deepest nesting of loops.
const DEPTH_MAX: usize = 16;

/// Keys of which a phase has exactly one.
const VERBS: [&str; 17] = [
    "run_us",
    "sleep_us",
    "until_us",
    "period_us",
    "wait",
    "wake",
    "lock",
    "unlock",
    "await",
    "notify",
    "barrier",
    "io",
    "spawn",
    "call",
    "begin",
    "end",
    "repeat",
];

/// Other keys, each with those that it is allowed with.
const EXTRAS: [(&str, &[&str]); 13] = [
    ("timer", &["period_us"]),
    ("absolute", &["period_us"]),
    ("count", &["wait", "wake", "spawn"]),
    ("not_before_us", &["wait"]),
    ("at_least_us", &["wait"]),
    ("sync", &["wake"]),
    ("release", &["await"]),
    ("all", &["notify"]),
    ("bs", &["io"]),
    ("rw", &["io"]),
    ("handling_us", &["call"]),
    ("asleep", &["call"]),
    ("do", &["repeat"]),
];

pub(super) static PHASE: Shape = shape! {
    optional run_us: DIST, "Work: time on the machine's biggest CPU at its highest frequency.";
    optional sleep_us: DIST, "Sleeps on a timer.";
    optional until_us: TIME, "Sleeps until this time of the run. A late task continues at once, \
        and the pass counts as missed.";
    optional period_us: TIME, "Sleeps until the next multiple of this since the task's start. A \
        late task continues at once, and the pass counts as missed.";
    optional timer: Kind::Word, "With `period_us`: since the last expiry of the task's timer of \
        this name, instead of its start. The next period of a late task begins at once.";
    optional absolute: Kind::Bool, "With `timer`: the next period of a late task begins at the \
        expiry that it missed. Default: false.";
    optional wait: Kind::Word, "Waits on a channel until a task or an interrupt wakes it.";
    optional wake: Kind::Word, "Wakes a channel; a wake-up without a waiter is kept.";
    optional lock: Kind::Word, "Locks a mutex, or waits until it is unlocked.";
    optional unlock: Kind::Word, "Unlocks a mutex.";
    optional await: Kind::Word, "Waits for a condition until a task notifies it; earlier \
        notifications are not kept.";
    optional release: Kind::Word, "With `await`: unlocks this mutex during the wait.";
    optional notify: Kind::Word, "Wakes the first task that waits for a condition.";
    optional all: Kind::Bool, "With `notify`: wakes all of them. Default: false.";
    optional barrier: Kind::Word, "Waits until all tasks with this barrier have reached it.";
    optional io: Kind::Word, "A request to a device (one of `device`, the platform's or one that \
        ships); waits until it is done.";
    optional bs: Kind::Text, "With `io`: its size, such as `4k`. Default: 4k.";
    optional rw: Kind::Choice(DIRECTIONS), "With `io`: the operation. Default: a read.";
    optional spawn: Kind::Word, "Starts another task of that name.";
    optional call: Kind::Cpus, "Runs a function on these CPUs, one after another, and spins until \
        each is done, as `smp_call_function_single()` does. The IPI wakes an idle CPU. Offline \
        CPUs are skipped.";
    optional handling_us: DIST, "With `call`: duration of the function, in addition to the IPI. \
        Default: 0.";
    optional asleep: Kind::Bool, "With `call`: sleeps until the function wakes it, as MSR reads of \
        another CPU do since Linux 4.17. Default: false.";
    optional begin: Kind::Word, "Begins a flow, such as a frame, at the event that last woke the \
        task, or, if the task is late, at the time when it was due.";
    optional end: Kind::Word, "Ends the oldest flow of that name that is in progress.";
    optional count: COUNT, "With `wait`, `wake` and `spawn`: the number. Default: 1.";
    optional not_before_us: TIME, "With `wait`: the earliest time of the run at which a pending \
        wake-up is accepted.";
    optional at_least_us: TIME, "With `wait`: the shortest wait before a pending wake-up is \
        accepted.";
    optional sync: Kind::Bool, "With `wake`: a synchronous wake-up (`WF_SYNC`): the waker is about \
        to sleep, as pipes do.";
    optional repeat: REPEAT, "Repeats the phases in `do` this many times.";
    optional do: Kind::Tables(&PHASE), "With `repeat`: phases.";
};

/// A step of a program, with its place in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub op: Op,
    /// For example `phase[2].do[0]`.
    pub place: String,
}

/// A distribution, and the task's stream that it draws from.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    pub dist: Dist,
    pub stream: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Work, as time on the machine's biggest CPU at its highest frequency.
    Run(Draw),
    /// CPU time of an IO in the job's context, times the device's `work_ratio`, and the extra time
    /// if the job slept for the result.
    IoWork {
        device: usize,
        work: Duration,
        asleep: Duration,
    },
    Goto(usize),
    /// Takes the next request that the device has served for this CPU, or sleeps until one is done;
    /// does the work of its completion.
    KthreadTake {
        device: usize,
    },
    /// Completes the request that it has taken.
    KthreadComplete {
        device: usize,
    },
    /// Sleeps on a timer.
    Sleep(Draw),
    /// Sleeps until a time of the run.
    Until(Instant),
    /// Sleeps until the next multiple of a period since the task's start.
    Period(Duration),
    /// Takes `count` from a channel, or waits until it holds as many. Pending wake-ups are taken at
    /// `not_before`, and after `at_least`, at the earliest. The number is the first group's channel;
    /// those of the other groups follow.
    Wait {
        channel: usize,
        count: u64,
        not_before: Instant,
        at_least: Duration,
    },
    /// Puts `count` into a channel.
    Wake {
        channel: usize,
        count: u64,
        sync: bool,
    },
    /// Waits for a notification of the channel, and first puts one into another channel, as a
    /// condition variable releases its mutex.
    Await {
        channel: usize,
        release: Option<usize>,
    },
    /// Wakes the first or all waiters of a channel; no wake-up is kept.
    Notify {
        channel: usize,
        all: bool,
    },
    /// Sleeps until a period after the timer's last expiry, initially the task's start. A late task
    /// continues at once; its next period begins now, or, with an absolute timer, at the missed
    /// expiry.
    Timer {
        timer: usize,
        period: Duration,
        is_absolute: bool,
    },
    Barrier(usize),
    /// Runs a function on a CPU, and waits for its end asleep or in a loop.
    Call {
        cpu: usize,
        handling: Draw,
        asleep: bool,
    },
    /// Submits a request, and continues at `next`. The service time is drawn from the task's stream,
    /// so that it does not depend on other tasks.
    IoSubmit {
        device: usize,
        stream: usize,
        transfer: Transfer,
        /// Mix of reads and writes.
        mix: Option<Mix>,
        next: usize,
    },
    /// Continues after every `count` results, and at `next` otherwise.
    IoEvery {
        count: u64,
        next: usize,
    },
    /// Looks up the page cache: continues at `write`, at `hit`, or on a miss with the next step.
    IoLookup {
        mix: Option<Mix>,
        /// Without a cache no block is read twice.
        cache: Option<Cache>,
        stream: usize,
        write: usize,
        hit: usize,
    },
    /// Counts an IO that the page cache served.
    IoHit,
    /// Begins the next IO, or jumps to the job's `end`.
    IoBegin {
        runtime: Option<Duration>,
        number_ios: Option<u64>,
        end: usize,
    },
    /// Takes a request's result, or waits for one.
    IoWait(IoWait),
    /// Continues with a submission, or jumps to `wait` while `iodepth` requests are in flight. After
    /// `runtime` or `number_ios` the job submits no more, and ends with its last result.
    IoFill {
        iodepth: u32,
        runtime: Option<Duration>,
        number_ios: Option<u64>,
        wait: usize,
    },
    /// Sleeps until the next request is due, the first at the task's start; a late job continues at
    /// once. Then jumps to `next`.
    IoPace {
        period: Duration,
        next: usize,
    },
    /// Begins a flow at the event that woke the task, or ends the oldest one.
    FlowBegin(usize),
    FlowEnd(usize),
    Spawn {
        task: usize,
        count: u32,
    },
    /// Repeats the steps up to the matching [`Op::LoopEnd`]; `end` is the step after that.
    LoopBegin {
        times: u64,
        end: usize,
    },
    /// `begin` is the first step of the loop.
    LoopEnd {
        begin: usize,
    },
}

/// A list of the workload that a step refers to by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Channels,
    Barriers,
    Devices,
    Flows,
    Tasks,
}

impl Op {
    /// Changes the indices that it refers to.
    pub fn change(&mut self, change: impl Fn(List, &mut usize)) {
        match self {
            Op::Wait { channel, .. } | Op::Wake { channel, .. } | Op::Notify { channel, .. } => {
                change(List::Channels, channel);
            }
            Op::Await { channel, release } => {
                change(List::Channels, channel);
                release.iter_mut().for_each(|channel| change(List::Channels, channel));
            }
            Op::Barrier(barrier) => change(List::Barriers, barrier),
            Op::IoWork { device, .. }
            | Op::IoSubmit { device, .. }
            | Op::KthreadTake { device }
            | Op::KthreadComplete { device } => change(List::Devices, device),
            Op::FlowBegin(flow) | Op::FlowEnd(flow) => change(List::Flows, flow),
            Op::Spawn { task, .. } => change(List::Tasks, task),
            Op::Run(_)
            | Op::Sleep(_)
            | Op::Until(_)
            | Op::Period(_)
            | Op::Timer { .. }
            | Op::Call { .. }
            | Op::Goto(_)
            | Op::IoEvery { .. }
            | Op::IoLookup { .. }
            | Op::IoHit
            | Op::IoBegin { .. }
            | Op::IoWait(_)
            | Op::IoFill { .. }
            | Op::IoPace { .. }
            | Op::LoopBegin { .. }
            | Op::LoopEnd { .. } => {}
        }
    }
}

#[derive(Default)]
pub(super) struct Program {
    pub steps: Vec<Step>,
    pub draws: usize,
    pub depth: usize,
    pub timers: Index,
}

/// Returns a task's phases as one list of steps.
pub(super) fn flatten(report: &mut Report, task: &Table, names: &mut Names) -> Program {
    let mut program = Program::default();
    let phases = task.tables("phase");
    if phases.is_empty() && task.field("phase").is_some_and(|f| f.is_empty_array) {
        report.push(task.finding("phase", "a task has at least one phase".to_owned()));
    }
    program.add_all(report, phases, "phase", 1, names);
    program
}

impl Program {
    fn add_all(
        &mut self,
        report: &mut Report,
        phases: &[Table],
        path: &str,
        depth: usize,
        names: &mut Names,
    ) {
        for (index, table) in phases.iter().enumerate() {
            let place = table.shown.clone().unwrap_or_else(|| format!("{path}[{index}]"));
            self.add(report, table, place, depth, names);
        }
    }

    fn add(
        &mut self,
        report: &mut Report,
        table: &Table,
        place: String,
        depth: usize,
        names: &mut Names,
    ) {
        let verbs: Vec<&str> = VERBS.into_iter().filter(|verb| table.has(verb)).collect();
        let [verb] = verbs[..] else {
            let (key, message) = match verbs.get(1) {
                Some(second) => (*second, format!("`{}` is also given", verbs[0])),
                None => ("", "this phase does nothing".to_owned()),
            };
            let mut finding = table.finding(key, message);
            finding.key = finding.key.trim_end_matches('.').to_owned();
            finding.allowed = Some(format!("one of {} a phase", VERBS.join(", ")));
            return report.push(finding);
        };
        for (extra, beside) in EXTRAS {
            if table.has(extra) && !beside.contains(&verb) {
                let mut finding = table.finding(extra, format!("not allowed with `{verb}`"));
                finding.allowed = Some(format!("together with {}", beside.join(", ")));
                report.push(finding);
            }
        }
        if verb == "repeat" {
            return self.add_loop(report, table, place, depth, names);
        }
        if verb == "io" {
            return self.add_io(report, table, place, names);
        }
        if verb == "call" {
            return self.add_calls(report, table, place);
        }
        if verb == "await" {
            return self.add_await(table, place, names);
        }
        if let Some(op) = self.op(report, table, verb, names) {
            self.steps.push(Step { op, place });
        }
    }

    fn add_loop(
        &mut self,
        report: &mut Report,
        table: &Table,
        place: String,
        depth: usize,
        names: &mut Names,
    ) {
        if table.tables("do").is_empty() {
            let mut finding = table.finding("do", "there is nothing to repeat".to_owned());
            finding.allowed = Some("phases: `do = [{ run_us = 5 }, …]`".to_owned());
            return report.push(finding);
        }
        if depth > DEPTH_MAX {
            let message = format!("loops are nested more than {DEPTH_MAX} deep");
            return report.push(table.finding("repeat", message));
        }
        self.depth = self.depth.max(depth);
        let times = table.number("repeat").unwrap_or(1.0) as u64;
        let begin = self.steps.len();
        self.steps.push(Step { op: Op::LoopBegin { times, end: 0 }, place: place.clone() });
        self.add_all(report, table.tables("do"), &format!("{place}.do"), depth + 1, names);
        self.steps.push(Step { op: Op::LoopEnd { begin: begin + 1 }, place });
        let end = self.steps.len();
        self.steps[begin].op = Op::LoopBegin { times, end };
    }

    /// Adds a request and the wait for it, uninterruptible as in `read()`.
    fn add_io(&mut self, report: &mut Report, table: &Table, place: String, names: &mut Names) {
        let (Some(name), Some(transfer)) = (table.text("io"), fio::transfer(report, table)) else {
            return;
        };
        let (device, stream, next) =
            (names.device(table, "io", name), self.draws, self.steps.len() + 1);
        self.draws += 1;
        let op = Op::IoSubmit { device, stream, transfer, mix: None, next };
        self.steps.push(Step { op, place: place.clone() });
        self.steps.push(Step { op: Op::IoWait(IoWait::IoSchedule), place });
    }

    /// Adds a wait for a condition, and the lock of the mutex that it releases.
    fn add_await(&mut self, table: &Table, place: String, names: &mut Names) {
        let Some(name) = table.text("await") else { return };
        let channel = names.waited(Sort::Condition, table, "await", name);
        let release = table.text("release").map(|name| {
            names.woken(Sort::Mutex, table, "release", name);
            names.waited(Sort::Mutex, table, "release", name)
        });
        self.steps.push(Step { op: Op::Await { channel, release }, place: place.clone() });
        self.steps.extend(release.map(|mutex| Step { op: lock(mutex), place }));
    }

    fn add_calls(&mut self, report: &mut Report, table: &Table, place: String) {
        let Some(dist) = dist_or_zero(report, table, "handling_us") else { return };
        let asleep = table.bool("asleep").unwrap_or(false);
        for cpu in table.cpus("call").unwrap_or_default() {
            let handling = Draw { dist: dist.clone(), stream: self.draws };
            self.draws += 1;
            let op = Op::Call { cpu: cpu.index(), handling, asleep };
            self.steps.push(Step { op, place: place.clone() });
        }
    }

    fn op(
        &mut self,
        report: &mut Report,
        table: &Table,
        verb: &str,
        names: &mut Names,
    ) -> Option<Op> {
        let count = table.number("count").unwrap_or(1.0);
        if count == 0.0 {
            report.push(table.finding("count", "a count of 0 has no effect".to_owned()));
        }
        Some(match verb {
            "run_us" => Op::Run(self.draw(report, table, verb)?),
            "sleep_us" => Op::Sleep(self.draw(report, table, verb)?),
            "until_us" => Op::Until(Instant(0) + from_us(table.number(verb)?)),
            "period_us" => {
                let period = from_us(table.number(verb)?);
                if period.0 == 0 {
                    report.push(table.finding(verb, "the period is zero".to_owned()));
                }
                match table.text("timer") {
                    Some(timer) => Op::Timer {
                        timer: self.timers.of_or_add(timer),
                        period,
                        is_absolute: table.bool("absolute").unwrap_or(false),
                    },
                    None => Op::Period(period),
                }
            }
            "lock" => lock(names.waited(Sort::Mutex, table, verb, table.text(verb)?)),
            "unlock" => {
                let channel = names.woken(Sort::Mutex, table, verb, table.text(verb)?);
                Op::Wake { channel, count: 1, sync: false }
            }
            "notify" => {
                let channel = names.woken(Sort::Condition, table, verb, table.text(verb)?);
                Op::Notify { channel, all: table.bool("all").unwrap_or(false) }
            }
            "wait" => {
                let channel = names.waited(Sort::Channel, table, verb, table.text(verb)?);
                let time = |key| from_us(table.number(key).unwrap_or(0.0));
                let not_before = Instant(0) + time("not_before_us");
                let at_least = time("at_least_us");
                Op::Wait { channel, count: count as u64, not_before, at_least }
            }
            "wake" => {
                let channel = names.woken(Sort::Channel, table, verb, table.text(verb)?);
                let sync = table.bool("sync").unwrap_or(false);
                Op::Wake { channel, count: count as u64, sync }
            }
            "begin" => Op::FlowBegin(names.flow(table, verb, table.text(verb)?)),
            "end" => Op::FlowEnd(names.flow(table, verb, table.text(verb)?)),
            "barrier" => Op::Barrier(names.barriers.of_or_add(table.text(verb)?)),
            _ => {
                let task = names.task(report, table, verb, table.text(verb)?)?;
                Op::Spawn { task, count: count as u32 }
            }
        })
    }

    fn draw(&mut self, report: &mut Report, table: &Table, key: &str) -> Option<Draw> {
        let stream = self.draws;
        self.draws += 1;
        Some(Draw { dist: dist(report, table, key)?, stream })
    }
}

fn lock(mutex: usize) -> Op {
    let (not_before, at_least) = (Instant(0), Duration::ZERO);
    Op::Wait { channel: mutex, count: 1, not_before, at_least }
}
