// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Workload of the simulated machine: tasks, interrupts, devices. Read from TOML, checked.

mod activity;
pub(crate) mod attributes;
mod background;
mod builtin;
mod command;
mod device;
mod dist;
mod fio;
mod keys;
mod names;
mod program;
mod read;
mod rtapp;
mod stream;

pub use activity::{Activity, Runs};
pub use attributes::Clamp;
pub use builtin::{Builtin, builtins, resolve, text};
pub use command::{is_command, job_file_to_toml, to_toml};
pub use device::{Device, DeviceRef, Transfer, TransferKind};
pub use dist::Dist;
pub use read::{from_toml, json_schema};
pub use rtapp::from_rtapp;
pub use stream::{Stream, StreamName};

use std::collections::BTreeSet;
use torpor_machine::units::{CpuId, Duration, Instant};

/// A workload. Built only by [`from_toml`], which has checked every invariant below.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub name: String,
    pub title: String,
    pub sources: Vec<String>,
    /// SHA-256 of the text it was read from.
    pub sha256: String,
    pub tasks: Vec<TaskKind>,
    pub interrupts: Vec<Interrupt>,
    pub devices: Vec<DeviceRef>,
    /// Channels that tasks wait on and are woken through, by index.
    pub channels: Vec<Channel>,
    pub barriers: Vec<Barrier>,
    pub flows: Vec<Flow>,
    pub activities: Vec<Activity>,
    /// Notes for every result.
    pub notes: Vec<String>,
}

/// Flow that begins in one task and ends in another, such as a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    pub name: String,
    pub deadline: Option<Duration>,
    /// The deadline of those after a late one, until one is late again.
    pub deadline_after_late: Option<Duration>,
    pub hint: Option<Hint>,
}

/// A performance hint session: kinds of tasks whose `uclamp_min` follows how long the flow takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    pub target: Duration,
    pub tasks: Vec<usize>,
}

/// Channel that tasks wait on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    pub name: String,
    /// Contents at the beginning.
    pub held: u64,
}

/// Tasks that do the same.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskKind {
    pub name: String,
    /// Number of initial tasks.
    pub count: u32,
    /// Number of groups of like size, each with channels of its own.
    pub groups: usize,
    /// CPUs that they may run on; all by default.
    pub cpus: Option<Vec<CpuId>>,
    /// The same on every CPU, each there alone: see [`Workload::on_machine`].
    pub each_cpu: bool,
    /// When the first starts, and how much later each next one.
    pub start: Duration,
    pub stagger: Duration,
    /// Slack of its timers: they may expire this much later, so that several share an interrupt.
    pub timer_slack: Duration,
    /// Among the tasks of a CPU; 1024 is that of nice 0.
    pub weight: u32,
    /// Activity that it shares with others.
    pub activity: Option<usize>,
    pub clamp: Clamp,
    /// Passes through the program; without end by default.
    pub repeat: Option<u64>,
    pub program: Vec<Step>,
    /// Number of steps that draw, each from a stream of its own.
    pub draws: usize,
    /// The deepest nesting of `repeat`.
    pub depth: usize,
    /// Number of its own timers, for [`Op::Timer`].
    pub timers: usize,
}

/// A step of a program, and where it is in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub op: Op,
    /// Such as `phase[2].do[0]`.
    pub place: String,
}

/// A distribution, and which of the task's streams it draws from.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    pub dist: Dist,
    pub stream: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Work, as time on the machine's biggest CPU at its highest frequency.
    Run(Draw),
    /// A job's work of its own for an IO, as the device has it, and how much more there is where
    /// it slept for the result.
    IoWork {
        device: usize,
        work: Duration,
        asleep: Duration,
    },
    Goto(usize),
    /// A timer from now on.
    Sleep(Draw),
    /// Until a moment of the run.
    Until(Instant),
    /// Until the next multiple of a period since the task's start.
    Period(Duration),
    /// Takes `count` from a channel (that of the first group; the others' follow it), or waits until it holds as many. What it holds already is
    /// taken at `not_before`, and after `at_least`, at the earliest.
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
    /// Waits until somebody notifies the channel, and puts one into another first, as condition
    /// variables release their mutex.
    Await {
        channel: usize,
        release: Option<usize>,
    },
    /// Wakes the first or all of those that wait on a channel; nothing is kept.
    Notify {
        channel: usize,
        all: bool,
    },
    /// Until a period after the timer's last time, which is the task's start at first. A task that
    /// is late goes on at once; the next period then counts from now, or, of an absolute timer,
    /// from where it would have.
    Timer {
        timer: usize,
        period: Duration,
        is_absolute: bool,
    },
    Barrier(usize),
    /// Has a CPU run a function that takes so long, and waits for its end: asleep, or in a loop.
    Call {
        cpu: usize,
        handling: Draw,
        asleep: bool,
    },
    /// Sends a request, and goes on at `next`. The service time is drawn from the task's stream,
    /// so that it does not depend on who else asks.
    IoSubmit {
        device: usize,
        stream: usize,
        transfer: Transfer,
        /// Mix of reads and writes.
        mix: Option<Mix>,
        next: usize,
    },
    /// Goes on after every so many results, and at `next` otherwise.
    IoEvery {
        count: u64,
        next: usize,
    },
    /// Whether the page cache answers: goes on at `write`, at `hit`, or with the next step, a
    /// request.
    IoLookup {
        mix: Option<Mix>,
        /// Without it nothing is read twice.
        cache: Option<Cache>,
        stream: usize,
        write: usize,
        hit: usize,
    },
    /// Counts an IO that the page cache has answered.
    IoHit,
    /// The next IO, or the job's end.
    IoBegin {
        runtime: Option<Duration>,
        number_ios: Option<u64>,
        end: usize,
    },
    /// Takes a request's result, or waits for one.
    IoWait(IoWait),
    /// Jumps to the next step, to submit, or to `wait`, when `iodepth` requests are under way;
    /// after `runtime`, or `number_ios`, it submits no more, and ends with the last result.
    IoFill {
        iodepth: u32,
        runtime: Option<Duration>,
        number_ios: Option<u64>,
        wait: usize,
    },
    /// Until the next request's time, the first one's being the task's start; one that is late
    /// goes on at once. Then to `next`.
    IoPace {
        period: Duration,
        next: usize,
    },
    /// A flow begins when the task was called, or the first one under way ends.
    FlowBegin(usize),
    FlowEnd(usize),
    Spawn {
        task: usize,
        count: u32,
    },
    /// The steps up to the matching [`Op::LoopEnd`], so many times (0 skips them); `end` is the
    /// step after that.
    LoopBegin {
        times: u64,
        end: usize,
    },
    /// `begin` is the first step of the loop.
    LoopEnd {
        begin: usize,
    },
}

/// A file in the page cache. A job reads each block once before it reads any again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    pub blocks: u64,
}

/// The share of reads, and the stream that draws them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    pub reads: f64,
    pub stream: usize,
}

/// Wait of a task for its requests, as the scheduler sees it (Linux 6.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoWait {
    /// `io_schedule()`, which a synchronous read sleeps in.
    IoSchedule,
    /// `read_events()` of fs/aio.c: a wait queue as any other.
    ReadEvents,
    /// `io_cqring_wait()`: marked since 6.5 while requests are pending, unless the ring was
    /// entered with `IORING_ENTER_NO_IOWAIT` (6.15).
    CqRing { iowait: bool },
}

impl IoWait {
    /// `current->in_iowait`.
    pub fn in_iowait(self) -> bool {
        match self {
            IoWait::IoSchedule => true,
            IoWait::ReadEvents => false,
            IoWait::CqRing { iowait } => iowait,
        }
    }

    /// It sleeps in state D; the others in S.
    pub fn is_uninterruptible(self) -> bool {
        self == IoWait::IoSchedule
    }
}

/// Interrupts from outside, one after another.
#[derive(Clone, Debug, PartialEq)]
pub struct Interrupt {
    pub name: String,
    /// They go round these CPUs; CPU 0 by default.
    pub cpus: Vec<CpuId>,
    /// The same on every CPU, each so much later than on the one before: see
    /// [`Workload::on_machine`].
    pub each_cpu: Option<Duration>,
    pub arrivals: Arrivals,
    /// Activity that its intervals share with others.
    pub activity: Option<usize>,
    /// Interrupts a burst, and the time between them.
    pub burst: u32,
    pub burst_gap: Dist,
    pub start: Duration,
    /// No more than this many.
    pub max: Option<u64>,
    /// Time its handler takes, on top of what any interrupt takes.
    pub handling: Dist,
    pub effect: Effect,
}

/// When interrupts come.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// From one burst to the next.
    Apart(Dist),
    /// At these times, rising, of which there is at least one.
    At(Vec<Duration>),
}

/// Effect of an interrupt's handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Nothing,
    Wake { channel: usize, count: u64 },
    Spawn { task: usize, count: u32 },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Barrier {
    pub name: String,
    /// So many tasks must come before any goes on.
    pub parties: u32,
}

impl Cache {
    /// Returns the share of a task's reads that find their block, when so many are held, and it has
    /// read so many blocks of its file.
    pub fn hit_ratio(&self, held: u64, seen: u64) -> f64 {
        let seen = seen % self.blocks;
        held.saturating_sub(seen) as f64 / (self.blocks - seen) as f64
    }
}

impl TaskKind {
    /// The group of its task with this number; those spawned later join the groups in turn.
    pub fn group_of(&self, instance: u64) -> usize {
        let size = (u64::from(self.count) / self.groups as u64).max(1);
        (instance / size) as usize % self.groups
    }

    /// The barriers that it comes to, once each.
    fn barriers(&self) -> BTreeSet<usize> {
        let barrier = |step: &Step| if let Op::Barrier(b) = step.op { Some(b) } else { None };
        self.program.iter().filter_map(barrier).collect()
    }
}

impl Barrier {
    /// By name, with all tasks that come to each.
    fn all(names: &[String], tasks: &[TaskKind]) -> Vec<Barrier> {
        let new = |name: &String| Barrier { name: name.clone(), parties: 0 };
        let mut barriers: Vec<Barrier> = names.iter().map(new).collect();
        for task in tasks {
            for barrier in task.barriers() {
                let parties = &mut barriers[barrier].parties;
                *parties = parties.saturating_add(task.count);
            }
        }
        barriers
    }
}

impl Workload {
    /// With what each CPU has of its own, and nothing on a CPU that is offline. As in the kernel,
    /// tasks keep to those of their CPUs that are online, and an interrupt that has none of its own
    /// left moves to another. The first of what each CPU has keeps its place, the others come last.
    ///
    /// # Errors
    /// A task none of whose CPUs is online, by name, with its CPUs.
    pub fn on_machine(
        &self,
        cpus: usize,
        online: Option<&[CpuId]>,
    ) -> Result<Workload, (String, Vec<CpuId>)> {
        let of_machine: Vec<CpuId> = (0..cpus as u32).map(CpuId).collect();
        let all = online.unwrap_or(&of_machine);
        let online_of = |cpus: &[CpuId]| -> Vec<CpuId> {
            cpus.iter().copied().filter(|cpu| all.contains(cpu)).collect()
        };
        let task = |task: &TaskKind| {
            let cpus = match &task.cpus {
                Some(own) => Some(online_of(own)),
                None => online.map(<[CpuId]>::to_vec),
            };
            match cpus {
                Some(none) if none.is_empty() => {
                    Err((task.name.clone(), task.cpus.clone().unwrap_or_default()))
                }
                cpus => Ok(TaskKind { cpus, ..task.clone() }),
            }
        };
        let one = |interrupt: &Interrupt, cpu: usize, later: Duration| Interrupt {
            name: format!("{}#{cpu}", interrupt.name),
            cpus: vec![CpuId(cpu as u32)],
            each_cpu: None,
            start: interrupt.start + Duration(later.0.saturating_mul(cpu as i64)),
            ..interrupt.clone()
        };
        let interrupts = self.interrupts.iter().flat_map(|interrupt| match interrupt.each_cpu {
            Some(later) => all.iter().map(|cpu| one(interrupt, cpu.index(), later)).collect(),
            None => {
                let mut cpus = online_of(&interrupt.cpus);
                if cpus.is_empty() {
                    cpus.push(all[0]);
                }
                vec![Interrupt { cpus, ..interrupt.clone() }]
            }
        });
        let of_cpu = |task: &TaskKind, place: usize| TaskKind {
            name: format!("{}#{}", task.name, all[place].0),
            cpus: Some(vec![all[place]]),
            start: task.start + Duration(task.stagger.0.saturating_mul(place as i64)),
            each_cpu: false,
            ..task.clone()
        };
        let first = |kind: &TaskKind| if kind.each_cpu { Ok(of_cpu(kind, 0)) } else { task(kind) };
        let mut tasks = self.tasks.iter().map(first).collect::<Result<Vec<_>, _>>()?;
        for kind in self.tasks.iter().filter(|kind| kind.each_cpu) {
            tasks.extend((1..all.len()).map(|place| of_cpu(kind, place)));
        }
        Ok(Workload { tasks, interrupts: interrupts.collect(), ..self.clone() })
    }

    /// The highest CPU that it names.
    pub fn last_cpu(&self) -> Option<CpuId> {
        let tasks = self.tasks.iter().flat_map(|t| t.cpus.iter().flatten());
        let interrupts = self.interrupts.iter().flat_map(|i| &i.cpus);
        let devices = self.devices.iter().filter_map(|device| match device {
            DeviceRef::Own(device) => device.irq_cpu.as_ref(),
            DeviceRef::Named { .. } => None,
        });
        let steps = self.tasks.iter().flat_map(|task| &task.program);
        let called = steps.filter_map(|step| match step.op {
            Op::Call { cpu, .. } => Some(CpuId(cpu as u32)),
            _ => None,
        });
        tasks.chain(interrupts).chain(devices).copied().chain(called).max()
    }
}
