// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Workloads of a simulated machine: tasks, interrupts and devices.

mod activity;
pub(crate) mod attributes;
mod background;
mod builtin;
mod cgroup;
mod change;
mod command;
mod device;
mod fio;
mod keys;
mod kthread;
mod names;
mod program;
mod read;
mod rtapp;
mod section;

pub use activity::{Activity, Runs};
pub use attributes::Clamp;
pub use builtin::{Builtin, builtins, document, resolve};
pub use cgroup::Cgroup;
pub use change::{Change, TaskChange};
pub use command::{is_command, of_job_file};
pub use device::{Device, DeviceRef, Transfer, TransferKind};
pub use program::{Draw, List, Op, Step};
pub use read::{from_document, from_toml, json_schema};
pub use rtapp::from_rtapp;
pub use section::During;

use crate::kernel::Policy;
use crate::random::Dist;
use std::collections::BTreeSet;
use torpor_machine::units::{CpuId, Duration};

/// The licence of files that are made; REUSE would take a whole line for this file's own.
pub(crate) const LICENSE: &str = concat!("SPDX-License", "-Identifier: MIT OR GPL-2.0-only");

/// Returns a valid name of a workload, a task or a channel.
pub(crate) fn fit(name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().map(fit).collect();
    if name.is_empty() { "job".to_owned() } else { name }
}

/// A workload. All are built by [`from_document`]: it checks every invariant below.
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
    /// Control groups, each after the one that it is in.
    pub cgroups: Vec<Cgroup>,
    pub changes: Vec<Change>,
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
    /// CPU of the process that starts them; by default that of the n-th task is CPU n.
    pub parent_cpu: Option<CpuId>,
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
    /// Sections in which its passes begin; all by default.
    pub during: Option<During>,
    /// Control group that it is born in; none is the root.
    pub cgroup: Option<usize>,
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
    /// Sections in which its time passes; all by default.
    pub during: Option<During>,
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
        let mut changes = self.changes.clone();
        for (index, kind) in self.tasks.iter().enumerate().filter(|(_, kind)| kind.each_cpu) {
            let more = tasks.len()..tasks.len() + all.len() - 1;
            for change in changes.iter_mut().flat_map(|change| &mut change.task) {
                if change.kinds.contains(&index) {
                    change.kinds.extend(more.clone());
                }
            }
            tasks.extend((1..all.len()).map(|place| of_cpu(kind, place)));
        }
        Ok(Workload { tasks, interrupts: interrupts.collect(), changes, ..self.clone() })
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
        let parents = self.tasks.iter().filter_map(|task| task.parent_cpu);
        tasks.chain(interrupts).chain(devices).copied().chain(called).chain(parents).max()
    }
}
