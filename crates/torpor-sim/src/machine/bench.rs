// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A machine without a workload: a function says what its tasks do. Tests of a kernel use it, and
//! measurements of its speed.

use super::step::Step;
use super::task::{Blocked, State, Task, TaskId};
use super::{Event, Machine, Plan, Sink, Topology};
use crate::error::Halt;
use crate::kernel::{Attributes, Hardware, Instance, TaskSetup, Trouble};
use crate::options::Overheads;
use crate::workload::{IoWait, Workload, from_toml};
use torpor_engine::decision::Unobserved;
use torpor_engine::input::TickGrid;
use torpor_engine::model::CpuModel;
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_result::TaskTotals;

/// What a task does next.
#[derive(Clone, Debug)]
pub enum Act {
    /// Computes for as long as a CPU of capacity 1024 takes at its highest frequency.
    Run(Duration),
    /// Sleeps until a time; over at once if that has passed.
    Sleep(Instant),
    /// Blocks until a wake-up; continues at once if one has come in between.
    Wait,
    Wake(TaskId),
    /// Blocks in `io_schedule()` until a device's interrupt, which arrives at the submitting CPU.
    Io(Duration),
    /// `sched_setattr()` and `sched_setaffinity()` for a task, if it has not exited.
    Change(TaskId, Attributes),
    Exit,
}

/// Returns what a task does next, at this time.
pub type Script<'a> = Box<dyn FnMut(TaskId, Instant) -> Act + 'a>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStats {
    pub wakeups: u64,
    /// From the event that woke it to its running.
    pub latency_max: Duration,
    pub migrations: u64,
    pub run_time: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuStats {
    pub busy: Duration,
    /// By the kernel's own work.
    pub held_up: Duration,
    /// Time asleep in each state, from the decision to the wake-up event.
    pub asleep: Vec<Duration>,
    pub entries: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    pub events: u64,
    pub cpus: Vec<CpuStats>,
    pub tasks: Vec<TaskStats>,
}

/// A platform for tasks that scripts drive.
pub struct Bench {
    pub platform: Platform,
    pub hardware: Hardware,
    topology: Topology,
    models: Vec<CpuModel>,
    workload: Workload,
}

const WAITS: State = State::Blocked(Blocked::Script);

/// No task of this kind starts by itself.
const WORKLOAD: &str = "name = \"bench\"\ntitle = \"bench\"\nsource = \"none\"\n\
    [[task]]\nname = \"task\"\nphase = [{ run_us = 1 }]\n";

impl Bench {
    pub fn new(platform: Platform) -> Bench {
        let mut workload = from_toml("bench", WORKLOAD).expect("it has a task");
        workload.tasks[0].count = 0;
        let grid = TickGrid::new(platform.hz, Duration::ZERO);
        let cpus = (0..platform.cpu_count() as u32).map(CpuId);
        let model = |cpu| {
            let cluster = platform.cluster_of(cpu).expect("every CPU is in a cluster");
            let table = &platform.clusters[cluster];
            CpuModel {
                watches_deepest: false,
                ..CpuModel::new(&platform, table, grid, Duration::MAX, |_| false)
            }
        };
        Bench {
            hardware: Hardware::of_platform(&platform),
            topology: Topology::new(&platform, None),
            models: cpus.map(model).collect(),
            platform,
            workload,
        }
    }

    /// A machine of so many equal CPUs, cores of the platform's first cluster, of which 8 share a
    /// cache.
    pub fn wide(mut platform: Platform, cpus: u32) -> Bench {
        let clusters = (0..cpus.div_ceil(8)).map(|nth| {
            let mut cluster = platform.clusters[0].clone();
            cluster.cpus = (8 * nth..cpus.min(8 * nth + 8)).map(CpuId).collect();
            cluster.smt.threads = 1;
            cluster
        });
        platform.clusters = clusters.collect();
        Bench::new(platform)
    }

    pub fn start<'a>(
        &'a self,
        instance: Instance,
        script: impl FnMut(TaskId, Instant) -> Act + 'a,
    ) -> Machine<'a, Unobserved> {
        let plan = Plan {
            platform: &self.platform,
            topology: &self.topology,
            models: &self.models,
            workload: &self.workload,
            devices: &[],
            overheads: Overheads::of(&self.platform),
            seed: 1,
        };
        let script = Some(Box::new(script) as Script<'a>);
        Machine::new(plan, instance, self.hardware.clone(), Unobserved, script)
    }
}

impl<S: Sink> Machine<'_, S> {
    /// Adds a scripted task, which is counted as a kind of its own.
    pub fn add_task(&mut self, setup: TaskSetup) -> Result<TaskId, Trouble> {
        let kind = self.world.kinds.len();
        self.world.kinds.push(TaskTotals::default());
        let task = Task::new(&self.world.plan.workload.tasks[0], kind, 0, 1, self.world.now);
        let id = self.world.place(task);
        (self.world.live, self.world.under_way) = (self.world.live + 1, self.world.under_way + 1);
        let task = self.number(id);
        self.fork(&TaskSetup { number: task.number(), ..setup })?;
        Ok(task)
    }

    /// Has the script perform a task's next act.
    pub(super) fn run_script(&mut self, cpu: usize, id: u32) -> Result<(), Halt> {
        let now = self.world.now;
        let number = TaskId::of(self.world.tasks[id as usize].number);
        self.world.tasks[id as usize].state = State::Runnable;
        let script = self.script.as_mut().expect("the task is scripted");
        match script(number, now) {
            Act::Run(time) => self.push_step(id, Step::Run(time)),
            Act::Sleep(until) => self.sleep_until(id, until),
            Act::Wait => self.leave(id, WAITS),
            Act::Io(time) => {
                self.world.queue.push(now + time, cpu, Event::Completion(id));
                self.leave(id, State::Blocked(Blocked::Io(IoWait::IoSchedule)));
            }
            Act::Wake(other) => match self.slot(other.number()) {
                Some(slot) if self.world.tasks[slot as usize].state == WAITS => {
                    self.wake(slot, now, false);
                }
                _ => self.push_step(id, Step::Wake(other)),
            },
            Act::Change(other, attributes) => self.push_step(id, Step::Change(other, attributes)),
            Act::Exit => self.leave(id, State::Dead),
        }
        Ok(())
    }

    pub fn stats(&self) -> Stats {
        let cpus = self.cpus.iter().map(|cpu| {
            let totals = cpu.tally.clone().close(&cpu.model);
            let mut asleep: Vec<Duration> = totals.states.iter().map(|state| state.time).collect();
            // The one under way; the kernel counts it when it ends.
            if let Some(sleep) = cpu.asleep {
                asleep[sleep.state] += self.world.now.since(sleep.since).max(Duration::ZERO);
            }
            let entries = totals.states.iter().map(|state| state.usage).collect();
            CpuStats { busy: cpu.task_time, held_up: cpu.overhead, asleep, entries }
        });
        let kinds = self.world.kinds.iter().enumerate().skip(1);
        let tasks = kinds.map(|(kind, totals)| {
            let is_it = |task: &&Task| task.kind == kind && task.state != State::Dead;
            let alive = self.world.tasks.iter().find(is_it);
            TaskStats {
                wakeups: totals.wakeups,
                latency_max: totals.latency.latencies().max().unwrap_or(Duration::ZERO),
                migrations: totals.migrations,
                run_time: totals.cpu_time + alive.map_or(Duration::ZERO, |task| task.cpu_time),
            }
        });
        Stats { events: self.world.events, cpus: cpus.collect(), tasks: tasks.collect() }
    }
}
