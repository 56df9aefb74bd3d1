// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The state of the workload: where tasks are in their programs, what they wait on, devices and
//! interrupt sources.

use super::call::CallState;
use super::device::{self, DeviceState};
use super::domain::DomainCounted;
use super::flow::FlowTotals;
use super::hint::Session;
use super::queue::Queue;
use super::rest::RestEnergy;
use super::sources::{self, SourceState};
use super::task::{Blocked, State, Task};
use super::{Counted, CpuCounted, Event, Plan};
use crate::error::Stuck;
use crate::workload::{Effect, Runs, Workload};
use std::collections::VecDeque;
use torpor_machine::units::{Duration, Instant};
use torpor_result::TaskTotals;

/// Most tasks alive at once; more are a program that forks without end.
const TASKS_MAX: usize = 20_000;

pub(super) struct World<'a> {
    pub plan: Plan<'a>,
    pub now: Instant,
    /// Start of the time that counters cover.
    pub counts_from: Instant,
    pub queue: Queue<Event>,
    pub tasks: Vec<Task>,
    pub free: Vec<u32>,
    pub kinds: Vec<TaskTotals>,
    /// Blocks of each kind's file that the page cache holds.
    pub cached: Vec<u64>,
    /// Tasks of each kind that were ever started.
    pub next_instance: Vec<u64>,
    /// Number of initial tasks that have started.
    pub begun: Vec<u32>,
    pub live: usize,
    /// Tasks that continue without another task.
    pub under_way: usize,
    pub channels: Vec<Channel>,
    pub barriers: Vec<Vec<u32>>,
    pub sources: Vec<SourceState>,
    /// One for each of the workload's activities.
    pub runs: Vec<Runs>,
    pub devices: Vec<DeviceState>,
    pub calls: CallState,
    /// One for each of the workload's.
    pub flows: Vec<FlowTotals>,
    pub sessions: Vec<Session>,
    pub ipis: u64,
    /// Set at the end of the run.
    pub timer_programmings: u64,
    pub events: u64,
    /// Steps of programs, over all tasks.
    pub steps: u64,
}

/// Contents of a channel, and the tasks that wait for it.
#[derive(Clone, Debug)]
pub(super) struct Channel {
    pub held: u64,
    pub waiters: VecDeque<u32>,
    /// Events that brought what it holds, with how much each brought, if flows are timed.
    posted: Option<VecDeque<(Instant, u64)>>,
}

impl Channel {
    pub(super) fn put(&mut self, count: u64, event: Instant) {
        self.held += count;
        if let Some(posted) = &mut self.posted {
            posted.push_back((event, count));
        }
    }

    /// Takes from the channel; returns the event that brought the last unit, if known.
    pub(super) fn take(&mut self, count: u64) -> Option<Instant> {
        self.held -= count;
        let posted = self.posted.as_mut()?;
        let (mut left, mut event) = (count, None);
        while let Some((at, there)) = posted.front_mut().filter(|_| left > 0) {
            event = Some(*at);
            let taken = left.min(*there);
            left -= taken;
            *there -= taken;
            if *there == 0 {
                posted.pop_front();
            }
        }
        event
    }
}

impl<'a> World<'a> {
    pub(super) fn new(plan: Plan<'a>) -> World<'a> {
        let workload = plan.workload;
        let posted = (!workload.flows.is_empty()).then(VecDeque::new);
        let channel = |c: &crate::workload::Channel| Channel {
            held: c.held,
            waiters: VecDeque::new(),
            posted: posted.clone(),
        };
        World {
            plan,
            now: Instant(0),
            counts_from: Instant(0),
            queue: Queue::new(plan.topology.cpus),
            tasks: Vec::with_capacity(tasks_at_first(workload)),
            free: Vec::new(),
            kinds: vec![TaskTotals::default(); workload.tasks.len()],
            cached: vec![0; workload.tasks.len()],
            next_instance: vec![0; workload.tasks.len()],
            begun: vec![0; workload.tasks.len()],
            live: 0,
            under_way: 0,
            channels: workload.channels.iter().map(channel).collect(),
            barriers: vec![Vec::new(); workload.barriers.len()],
            sources: sources::sources(workload, plan.seed),
            runs: workload.activities.iter().map(|a| Runs::new(a, plan.seed)).collect(),
            devices: device::devices(plan.devices, plan.topology.cpus, plan.seed),
            calls: CallState::default(),
            flows: vec![FlowTotals::default(); workload.flows.len()],
            sessions: vec![Session::new(); workload.flows.len()],
            ipis: 0,
            timer_programmings: 0,
            events: 0,
            steps: 0,
        }
    }

    /// A new task of a kind, which no CPU has yet.
    pub(super) fn new_task(&mut self, kind: usize) -> Result<u32, Stuck> {
        let workload = self.plan.workload;
        let instance = self.next_instance[kind];
        self.next_instance[kind] += 1;
        let own = &workload.tasks[kind];
        let mut task = Task::new(own, kind, instance, self.plan.seed, self.now);
        task.woken_by = Some(self.now);
        for (flow, session) in workload.flows.iter().zip(&self.sessions) {
            if flow.hint.as_ref().is_some_and(|hint| hint.tasks.contains(&kind)) {
                task.uclamp.min = session.min().min(task.uclamp.max);
            }
        }
        self.kinds[kind].started += 1;
        let id = self.place(task);
        if workload.tasks[kind].completes_for().is_none() {
            self.live += 1;
            self.under_way += 1;
        }
        if self.live > TASKS_MAX {
            let reason = format!("more than {TASKS_MAX} tasks are alive: runaway `spawn`");
            return Err(self.stuck(id, reason));
        }
        Ok(id)
    }

    /// Puts a task into a free slot.
    pub(super) fn place(&mut self, task: Task) -> u32 {
        if let Some(id) = self.free.pop() {
            self.tasks[id as usize] = task;
            return id;
        }
        self.tasks.push(task);
        (self.tasks.len() - 1) as u32
    }

    /// A task whose timer has expired is runnable. The event is the timer's interrupt at the end of its
    /// slack, or an earlier one, `interrupted`.
    pub(super) fn timer_wakes(&mut self, id: u32, interrupted: Instant) {
        let Task { state, sleeps_until, kind, .. } = self.tasks[id as usize];
        if state == State::Blocked(Blocked::Timer) {
            // A bench has tasks without a workload.
            let of_kind = self.plan.workload.tasks.get(kind);
            let slack = of_kind.map_or(Duration::ZERO, |kind| kind.timer_slack);
            self.woken(id, interrupted.max(sleeps_until).min(sleeps_until + slack));
        }
    }

    /// A task that waited is runnable.
    pub(super) fn woken(&mut self, id: u32, event: Instant) {
        let task = &mut self.tasks[id as usize];
        if let State::Blocked(Blocked::Channel { .. } | Blocked::Barrier(_)) = task.state {
            self.under_way += 1;
        }
        task.state = State::Runnable;
        task.woken_by = Some(event);
        self.kinds[task.kind].wakeups += 1;
    }

    /// Frees the slot of a task that has ended.
    pub(super) fn bury(&mut self, id: u32) {
        let task = &self.tasks[id as usize];
        let totals = &mut self.kinds[task.kind];
        totals.ended += 1;
        totals.cpu_time += task.cpu_time;
        self.live -= 1;
        self.under_way -= 1;
        self.free.push(id);
    }

    /// The task has the CPU again, from `from` on.
    pub(super) fn begins(&mut self, id: u32, from: Instant) {
        let task = &mut self.tasks[id as usize];
        if let Some(event) = task.woken_by.take() {
            task.called = event;
            self.kinds[task.kind].latency.record(from.since(event));
        }
    }

    /// Resets all counters.
    pub(super) fn start_over(&mut self) {
        self.counts_from = self.now;
        for totals in &mut self.kinds {
            *totals = TaskTotals { started: totals.started, ..TaskTotals::default() };
        }
        self.tasks.iter_mut().for_each(|task| task.cpu_time = Duration::ZERO);
        for device in &mut self.devices {
            device.count_to(self.now);
            device.totals = device::DeviceTotals::default();
        }
        self.flows.iter_mut().for_each(FlowTotals::start_over);
        (self.ipis, self.events) = (0, 0);
    }

    /// Takes everything counted, with what its CPUs and clocks did.
    pub(super) fn take(
        &mut self,
        cpus: Vec<CpuCounted>,
        rest: RestEnergy,
        domains: Vec<DomainCounted>,
    ) -> Counted {
        let mut alive = Vec::new();
        for task in self.tasks.iter_mut().filter(|t| t.state != State::Dead) {
            let cpu_time = std::mem::take(&mut task.cpu_time);
            self.kinds[task.kind].cpu_time += cpu_time;
            alive.push((task.kind, task.instance, cpu_time));
        }
        let from = std::mem::replace(&mut self.counts_from, self.now);
        let devices = self.devices.iter_mut().map(|device| std::mem::take(&mut device.totals));
        Counted {
            sections: Vec::new(),
            from,
            span: self.now.since(from),
            cpus,
            kinds: self.kinds.iter_mut().map(std::mem::take).collect(),
            devices: devices.collect(),
            flows: self.flows.iter_mut().map(FlowTotals::take).collect(),
            ipis: std::mem::take(&mut self.ipis),
            timer_programmings: std::mem::take(&mut self.timer_programmings),
            events: std::mem::take(&mut self.events),
            static_energy: rest.of_clusters,
            shared_energy: rest.unsaved,
            awake_energy: rest.of_package,
            domains,
            cgroups: Vec::new(),
            alive,
            ejection: None,
            against_oracle: None,
        }
    }

    /// Whether an interrupt or a task that starts later may wake a task.
    pub(super) fn help_may_come(&self) -> bool {
        let sources = self.sources.iter().zip(&self.plan.workload.interrupts);
        let starts = 0..self.plan.workload.tasks.len();
        sources.into_iter().any(|(state, s)| state.is_active && s.effect != Effect::Nothing)
            || starts.into_iter().any(|kind| self.starts_left(kind))
    }

    /// Whether some tasks that are there from the beginning are still to start.
    pub(super) fn starts_left(&self, kind: usize) -> bool {
        self.begun[kind] < self.plan.workload.tasks[kind].count
    }

    /// Returns the error of a task that cannot continue.
    pub(super) fn stuck(&self, task: u32, reason: impl Into<String>) -> Stuck {
        let task = &self.tasks[task as usize];
        let kind = &self.plan.workload.tasks[task.kind];
        let place = kind.program.get(task.step).map_or("its end", |step| &step.place);
        Stuck {
            task: kind.name.clone(),
            instance: task.instance,
            place: place.to_owned(),
            time: self.now,
            reason: reason.into(),
        }
    }
}

/// Returns the number of initial tasks, up to the limit.
fn tasks_at_first(workload: &Workload) -> usize {
    let all: u64 = workload.tasks.iter().map(|task| u64::from(task.count)).sum();
    all.min(TASKS_MAX as u64) as usize
}
