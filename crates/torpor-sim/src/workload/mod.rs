// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Workloads of a simulated machine: tasks, interrupts and devices.

mod activity;
pub(crate) mod attributes;
mod background;
mod builtin;
mod command;
mod device;
mod fio;
mod keys;
mod kthread;
mod names;
mod program;
mod read;
mod rtapp;

pub use activity::{Activity, Runs};
pub use attributes::Clamp;
pub use builtin::{Builtin, builtins, resolve, text};
pub use command::{is_command, job_file_to_toml, to_toml};
pub use device::{Device, DeviceRef, Transfer, TransferKind};
pub use read::{from_toml, json_schema};
pub use rtapp::from_rtapp;

use crate::kernel::Policy;
use crate::random::Dist;
use std::collections::BTreeSet;
use torpor_machine::units::{CpuId, Duration, Instant};

/// A workload. All are built by [`from_toml`]: it checks every invariant below.
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
    /// The deadline after a late flow, until a flow is late again.
    pub deadline_after_late: Option<Duration>,
    pub hint: Option<Hint>,
}

/// A performance hint session: the kinds of tasks whose `uclamp_min` follows the length of the flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    pub target: Duration,
    pub tasks: Vec<usize>,
}

/// Channel that tasks wait on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    pub name: String,
    /// Pending wake-ups at the start.
    pub held: u64,
}

/// Tasks with the same program.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskKind {
    pub name: String,
    /// Number of initial tasks.
    pub count: u32,
    /// Number of groups of equal size; each has its own channels.
    pub groups: usize,
    /// CPU affinity; all CPUs by default.
    pub cpus: Option<Vec<CpuId>>,
    /// One task per CPU, bound to it: see [`Workload::on_machine`].
    pub each_cpu: bool,
    /// Start of the first task, and the delay of each further one.
    pub start: Duration,
    pub stagger: Duration,
    /// Slack of its timers: they may expire this much later, so that several share an interrupt.
    pub timer_slack: Duration,
    /// Slice requested with `sched_setattr()`; 0 for the scheduler's own.
    pub slice: Duration,
    /// Load weight; 1024 is that of nice 0.
    pub weight: u32,
    pub policy: Policy,
    /// Activity that it shares with others.
    pub activity: Option<usize>,
    pub clamp: Clamp,
    /// Number of passes through the program; endless by default.
    pub repeat: Option<u64>,
    pub program: Vec<Step>,
    /// Number of random streams, one per step that draws.
    pub draws: usize,
    /// The deepest nesting of `repeat`.
    pub depth: usize,
    /// Number of its own timers, for [`Op::Timer`].
    pub timers: usize,
}

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

/// A task's wait for its requests, as the scheduler sees it (Linux 6.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoWait {
    /// `io_schedule()`, which a synchronous read sleeps in.
    IoSchedule,
    /// `read_events()` of fs/aio.c, an ordinary wait queue.
    ReadEvents,
    /// `io_cqring_wait()`: marked since 6.5 while requests are pending, unless the ring was
    /// entered with `IORING_ENTER_NO_IOWAIT` (6.15).
    CqRing { iowait: bool },
}

impl IoWait {
    /// Returns `current->in_iowait`.
    pub fn in_iowait(self) -> bool {
        match self {
            IoWait::IoSchedule => true,
            IoWait::ReadEvents => false,
            IoWait::CqRing { iowait } => iowait,
        }
    }

    /// Whether the task sleeps in state D instead of S.
    pub fn is_uninterruptible(self) -> bool {
        self == IoWait::IoSchedule
    }
}

/// A source of interrupts.
#[derive(Clone, Debug, PartialEq)]
pub struct Interrupt {
    pub name: String,
    /// CPUs that take the interrupts in turn; CPU 0 by default.
    pub cpus: Vec<CpuId>,
    /// One source per CPU, each with this delay to the previous one: see
    /// [`Workload::on_machine`].
    pub each_cpu: Option<Duration>,
    pub arrivals: Arrivals,
    /// Activity that its intervals share with others.
    pub activity: Option<usize>,
    /// Interrupts per burst, and the time between them.
    pub burst: u32,
    pub burst_gap: Dist,
    pub start: Duration,
    /// Highest number of interrupts.
    pub max: Option<u64>,
    /// Duration of the handler, in addition to the platform's interrupt cost.
    pub handling: Dist,
    pub effect: Effect,
}

/// Times of interrupts.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// From one burst to the next.
    Apart(Dist),
    /// At these times, ascending; not empty.
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
    /// Number of tasks that must arrive before any continues.
    pub parties: u32,
}

impl Cache {
    /// Returns the hit ratio of a task that has read `seen` blocks, while memory holds `held`.
    pub fn hit_ratio(&self, held: u64, seen: u64) -> f64 {
        let seen = seen % self.blocks;
        held.saturating_sub(seen) as f64 / (self.blocks - seen) as f64
    }
}

impl TaskKind {
    /// Returns the group of a task by its number; tasks spawned later join the groups in turn.
    pub fn group_of(&self, instance: u64) -> usize {
        let size = (u64::from(self.count) / self.groups as u64).max(1);
        (instance / size) as usize % self.groups
    }

    fn barriers(&self) -> BTreeSet<usize> {
        let barrier = |step: &Step| if let Op::Barrier(b) = step.op { Some(b) } else { None };
        self.program.iter().filter_map(barrier).collect()
    }
}

impl Barrier {
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
    /// Returns the workload with the per-CPU tasks and interrupts of a machine, and nothing on
    /// offline CPUs. As in the kernel, the affinity of tasks is limited to online CPUs, and an
    /// interrupt without an online CPU moves to another. The first instance of a per-CPU task keeps
    /// its place; the others come last.
    ///
    /// # Errors
    /// Returns the name and the CPUs of a task that has no online CPU.
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

    /// Returns the highest CPU in the workload.
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
