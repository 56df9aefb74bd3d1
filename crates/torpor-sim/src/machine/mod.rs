// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A workload on simulated hardware under a kernel. The kernel decides; the machine supplies tasks,
//! devices and interrupts, and counts what the CPUs do.

mod call;
mod counted;
mod device;
mod domain;
mod driver;
mod effects;
mod events;
mod flow;
mod hint;
mod host;
mod io;
mod irq;
mod mask;
mod program;
mod rest;
mod sink;
mod sleep;
mod sources;
mod task;
mod topology;
mod trace;
mod world;

pub use counted::{AgainstOracle, Counted, CpuCounted};
pub use device::DeviceTotals;
pub use domain::DomainCounted;
pub use flow::FlowTotals;
pub use mask::CpuMask;
pub use sink::Sink;
pub use topology::Topology;
pub use trace::names_of;

use crate::error::Halt;
use crate::hardware::{Handled, Ipi, Outside, Seen, Sim, Step, TaskId, Work};
use crate::kernel::{Attributes, Instance, TaskSetup};
use crate::options::Overheads;
use crate::queue::Agenda;
use crate::workload::attributes::nice_of;
use crate::workload::{Device, Workload};
use domain::Domain;
use driver::Driver;
use irq::{Irq, Line};
use rest::Rest;
use std::collections::VecDeque;
use task::{Blocked, FULL_SPEED, State};
use torpor_engine::model::CpuModel;
use torpor_engine::totals::Tally;
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_trace::{EventKind, InterruptCause, PrevState};
use world::World;

/// Number of a task that has exited.
const GONE: u32 = u32::MAX;

/// The parts of a machine, which all runs share.
pub struct Plan<'a> {
    pub platform: &'a Platform,
    pub topology: &'a Topology,
    /// By CPU.
    pub models: &'a [CpuModel],
    pub workload: &'a Workload,
    /// One for each of the workload's.
    pub devices: &'a [Device],
    pub overheads: Overheads,
    pub seed: u64,
}

/// Runs a plan's workload from 0 to `end` on a kernel that has been started, and counts what
/// happens after `warm_up`.
pub fn run<S: Sink>(
    plan: &Plan<'_>,
    mut instance: Instance,
    hardware: crate::kernel::Machine,
    sink: S,
    (warm_up, end): (Instant, Instant),
    goes_on: &mut dyn FnMut(Instant) -> bool,
) -> Result<(Counted, S), Halt> {
    let mut driver = Driver::new(plan.platform, plan.topology, plan.seed);
    if driver.rejects_any() {
        instance.reject_entries(Box::new(move |cpu, state| driver.rejects(cpu, state)));
    }
    let mut sim = Sim::new(instance, hardware, Machine::new(plan, sink));
    let mut is_interrupted = false;
    let mut goes_on = |now| {
        is_interrupted = !goes_on(now);
        !is_interrupted
    };
    let mut ended = Ok(true);
    let mut before = 0;
    if warm_up > Instant(0) {
        ended = sim.run(warm_up, &mut goes_on);
        before = sim.stats().events;
        sim.work_mut().start_over(warm_up);
    }
    if matches!(ended, Ok(true)) {
        ended = sim.run(end, &mut goes_on);
    }
    let events = sim.stats().events - before;
    let (mut machine, asleep) = sim.into_work();
    if let Some(halt) = machine.halt {
        return Err(halt);
    }
    if is_interrupted {
        return Err(Halt::Interrupted);
    }
    ended?;
    machine.world.now = end;
    machine.world.events += events;
    for (number, slept) in asleep.into_iter().enumerate() {
        machine.cut(number, slept);
    }
    Ok(machine.close())
}

struct Machine<'a, S> {
    world: World<'a>,
    sink: S,
    /// Why the workload cannot go on.
    halt: Option<Halt>,
    cpus: Vec<Cpu<'a>>,
    rest: Rest,
    domains: Vec<Domain>,
    /// By the kernel's numbers of tasks.
    numbered: Vec<Numbered>,
    /// By the workload's.
    number_of: Vec<u32>,
    outside: Vec<Outside>,
    acting: Acting,
}

/// On whose behalf the workload acts.
enum Acting {
    Nobody,
    /// A task, by its number.
    Task(usize),
    /// The handler of a CPU's interrupt.
    Handler {
        cpu: usize,
        handled: Handled,
    },
}

/// A task as the kernel knows it.
struct Numbered {
    id: u32,
    /// Steps of the kernel before the program continues.
    steps: VecDeque<Step>,
    sleeps_until: Instant,
    has_run: bool,
}

struct Cpu<'a> {
    model: &'a CpuModel,
    tally: Tally,
    irqs: VecDeque<Irq>,
    /// The interrupt that its handler is at.
    handles: Option<Line>,
    cluster: usize,
    opp: u16,
    asleep: Option<Asleep>,
    idle_since: Option<Instant>,
    task: Option<u32>,
    task_time: Duration,
    overhead: Duration,
    busy_at: Vec<Duration>,
}

/// The state that a CPU is in.
#[derive(Clone, Copy)]
struct Asleep {
    state: usize,
    /// By the kernel, and by the hardware.
    entered: Instant,
    since: Instant,
    /// The state that the hardware has entered, and when a demoted one has gone on to `state`.
    got: usize,
    undemoted: Option<Instant>,
    /// Its end has been recorded.
    is_recorded: bool,
    /// The driver refuses it: no sleep.
    is_rejected: bool,
}

impl<'a, S: Sink> Machine<'a, S> {
    fn new(plan: &'a Plan<'a>, sink: S) -> Machine<'a, S> {
        let domains: Vec<Domain> = plan.platform.clusters.iter().map(Domain::new).collect();
        let cpus = plan.models.iter().enumerate().map(|(number, model)| {
            let cluster = plan.topology.cluster_of[number].0;
            Cpu {
                model,
                tally: Tally::new(model),
                irqs: VecDeque::new(),
                handles: None,
                cluster,
                opp: domains[cluster].opp,
                asleep: None,
                idle_since: Some(Instant(0)),
                task: None,
                task_time: Duration::ZERO,
                overhead: Duration::ZERO,
                busy_at: vec![Duration::ZERO; domains[cluster].opp_count()],
            }
        });
        let mut machine = Machine {
            world: World::new(plan, Agenda::new(&events::counts(plan))),
            sink,
            halt: None,
            cpus: cpus.collect(),
            rest: Rest::new(plan.platform, plan.topology, domains.iter().map(|d| d.opp)),
            domains,
            numbered: Vec::new(),
            number_of: Vec::new(),
            outside: Vec::new(),
            acting: Acting::Nobody,
        };
        machine.start_sources();
        if S::RECORDS {
            (0..machine.cpus.len()).for_each(|cpu| machine.record_frequency(cpu));
        }
        machine
    }

    fn emit(&mut self, cpu: usize, kind: EventKind) {
        if S::RECORDS {
            self.end_handler(cpu, &kind);
            self.sink.event(self.world.now, cpu, kind);
        }
    }

    /// A handler ends with the first event that is no part of a wake-up.
    fn end_handler(&mut self, cpu: usize, next: &EventKind) {
        let wakes = matches!(
            next,
            EventKind::SchedWaking { .. }
                | EventKind::SchedWakeup { .. }
                | EventKind::SchedWakeupNew { .. }
                | EventKind::IpiSend { .. }
        );
        if let Some(line) = self.cpus[cpu].handles.take_if(|_| !wakes) {
            let exit = EventKind::IrqExit { irq: line.number() };
            self.sink.event(self.world.now, cpu, exit);
        }
    }

    fn record_frequency(&mut self, cpu: usize) {
        if let Some(freq_khz) = self.domains[self.cpus[cpu].cluster].freq_khz() {
            self.emit(cpu, EventKind::CpuFrequency { freq_khz });
        }
    }

    fn pid(&self, id: u32) -> i32 {
        self.world.tasks[id as usize].pid
    }

    /// The pid of a task of the kernel's, unless it is gone.
    fn pid_of(&self, TaskId(number): TaskId) -> Option<i32> {
        let id = self.numbered[number].id;
        (id != GONE).then(|| self.pid(id))
    }

    fn record_switch(&mut self, cpu: usize, next: Option<u32>, at: Instant) {
        let before = std::mem::replace(&mut self.cpus[cpu].task, next);
        if !S::RECORDS {
            return;
        }
        let (prev_pid, prev_state) = match before {
            Some(id) => {
                let task = &self.world.tasks[id as usize];
                (task.pid, prev_state(task.state))
            }
            None => (0, PrevState::Runnable),
        };
        let (next_pid, next_comm) = match next {
            Some(id) => (self.pid(id), Some(trace::name_of(self.world.tasks[id as usize].kind))),
            None => (0, None),
        };
        let switch = EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm };
        self.end_handler(cpu, &switch);
        self.sink.event(at, cpu, switch);
    }

    fn runs(&mut self, cpu: usize, number: usize, switched: Instant, from: Instant) {
        let Numbered { id, sleeps_until, has_run, .. } = self.numbered[number];
        if id == GONE {
            return;
        }
        self.numbered[number].has_run = true;
        let task = &mut self.world.tasks[id as usize];
        if task.cpu != cpu {
            task.cpu = cpu;
            self.world.kinds[task.kind].migrations += u64::from(has_run);
        }
        self.wakes_of_itself(id, sleeps_until);
        self.world.begins(id, from);
        self.record_switch(cpu, Some(id), switched);
    }

    /// Wakes a task whose timer has expired.
    fn wakes_of_itself(&mut self, id: u32, until: Instant) {
        if self.world.tasks[id as usize].state != State::Blocked(Blocked::Timer) {
            return;
        }
        self.world.woken(id, until);
    }

    fn busy(&mut self, cpu: usize, time: Duration) {
        let cpu = &mut self.cpus[cpu];
        cpu.busy_at[usize::from(cpu.opp)] += time;
    }

    /// Resets all counters after the warm-up.
    fn start_over(&mut self, now: Instant) {
        self.world.now = now;
        self.world.start_over();
        self.rest.take(now);
        self.domains.iter_mut().for_each(|domain| domain.start_over(now));
        for cpu in &mut self.cpus {
            cpu.tally = Tally::new(cpu.model);
            (cpu.task_time, cpu.overhead) = (Duration::ZERO, Duration::ZERO);
            cpu.busy_at.fill(Duration::ZERO);
            cpu.idle_since = cpu.idle_since.map(|_| now);
            if let Some(asleep) = &mut cpu.asleep {
                asleep.got = asleep.in_hardware();
                (asleep.since, asleep.undemoted) = (now, None);
            }
        }
        self.sink.start_over();
        if S::RECORDS {
            (0..self.cpus.len()).for_each(|cpu| self.record_frequency(cpu));
        }
    }

    fn close(mut self) -> (Counted, S) {
        let now = self.world.now;
        self.world.devices.iter_mut().for_each(|device| device.count_to(now));
        let domains = self.domains.into_iter().map(|domain| domain.close(now)).collect();
        let online = &self.world.plan.topology.online;
        let cpus = self.cpus.into_iter().enumerate().map(|(number, cpu)| CpuCounted {
            is_online: online.contains(number),
            totals: cpu.tally.close(cpu.model),
            task_time: cpu.task_time,
            overhead: cpu.overhead,
            busy_at: cpu.busy_at,
        });
        let counted = self.world.close(cpus.collect(), self.rest.take(now), domains);
        counted.check_times();
        (counted, self.sink)
    }

    fn fail(&mut self, halt: Halt) {
        self.halt.get_or_insert(halt);
    }

    fn setup(&self, id: u32, number: usize, near: usize) -> TaskSetup {
        let kind = &self.world.plan.workload.tasks[self.world.tasks[id as usize].kind];
        TaskSetup {
            name: kind.name.clone(),
            number: number as u32 + 1,
            forked_on: CpuId(near as u32),
            timer_slack: kind.timer_slack,
            attributes: self.attributes(id),
        }
    }

    fn attributes(&self, id: u32) -> Attributes {
        let task = &self.world.tasks[id as usize];
        let kind = &self.world.plan.workload.tasks[task.kind];
        Attributes {
            policy: kind.policy,
            nice: nice_of(kind.weight),
            uclamp: (task.uclamp.min.into(), task.uclamp.max.into()),
            slice: kind.slice,
            affinity: kind.cpus.iter().flatten().copied().collect(),
        }
    }
}

impl<S: Sink> Work for Machine<'_, S> {
    fn next(&mut self, TaskId(number): TaskId, now: Instant) -> Step {
        self.world.now = now;
        loop {
            let numbered = &mut self.numbered[number];
            if let Some(step) = numbered.steps.pop_front() {
                return step;
            }
            let (id, until) = (numbered.id, numbered.sleeps_until);
            let cpu = self.world.tasks[id as usize].cpu;
            // The timer had expired before the task went to sleep.
            self.wakes_of_itself(id, until);
            self.world.begins(id, now);
            self.acting = Acting::Task(number);
            let went = self.advance(cpu, id);
            self.acting = Acting::Nobody;
            if let Err(halt) = went {
                self.fail(halt);
                return Step::Halt;
            }
            let work = std::mem::take(&mut self.world.tasks[id as usize].work);
            if work > 0 {
                self.numbered[number].steps.push_back(Step::Run(Duration(work / FULL_SPEED)));
            }
        }
    }

    fn due(&self) -> Instant {
        if self.halt.is_some() {
            return Instant::NEVER;
        }
        self.world.agenda.peek().map_or(Instant::NEVER, |(at, _)| at)
    }

    fn happens(&mut self, now: Instant, outside: &mut Vec<Outside>) {
        self.world.now = now;
        match self.happen() {
            Ok(()) => outside.append(&mut self.outside),
            Err(halt) => self.fail(halt),
        }
    }

    fn handle(&mut self, cpu: usize, now: Instant, handled: &mut Handled) {
        self.world.now = now;
        if S::RECORDS {
            self.record_exit_first(cpu);
        }
        self.acting = Acting::Handler { cpu, handled: std::mem::take(handled) };
        while let Some(irq) = self.cpus[cpu].irqs.pop_front() {
            self.emit(cpu, EventKind::IrqEntry { irq: irq.line.number(), name: None });
            self.cpus[cpu].handles = Some(irq.line);
            if let Err(halt) = self.take_interrupt(cpu, irq) {
                self.fail(halt);
                break;
            }
        }
        if let Acting::Handler { handled: done, .. } =
            std::mem::replace(&mut self.acting, Acting::Nobody)
        {
            *handled = done;
        }
    }

    fn watch(&mut self, cpu: usize, now: Instant, seen: Seen) {
        self.world.now = now;
        match seen {
            Seen::Runs { task: TaskId(number), switched, from } => {
                self.runs(cpu, number, switched, from);
            }
            Seen::Preempted(TaskId(number)) => {
                let id = self.numbered[number].id;
                if id != GONE {
                    let kind = self.world.tasks[id as usize].kind;
                    self.world.kinds[kind].preemptions += 1;
                }
            }
            Seen::Idles => self.record_switch(cpu, None, now),
            Seen::Computed { task: TaskId(number), time } => {
                self.cpus[cpu].task_time += time;
                self.busy(cpu, time);
                let id = self.numbered[number].id;
                if id != GONE {
                    self.world.tasks[id as usize].cpu_time += time;
                }
            }
            Seen::HeldUp(time) => {
                self.cpus[cpu].overhead += time;
                self.busy(cpu, time);
            }
            Seen::Sleeps { state, entered, is_rejected, got } => {
                self.sleeps(cpu, (state, got), entered, is_rejected);
            }
            Seen::Undemotes => self.undemotes(cpu),
            Seen::Wakes if S::RECORDS => self.record_exit_first(cpu),
            Seen::Wakes => {}
            Seen::Traced(event) => self.record_traced(cpu, event),
            Seen::Slept(slept) => self.slept(cpu, &slept),
            Seen::PollsOn => self.polls_on(cpu),
            Seen::Frequency { khz } => self.changes_frequency(cpu, khz),
            Seen::SentIpi { to, ipi } => {
                self.world.ipis += 1;
                let (target_cpu, cause) = (CpuId(to as u32), cause_of(ipi));
                self.emit(cpu, EventKind::IpiSend { target_cpu, cause });
            }
            Seen::TakesIpi(ipi) => {
                self.emit(cpu, EventKind::InterruptEntry { cause: cause_of(ipi) });
                self.emit(cpu, EventKind::InterruptExit { cause: cause_of(ipi) });
            }
        }
    }
}

fn cause_of(ipi: Ipi) -> InterruptCause {
    match ipi {
        Ipi::Reschedule => InterruptCause::Reschedule,
        Ipi::Call => InterruptCause::CallFunction,
    }
}

fn prev_state(state: State) -> PrevState {
    match state {
        State::Runnable => PrevState::Runnable,
        State::Blocked(Blocked::Io(wait)) if wait.is_uninterruptible() => PrevState::DiskSleep,
        State::Blocked(_) => PrevState::Sleeping,
        State::Dead => PrevState::Dead,
    }
}
