// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A workload under a kernel's own scheduler, timers, tick, idle loop and governors: the kernel
//! decides, and what it does is counted as that of Torpor's own scheduler is.

mod host;
mod judge;
mod sleep;

pub use judge::{Score, Verdict};

use crate::cpufreq::Cpufreq;
use crate::error::Halt;
use crate::machine::call::Calls;
use crate::machine::cpu::Irq;
use crate::machine::device::Devices;
use crate::machine::driver::Driver;
use crate::machine::effects::Effects;
use crate::machine::events::{EventSource, Listed, shared_counts};
use crate::machine::freq::Domain;
use crate::machine::program::Programs;
use crate::machine::rest::Rest;
use crate::machine::sources::{Interrupts, Starts};
use crate::machine::task::{Blocked, FULL_SPEED, State};
use crate::machine::world::World;
use crate::machine::{Counted, CpuCounted, Plan, Sink, trace};
use crate::queue::Agenda;
use judge::Judge;
use std::collections::VecDeque;
use torpor_engine::decision::Unobserved;
use torpor_engine::totals::Tally;
use torpor_governor::CpufreqInstance;
use torpor_kernel::{
    Attributes, Decided, Handled, Instance, Ipi, Outside, Policy, Seen, Sim, Step, TaskId,
    TaskSetup, Work,
};
use torpor_trace::{EventKind, InterruptCause, PrevState};
use torpor_units::{CpuId, Duration, Instant};

/// A task's number in the kernel that is there no more.
const GONE: u32 = u32::MAX;

/// Runs a plan's workload from 0 to `end` on a kernel that has been started.
pub fn run<S: Sink>(
    plan: &Plan<'_>,
    instance: Instance,
    machine: torpor_kernel::Machine,
    sink: S,
    end: Instant,
    goes_on: &mut dyn FnMut(Instant) -> bool,
) -> Result<(Counted, S), Halt> {
    let hosted = Hosted::new(plan, sink);
    Ok(simulate(hosted, instance, machine, end, goes_on)?.close())
}

/// The same, with Torpor's own scheduler held against the kernel's decisions.
pub fn judge(
    plan: &Plan<'_>,
    mut instance: Instance,
    machine: torpor_kernel::Machine,
    cpufreq: Option<CpufreqInstance>,
    end: Instant,
) -> Result<Verdict, Halt> {
    instance.watch_decisions();
    let hosted = Hosted {
        judge: Some(Box::new(Judge::new(plan, cpufreq))),
        ..Hosted::new(plan, Unobserved)
    };
    let mut hosted = simulate(hosted, instance, machine, end, &mut |_| true)?;
    let judge = hosted.judge.take().expect("it was given");
    Ok(judge.verdict)
}

fn simulate<'a, S: Sink>(
    mut hosted: Hosted<'a, S>,
    mut instance: Instance,
    machine: torpor_kernel::Machine,
    end: Instant,
    goes_on: &mut dyn FnMut(Instant) -> bool,
) -> Result<Hosted<'a, S>, Halt> {
    hosted.start()?;
    let plan = hosted.world.plan;
    let mut driver = Driver::new(plan.platform, plan.topology, plan.seed);
    if driver.rejects_any() {
        instance.reject_entries(Box::new(move |cpu, state| driver.rejects(cpu, state)));
    }
    let is_judged = hosted.judge.is_some();
    let mut sim = Sim::new(instance, machine, hosted);
    let before = if is_judged { sleeps(&mut sim)? } else { (0, 0) };
    let mut is_interrupted = false;
    let ended = sim.run(end, &mut |now| {
        is_interrupted = !goes_on(now);
        !is_interrupted
    });
    let after = if is_judged { sleeps(&mut sim)? } else { (0, 0) };
    let events = sim.stats().events;
    let (mut hosted, asleep) = sim.into_work();
    if let Some(halt) = hosted.halt {
        return Err(halt);
    }
    if is_interrupted {
        return Err(Halt::Interrupted);
    }
    ended?;
    hosted.world.now = end;
    hosted.world.events += events;
    for (number, slept) in asleep.into_iter().enumerate() {
        hosted.cut(number, slept);
    }
    if let Some(judge) = &mut hosted.judge {
        judge.verdict.sleeps = after.0 - before.0;
        judge.verdict.seen_sleeps = after.1 - before.1;
    }
    Ok(hosted)
}

/// Of all CPUs, as the kernel counts them and as the hardware has seen them.
fn sleeps<W: Work>(sim: &mut Sim<W>) -> Result<(u64, u64), Halt> {
    let stats = sim.stats();
    let seen = stats.cpus.iter().flat_map(|cpu| &cpu.entries).sum();
    let mut counted = 0;
    for cpu in 0..stats.cpus.len() {
        counted += sim.idle_usage(CpuId(cpu as u32))?.iter().map(|state| state.usage).sum::<u64>();
    }
    Ok((counted, seen))
}

struct Hosted<'a, S> {
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
    judge: Option<Box<Judge<'a>>>,
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
    /// What it is to do before it is asked again.
    steps: VecDeque<Step>,
    sleeps_until: Instant,
    has_run: bool,
}

struct Cpu<'a> {
    model: &'a torpor_engine::model::CpuModel,
    tally: Tally,
    irqs: VecDeque<Irq>,
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
    /// Its end is in the recording already.
    is_told: bool,
    /// The driver refuses it: no sleep.
    is_rejected: bool,
}

impl<'a, S: Sink> Hosted<'a, S> {
    fn new(plan: &'a Plan<'a>, sink: S) -> Hosted<'a, S> {
        // Without a driver, and until the first decision of a governor, the highest.
        let domain = |(n, cluster)| Domain::new(n, cluster, &Cpufreq::Performance);
        let domains: Vec<Domain> = plan.platform.clusters.iter().enumerate().map(domain).collect();
        let cpus = plan.models.iter().enumerate().map(|(number, model)| {
            let cluster = plan.topology.cluster_of[number].0;
            Cpu {
                model,
                tally: Tally::new(model),
                irqs: VecDeque::new(),
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
        Hosted {
            world: World::new(plan, Agenda::new(&shared_counts(plan))),
            sink,
            halt: None,
            cpus: cpus.collect(),
            rest: Rest::new(plan.platform, plan.topology, domains.iter().map(|d| d.opp)),
            domains,
            numbered: Vec::new(),
            number_of: Vec::new(),
            outside: Vec::new(),
            acting: Acting::Nobody,
            judge: None,
        }
    }

    fn start(&mut self) -> Result<(), Halt> {
        for index in 0..<Interrupts as EventSource<Self>>::count(self.world.plan) {
            Interrupts::start(self, index)?;
        }
        for index in 0..<Starts as EventSource<Self>>::count(self.world.plan) {
            Starts::start(self, index)?;
        }
        if S::RECORDS {
            (0..self.cpus.len()).for_each(|cpu| self.record_frequency(cpu));
        }
        Ok(())
    }

    fn happen(&mut self) -> Result<(), Halt> {
        let Some((_, who)) = self.world.agenda.peek() else { return Ok(()) };
        let index = who.index as usize;
        match who.kind {
            Interrupts::KIND => Interrupts::happen(self, index),
            Starts::KIND => Starts::happen(self, index),
            Devices::KIND => Devices::happen(self, index),
            Calls::KIND => Calls::happen(self, index),
            kind => unreachable!("a hosted kernel has no event source {kind}"),
        }
    }

    fn emit(&mut self, cpu: usize, kind: EventKind) {
        if S::RECORDS {
            self.sink.event(self.world.now, cpu, kind);
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
                (task.pid, super::schedule::prev_state(task.state))
            }
            None => (0, PrevState::Runnable),
        };
        let (next_pid, next_comm) = match next {
            Some(id) => (self.pid(id), Some(trace::name_of(self.world.tasks[id as usize].kind))),
            None => (0, None),
        };
        let switch = EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm };
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

    /// Its timer has woken it.
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
        (self.world.close(cpus.collect(), self.rest.close(now), domains), self.sink)
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
            policy: Policy::Normal,
            nice: crate::sched::nice_of(kind.weight),
            uclamp: (task.uclamp.min.into(), task.uclamp.max.into()),
            affinity: kind.cpus.iter().flatten().copied().collect(),
        }
    }
}

fn cause_of(ipi: Ipi) -> InterruptCause {
    match ipi {
        Ipi::Reschedule => InterruptCause::Reschedule,
        Ipi::Call => InterruptCause::CallFunction,
    }
}

impl<S: Sink> Work for Hosted<'_, S> {
    fn next(&mut self, TaskId(number): TaskId, now: Instant) -> Step {
        self.world.now = now;
        loop {
            let numbered = &mut self.numbered[number];
            if let Some(step) = numbered.steps.pop_front() {
                if let (Some(judge), Step::Sleep(until)) = (&mut self.judge, &step) {
                    let task = &self.world.tasks[numbered.id as usize];
                    let slack = self.world.plan.workload.tasks[task.kind].timer_slack;
                    judge.sleeps_until(task.cpu, number, *until + slack);
                }
                return step;
            }
            let (id, until) = (numbered.id, numbered.sleeps_until);
            let cpu = self.world.tasks[id as usize].cpu;
            // A time that has come already.
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
            let taken = self.take_interrupt(cpu, irq);
            self.emit(cpu, EventKind::IrqExit { irq: irq.line.number() });
            if let Err(halt) = taken {
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
                if let Some(judge) = &mut self.judge {
                    judge.woke(number);
                }
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
                if let Some(judge) = self.judge.as_mut().filter(|_| !is_rejected) {
                    judge.sleeps(cpu);
                }
            }
            Seen::Undemotes => self.undemotes(cpu),
            Seen::Wakes if S::RECORDS => self.record_exit_first(cpu),
            Seen::Wakes => {}
            Seen::Traced(event) => self.record_traced(cpu, event),
            Seen::Slept(slept) => {
                self.slept(cpu, &slept);
                if let Some(judge) = self.judge.as_mut().filter(|_| !slept.is_rejected) {
                    judge.slept(cpu, slept.since, slept.timer, slept.tick_stopped);
                }
            }
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

    fn decided(&mut self, _: Instant, decided: Decided) {
        let Some(judge) = &mut self.judge else { return };
        let number = match &decided {
            Decided::Waking { task, .. } | Decided::Woken { task, .. } => Some(task.0),
            Decided::Frequency { .. } => None,
        };
        let id = number.map(|number| self.numbered[number].id).filter(|id| *id != GONE);
        judge.decided(&decided, id, id.map(|id| &self.world.tasks[id as usize]));
    }
}
