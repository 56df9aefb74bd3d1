// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The simulated machine: CPUs, tasks and devices, and the loop that takes what happens next.
//!
//! Every CPU has one entry on the [`Agenda`]: the next moment at which something happens to it of
//! itself (a state left, a timer, the tick, work done). What others do to it moves that entry.

mod balance;
mod boost;
mod counted;
mod cpu;
mod device;
mod events;
mod flow;
mod freq;
mod hint;
mod idle;
mod place;
mod program;
mod record;
mod rest;
mod schedule;
mod sink;
mod sources;
mod task;
mod wake;

pub use counted::{AgainstOracle, Counted, CpuCounted};
pub use device::DeviceTotals;
pub use flow::FlowTotals;
pub use freq::DomainCounted;
pub use record::TIMER_SYMBOLS;
pub use sink::Sink;

use crate::cpufreq::Cpufreq;
use crate::error::{Halt, Stuck};
use crate::options::Overheads;
use crate::queue::Agenda;
use crate::sched::{Clamp, CpuMask, FairQueue, RunqueueClamp, Topology, Tournament, Tunables};
use crate::workload::{Device, Workload};
use boost::Boost;
use cpu::{Cpu, Mode};
use device::DeviceState;
use freq::{BusyAt, Domain};
use hint::Session;
use rest::Rest;
use sources::SourceState;
use std::collections::{BinaryHeap, VecDeque};
use task::{State, Task};
use torpor_engine::idle_loop::IdleCpu;
use torpor_engine::input::{SleepSource, Span, WakeStamp};
use torpor_engine::model::CpuModel;
use torpor_engine::pelt;
use torpor_engine::policy::Policy;
use torpor_governor::IoBoostInstance;
use torpor_platform::Platform;
use torpor_result::TaskTotals;
use torpor_units::{Duration, Instant};

/// So many events at one moment mean that time does not pass any more.
const EVENTS_AT_ONCE_MAX: u64 = 10_000_000;
/// How often the run is asked whether to go on: after so many events, and steps of tasks, of which
/// one event may have many.
const EFFORT_A_LOOK: u64 = 1 << 16;

/// What a machine is made of; shared by all runs.
pub struct Plan<'a> {
    pub platform: &'a Platform,
    pub topology: &'a Topology,
    /// One a CPU.
    pub models: &'a [CpuModel],
    pub workload: &'a Workload,
    /// One for each of the workload's.
    pub devices: &'a [Device],
    pub overheads: Overheads,
    pub cpufreq: Cpufreq,
    pub seed: u64,
}

pub struct Machine<'a, P, S> {
    plan: &'a Plan<'a>,
    policy: P,
    sink: S,
    now: Instant,
    agenda: Agenda,
    cpus: Vec<Cpu<'a>>,
    /// CPUs with nothing to run.
    idle_cpus: CpuMask,
    /// CPUs with tasks that wait.
    crowded: CpuMask,
    /// Runnable tasks of each CPU.
    counts: Tournament,
    /// Utilization of each CPU, by cluster; kept where placement or schedutil asks for it.
    utils: Vec<Tournament>,
    keeps_utils: bool,
    overutilized: usize,
    /// The idle CPU whose utilization is renewed next.
    refresh_next: usize,
    tunables: Tunables,
    affinity: Vec<Option<CpuMask>>,
    /// One a cluster.
    domains: Vec<Domain>,
    /// Frequencies follow utilization.
    has_schedutil: bool,
    /// A task has clamps: without, nothing is kept for them, as in the kernel.
    has_uclamp: bool,
    /// One of these, or an IO boost, wants to know when tasks come and go.
    is_watched: bool,
    /// By CPU: of its runnable tasks, and what it was busy with.
    clamps: Vec<RunqueueClamp>,
    busy: Vec<BusyAt>,
    boost: Boost,

    tasks: Vec<Task>,
    free: Vec<u32>,
    kinds: Vec<TaskTotals>,
    /// Tasks of each kind that were ever started.
    next_instance: Vec<u64>,
    /// Of those that are there from the beginning, how many have started.
    begun: Vec<u32>,
    next_pid: i32,
    live: usize,
    /// Tasks that will go on without another task's doing.
    under_way: usize,
    channels: Vec<Channel>,
    barriers: Vec<Vec<u32>>,
    sources: Vec<SourceState>,
    devices: Vec<DeviceState>,
    /// One for each of the workload's.
    flows: Vec<FlowTotals>,
    sessions: Vec<Session>,

    timer_sequence: u64,
    ipis: u64,
    events: u64,
    /// That tasks went through in their programs.
    steps: u64,
    rest: Rest,
}

/// What a channel holds, and who waits for it.
#[derive(Clone, Debug)]
struct Channel {
    held: u64,
    waiters: VecDeque<u32>,
}

impl Channel {
    fn new(channel: &crate::workload::Channel) -> Channel {
        Channel { held: channel.held, waiters: VecDeque::new() }
    }
}

impl<'a, P: Policy, S: Sink> Machine<'a, P, S> {
    pub fn new(plan: &'a Plan<'a>, policy: P, sink: S) -> Machine<'a, P, S> {
        let Plan { topology, models, workload, platform, .. } = *plan;
        let domains: Vec<Domain> = (platform.clusters.iter().enumerate())
            .map(|(number, cluster)| Domain::new(number, cluster, plan.cpufreq))
            .collect();
        let domain_of = |slot: usize| &domains[topology.cluster_of[slot].0];
        let cpus: Vec<Cpu<'a>> = models
            .iter()
            .enumerate()
            .map(|(slot, model)| new_cpu(model, slot, domain_of(slot)))
            .collect();
        let count = cpus.len();
        let has_hint = workload.flows.iter().any(|flow| flow.hint.is_some());
        let has_uclamp = has_hint || workload.tasks.iter().any(|t| t.clamp != Clamp::NONE);
        let busy = (0..count).map(|slot| BusyAt::new(domain_of(slot).opp_count())).collect();
        let has_schedutil = domains.iter().any(Domain::is_governed);
        Machine {
            plan,
            policy,
            sink,
            now: Instant(0),
            agenda: Agenda::new(&events::counts::<P, S>(plan)),
            cpus,
            idle_cpus: CpuMask::empty(count),
            crowded: CpuMask::empty(count),
            counts: Tournament::new(count),
            utils: topology.clusters.iter().map(|c| Tournament::new(c.len())).collect(),
            keeps_utils: topology.is_asymmetric || has_schedutil,
            overutilized: 0,
            refresh_next: 0,
            tunables: Tunables::new(topology.online_count),
            affinity: workload
                .tasks
                .iter()
                .map(|t| t.cpus.as_ref().map(|cpus| topology.mask(cpus)))
                .collect(),
            rest: Rest::new(platform, topology, domains.iter().map(|d| d.opp)),
            domains,
            has_schedutil,
            has_uclamp,
            is_watched: has_schedutil || has_uclamp,
            clamps: vec![RunqueueClamp::default(); count],
            busy,
            boost: Boost::default(),
            tasks: Vec::with_capacity(tasks_at_first(workload)),
            free: Vec::new(),
            kinds: vec![TaskTotals::default(); workload.tasks.len()],
            next_instance: vec![0; workload.tasks.len()],
            begun: vec![0; workload.tasks.len()],
            next_pid: 100,
            live: 0,
            under_way: 0,
            channels: workload.channels.iter().map(Channel::new).collect(),
            barriers: vec![Vec::new(); workload.barriers.len()],
            sources: sources::sources(workload, plan.seed),
            devices: device::devices(plan.devices, count, plan.seed),
            flows: vec![FlowTotals::default(); workload.flows.len()],
            sessions: vec![Session::new(); workload.flows.len()],
            timer_sequence: 0,
            ipis: 0,
            events: 0,
            steps: 0,
        }
    }

    /// With something that boosts what waits for IO: made for the plan's CPUs, and for as many
    /// tasks as its workload may have.
    pub fn with_io_boost(mut self, boost: IoBoostInstance) -> Self {
        self.has_uclamp |= boost.sets_uclamp_min();
        self.is_watched = true;
        self.boost = boost.into();
        self
    }

    /// Runs from 0 to `end`. `goes_on` is asked now and then, with the time.
    pub fn run(
        &mut self,
        end: Instant,
        goes_on: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<(), Halt> {
        self.start()?;
        let (mut moment, mut since, mut look_at) = (Instant(-1), 0, EFFORT_A_LOOK);
        while let Some((time, who)) = self.agenda.peek() {
            if time >= end {
                break;
            }
            if time != moment {
                (moment, since) = (time, self.events);
            } else if self.events - since > EVENTS_AT_ONCE_MAX {
                return Err(self.stuck_anywhere("time does not pass any more").into());
            }
            assert!(time >= self.now, "time never runs backwards");
            self.now = time;
            self.events += 1;
            if self.events + self.steps >= look_at {
                look_at = self.events + self.steps + EFFORT_A_LOOK;
                if !goes_on(time) {
                    return Err(Halt::Interrupted);
                }
            }
            self.happen(who)?;
            if let Some(fault) = self.boost.fault() {
                return Err(fault.clone().into());
            }
        }
        self.now = end;
        self.cut();
        Ok(())
    }

    fn start(&mut self) -> Result<(), Halt> {
        if S::RECORDS {
            self.record_first_frequencies();
        }
        self.start_sources()
    }

    /// The end of the run: what is under way is counted up to now.
    fn cut(&mut self) {
        for device in &mut self.devices {
            device.count_to(self.now);
        }
        for number in 0..self.cpus.len() {
            self.account(number);
            let now = self.now;
            let cpu = &mut self.cpus[number];
            self.busy[number].settle(cpu, now);
            cpu.overhead -= cpu.ahead(now);
            if let Some(pending) = &cpu.pending {
                cpu.idle.cut(&cpu.span, pending, now);
                self.rest.left(number, pending.state(), now);
                let slept = now.since(pending.from);
                self.sink.cut(number, pending.state(), cpu.span.opp, slept);
                self.end_span(number, now, now);
            }
            self.leave_span(number, false);
        }
    }

    pub fn finish(self) -> (Counted, S) {
        let mut kinds = self.kinds;
        let mut alive = Vec::new();
        for task in self.tasks.iter().filter(|t| t.state != State::Dead) {
            kinds[task.kind].cpu_time += task.cpu_time;
            alive.push((task.kind, task.instance, task.cpu_time));
        }
        let rest = self.rest.close(self.now);
        let domains = self.domains.into_iter().map(|domain| domain.close(self.now)).collect();
        let online = &self.plan.topology.online;
        let cpus = self.cpus.into_iter().zip(self.busy).enumerate();
        let cpus = cpus.map(|(number, (cpu, busy))| CpuCounted {
            is_online: online.contains(number),
            totals: cpu.idle.close(),
            task_time: cpu.task_time,
            overhead: cpu.overhead,
            busy_at: busy.by_opp,
        });
        let counted = Counted {
            span: self.now.since(Instant(0)),
            cpus: cpus.collect(),
            kinds,
            devices: self.devices.into_iter().map(|device| device.totals).collect(),
            flows: self.flows,
            ipis: self.ipis,
            events: self.events,
            static_energy: rest.of_clusters,
            shared_energy: rest.unsaved,
            awake_energy: rest.of_package,
            domains,
            alive,
            against_oracle: None,
        };
        (counted, self.sink)
    }

    /// Says of a task that it cannot go on.
    fn stuck(&self, task: u32, reason: impl Into<String>) -> Stuck {
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

    fn stuck_anywhere(&self, reason: &str) -> Stuck {
        let latest = (0..self.tasks.len()).max_by_key(|t| self.tasks[*t].last_step);
        match latest {
            Some(task) => self.stuck(task as u32, reason),
            None => Stuck {
                task: "none".to_owned(),
                instance: 0,
                place: "no phase".to_owned(),
                time: self.now,
                reason: reason.to_owned(),
            },
        }
    }
}

/// Those that are there from the beginning, as far as there may be so many.
fn tasks_at_first(workload: &Workload) -> usize {
    let all: u64 = workload.tasks.iter().map(|task| u64::from(task.count)).sum();
    all.min(workload.tasks_max as u64) as usize
}

/// FIDELITY(sim-rcu): RCU never holds the tick.
fn new_cpu<'a>(model: &'a CpuModel, slot: usize, domain: &Domain) -> Cpu<'a> {
    let start = Instant(0);
    let span = Span {
        start,
        wake: Instant::NEVER,
        resume: Instant::NEVER,
        next_hrtimer: Instant::NEVER,
        next_wheel: Instant::NEVER,
        freq_khz: 0,
        opp: domain.opp,
        util: 0,
        source: SleepSource::TimerEvents,
        stamp: WakeStamp::WakingEvent,
        ends_visit: false,
        is_resched: false,
        nr_iowait: 0,
        nr_running: 0,
        rcu_holds_tick: false,
    };
    Cpu {
        mode: Mode::Asleep,
        idle: IdleCpu::new(model, slot, start),
        pending: None,
        span,
        idle_since: None,
        ended: None,
        running: None,
        queue: FairQueue::default(),
        load: pelt::Runqueue::new(
            0,
            pelt::Scale { capacity: model.capacity, freq: domain.freq_scale() },
        ),
        util_est: 0,
        from: start,
        timers: BinaryHeap::new(),
        irqs: VecDeque::new(),
        iowait: 0,
        needs_resched: false,
        ipi: Instant::NEVER,
        tick: Instant::NEVER,
        speed: domain.speed(model.capacity),
        capacity: u64::from(model.capacity),
        task_time: Duration::ZERO,
        overhead: Duration::ZERO,
        is_overutilized: false,
        idle_calls: 0,
    }
}
