// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The simulated machine: CPUs, tasks and devices, and the loop that takes what happens next.
//!
//! Every CPU has one entry on the [`Agenda`]: the next moment at which something happens to it of
//! itself (a state left, a timer, the tick, work done). What others do to it moves that entry.

mod balance;
mod boost;
mod call;
mod counted;
mod cpu;
mod device;
mod driver;
mod effects;
mod events;
mod flow;
mod freq;
mod heat;
mod hint;
pub mod hosted;
mod idle;
mod place;
mod program;
mod record;
mod rest;
mod schedule;
mod sink;
mod sources;
mod task;
mod trace;
mod wake;
mod world;

pub use counted::{AgainstOracle, Counted, CpuCounted};
pub use device::DeviceTotals;
pub use flow::FlowTotals;
pub use freq::DomainCounted;
pub(crate) use freq::govern;
pub use heat::ZoneCounted;
pub use sink::Sink;
pub use trace::TIMER_SYMBOLS;

use crate::cpufreq::Cpufreq;
use crate::error::Halt;
use crate::options::Overheads;
use crate::queue::Agenda;
use crate::sched::{Clamp, CpuMask, FairQueue, RunqueueClamp, Topology, Tournament, Tunables};
use crate::workload::{Device, Workload};
use boost::Boost;
use cpu::{Cpu, Line, Mode, Timer};
use driver::Driver;
use freq::{BusyAt, Domain};
use heat::Zone;
use rest::Rest;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use task::{Blocked, State};
use torpor_engine::idle_loop::IdleCpu;
use torpor_engine::input::{SleepSource, Span, WakeStamp};
use torpor_engine::model::CpuModel;
use torpor_engine::pelt;
use torpor_engine::policy::Policy;
use torpor_governor::{CpufreqInstance, IoBoostInstance};
use torpor_kernel::LastMan;
use torpor_platform::Platform;
use torpor_units::{Duration, Instant};
use world::{Host, World};

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
    pub cpufreq: &'a Cpufreq,
    pub seed: u64,
}

pub struct Machine<'a, P, S> {
    world: World<'a>,
    policy: P,
    sink: S,
    cpus: Vec<Cpu<'a>>,
    /// CPUs with nothing to run.
    idle_cpus: CpuMask,
    /// CPUs with tasks that wait.
    crowded: CpuMask,
    /// Runnable tasks of each CPU.
    counts: Tournament,
    /// Placement asks whether CPUs are overutilized.
    keeps_utils: bool,
    overutilized: usize,
    /// The idle CPU whose utilization is renewed next.
    refresh_next: usize,
    tunables: Tunables,
    affinity: Vec<Option<CpuMask>>,
    /// One a cluster.
    domains: Vec<Domain>,
    /// What frequencies follow; none where they are held.
    governed: Option<CpufreqInstance>,
    /// A task has clamps: without, nothing is kept for them, as in the kernel.
    has_uclamp: bool,
    /// One of these, or an IO boost, wants to know when tasks come and go.
    is_watched: bool,
    /// By CPU: of its runnable tasks, and what it was busy with.
    clamps: Vec<RunqueueClamp>,
    busy: Vec<BusyAt>,
    boost: Boost,

    timer_sequence: u64,
    rest: Rest,
    /// One for each of the platform's.
    zones: Vec<Zone>,
    /// Where latencies of states depend on other CPUs.
    last_man: Option<LastMan>,
    driver: Driver,
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
        Machine {
            world: World::new(plan, Agenda::new(&events::counts::<P, S>(plan))),
            policy,
            sink,
            cpus,
            idle_cpus: CpuMask::empty(count),
            crowded: CpuMask::empty(count),
            counts: Tournament::new(count),
            keeps_utils: topology.is_asymmetric,
            overutilized: 0,
            refresh_next: 0,
            tunables: Tunables::new(topology.online_count, models[0].tick.hz.tick()),
            affinity: workload
                .tasks
                .iter()
                .map(|t| t.cpus.as_ref().map(|cpus| topology.mask(cpus)))
                .collect(),
            rest: Rest::new(platform, topology, domains.iter().map(|d| d.opp)),
            zones: platform.thermal_zones.iter().map(Zone::new).collect(),
            driver: Driver::new(platform, topology, plan.seed),
            domains,
            governed: None,
            has_uclamp,
            is_watched: has_uclamp,
            clamps: vec![RunqueueClamp::default(); count],
            busy,
            boost: Boost::default(),
            timer_sequence: 0,
            last_man: LastMan::of_platform(platform),
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

    /// With a frequency policy, made for the plan's domains.
    pub fn with_cpufreq(mut self, policy: CpufreqInstance) -> Self {
        if self.domains.iter().any(|domain| !domain.freqs_khz.is_empty()) {
            self.keeps_utils = true;
            self.is_watched = true;
            self.governed = Some(policy);
        }
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
        while let Some((time, who)) = self.world.agenda.peek() {
            if time >= end {
                break;
            }
            if time != moment {
                (moment, since) = (time, self.world.events);
            } else if self.world.events - since > EVENTS_AT_ONCE_MAX {
                return Err(self.world.stuck_anywhere("time does not pass any more").into());
            }
            assert!(time >= self.world.now, "time never runs backwards");
            self.world.now = time;
            self.world.events += 1;
            if self.world.events + self.world.steps >= look_at {
                look_at = self.world.events + self.world.steps + EFFORT_A_LOOK;
                if !goes_on(time) {
                    return Err(Halt::Interrupted);
                }
            }
            self.happen(who)?;
            let of_policy = self.governed.as_ref().and_then(CpufreqInstance::fault);
            if let Some(fault) = self.boost.fault().or(of_policy) {
                return Err(fault.clone().into());
            }
        }
        self.world.now = end;
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
        for device in &mut self.world.devices {
            device.count_to(self.world.now);
        }
        for number in 0..self.cpus.len() {
            self.account(number);
            let now = self.world.now;
            let cpu = &mut self.cpus[number];
            self.busy[number].settle(cpu, now);
            cpu.overhead -= cpu.ahead(now);
            if let Some(pending) = &cpu.pending {
                cpu.idle.cut(&cpu.span, pending, now);
                if !pending.is_rejected() {
                    self.rest.left(number, cpu.rests_in, now);
                    let slept = now.since(pending.from);
                    self.sink.cut(number, pending.state(), cpu.span.opp, slept);
                }
                self.end_span(number, now, now);
            }
            self.leave_span(number, false);
        }
        for zone in 0..self.zones.len() {
            self.heat_up(zone);
        }
    }

    pub fn finish(self) -> (Counted, S) {
        let now = self.world.now;
        let domains = self.domains.into_iter().map(|domain| domain.close(now)).collect();
        let online = &self.world.plan.topology.online;
        let cpus = self.cpus.into_iter().zip(self.busy).enumerate();
        let cpus = cpus.map(|(number, (cpu, busy))| CpuCounted {
            is_online: online.contains(number),
            totals: cpu.idle.close(),
            task_time: cpu.task_time,
            overhead: cpu.overhead,
            busy_at: busy.by_opp,
        });
        let zones = self.zones.into_iter().map(Zone::close).collect();
        let counted = self.world.close(cpus.collect(), self.rest.close(now), domains);
        (Counted { zones, ..counted }, self.sink)
    }
}

impl<'a, P: Policy, S: Sink> Host<'a> for Machine<'a, P, S> {
    #[inline]
    fn world(&mut self) -> &mut World<'a> {
        &mut self.world
    }

    fn wake(&mut self, id: u32, by: Option<usize>, event: Instant, sync: bool) {
        self.wake_up(id, by, event, sync);
    }

    fn leave(&mut self, number: usize, _: u32, state: State) -> Result<(), Halt> {
        self.leaves(number, state)
    }

    fn sleep_until(&mut self, number: usize, id: u32, until: Instant) -> Result<(), Halt> {
        self.timer_sequence += 1;
        let kind = &self.world.plan.workload.tasks[self.world.tasks[id as usize].kind];
        let timer = Timer {
            expires: until + kind.timer_slack,
            sequence: self.timer_sequence,
            softexpires: until,
            task: id,
        };
        self.cpus[number].timers.push(Reverse(timer));
        if S::RECORDS {
            self.record_timer_start(number, &timer);
        }
        self.leaves(number, State::Blocked(Blocked::Timer))
    }

    fn admit(&mut self, id: u32, by: Option<usize>, near: usize) {
        self.begin(id, by, near);
    }

    fn interrupt(&mut self, number: usize, line: Line) -> Result<(), Halt> {
        self.raise(number, line)
    }

    fn has_interrupts(&self) -> bool {
        self.cpus.iter().any(|cpu| !cpu.irqs.is_empty())
    }

    fn hold_up(&mut self, number: usize, length: Duration) {
        self.cpus[number].hold_up(self.world.now, length);
    }

    fn held_until(&self, number: usize) -> Instant {
        self.cpus[number].from
    }

    /// Sending IPIs takes the waker's time; a better task may have come to this CPU.
    #[inline]
    fn stops(&self, number: usize, _: u32) -> bool {
        let cpu = &self.cpus[number];
        cpu.from > self.world.now || cpu.needs_resched
    }

    fn reclamp(&mut self, id: u32) {
        self.set_clamp(id);
    }

    fn release(&mut self, id: u32) -> Result<(), Halt> {
        let number = self.world.tasks[id as usize].cpu;
        let runs = self.cpus[number].running == Some(id);
        if runs {
            self.account(number);
        }
        self.world.tasks[id as usize].work = 0;
        if runs { self.go_on(number) } else { Ok(()) }
    }
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
        rests_in: 0,
        cold: Duration::ZERO,
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
        available: u64::from(model.capacity),
        task_time: Duration::ZERO,
        overhead: Duration::ZERO,
        is_overutilized: false,
        idle_calls: 0,
    }
}
