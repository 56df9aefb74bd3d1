// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A simulated machine under a kernel. The kernel decides; the machine supplies CPUs, interrupts,
//! devices and the programs of tasks, and counts what the CPUs do.
//!
//! One loop takes events in order of (time, sequence): an interrupt, the end of a computation, an
//! idle state that is left. Each becomes a call into the kernel, which decides until its CPU
//! computes or sleeps.

mod active;
mod bench;
mod call;
mod cgroup;
mod change;
mod counted;
mod cpu;
mod device;
mod domain;
mod driver;
mod effects;
mod events;
mod flow;
mod follow;
mod hint;
mod host;
mod interrupt;
mod io;
mod irq;
mod last_man;
mod latency;
mod limits;
mod mask;
mod program;
mod queue;
mod rest;
mod sink;
mod sleep;
mod sources;
mod step;
mod task;
mod topology;
mod trace;
mod tracepoint;
mod world;

pub use bench::{Act, Bench, CpuStats, Script, Stats, TaskStats};
pub use counted::{AgainstOracle, Counted, CpuCounted};
pub use device::DeviceTotals;
pub use domain::{DomainCounted, Limit};
pub use flow::FlowTotals;
pub use mask::CpuMask;
pub use sink::Sink;
pub use task::TaskId;
pub use topology::Topology;
pub use trace::names_of;

use crate::error::Halt;
use crate::kernel::abi::{IRQ_DEVICE, IRQ_RESCHEDULE, IRQ_TIMER, NEVER, Usage};
use crate::kernel::{Hardware, Instance, TaskSetup, Trouble};
use crate::options::Overheads;
use crate::workload::{Device, Workload};
use active::ActiveCores;
use cpu::Cpu;
use domain::Domain;
use driver::Driver;
use interrupt::Handled;
use irq::{Irq, Line};
use last_man::LastMan;
use latency::Latencies;
use limits::LimitsState;
use rest::Rest;
use torpor_engine::model::CpuModel;
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_result::CgroupTotals;
use torpor_trace::EventKind;
use tracepoint::Tracepoints;
use world::World;

/// Slot of a task that has exited.
const GONE: u32 = u32::MAX;

/// The parts of a machine, which all runs share.
#[derive(Clone, Copy)]
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
    hardware: Hardware,
    sink: S,
    (warm_up, end): (Instant, Instant),
    goes_on: &mut dyn FnMut(Instant) -> bool,
) -> Result<(Counted, S), Halt> {
    let mut driver = Driver::new(plan.platform, plan.topology, plan.seed);
    if driver.rejects_any() {
        instance.reject_entries(Box::new(move |cpu, state| driver.rejects(cpu, state)));
    }
    let mut machine = Machine::new(*plan, instance, hardware, sink, None);
    let mut is_interrupted = false;
    let mut goes_on = |now| {
        is_interrupted = !goes_on(now);
        !is_interrupted
    };
    let mut ended = Ok(true);
    if warm_up > Instant(0) {
        ended = machine.run(warm_up, &mut goes_on);
        machine.start_over(warm_up);
        machine.cgroups = machine.read_cgroups()?;
    }
    machine.is_measured = true;
    if matches!(ended, Ok(true)) {
        ended = machine.run(end, &mut goes_on);
    }
    if let Some(halt) = machine.halt {
        return Err(halt);
    }
    if is_interrupted {
        return Err(Halt::Interrupted);
    }
    ended?;
    (0..machine.cpus.len()).for_each(|cpu| machine.cut(cpu));
    let cgroups = machine.cgroups_since()?;
    let (counted, sink) = machine.close();
    Ok((Counted { cgroups, ..counted }, sink))
}

/// Events of a CPU.
#[derive(Clone, Copy)]
enum Event {
    /// Its clock event device may have reached what it is set to.
    Timer,
    Ipi(u32),
    /// It is out of its idle state, or a polling one has seen that there is something to do.
    Awake(u32),
    /// The task's computation may be done.
    Done,
    /// The hardware enters the state that the kernel has entered before.
    Sleeps,
    /// The time is up after which the hardware takes a demoted CPU to the requested state.
    Undemotes(u32),
    /// A polling state's time is up.
    PollEnd(u64),
    /// The hardware looks at its limits.
    Limits,
    /// The request of a scripted task is done.
    Completion(u32),
}

/// What the workload does to the kernel between two calls into it.
enum Outside {
    /// A device's interrupt, for a CPU.
    Interrupt(usize),
    Fork(Box<TaskSetup>),
    /// Ends the task's computation: it waited in a loop for something that has come.
    Release(TaskId),
    /// A change of the workload's timeline.
    Change(usize),
}

/// On whose behalf the workload acts.
enum Acting {
    Nobody,
    /// A task, by its slot.
    Task(u32),
    /// The handlers of a CPU's interrupts.
    Handler(usize),
}

/// A hosted kernel, the hardware around it, and the workload on it.
pub struct Machine<'a, S> {
    instance: Instance,
    hardware: Hardware,
    world: World<'a>,
    sink: S,
    /// What tasks do, in place of the workload's programs.
    script: Option<Script<'a>>,
    /// Why the workload cannot go on.
    halt: Option<Halt>,
    cpus: Vec<Cpu<'a>>,
    /// CPUs in a polling state, which need no interrupt to see that there is something to do.
    polling: Vec<usize>,
    /// Shared states, whose latencies depend on other CPUs.
    last_man: Option<LastMan>,
    latencies: Option<Latencies>,
    /// What the hardware allows; none without limits.
    limits: Option<LimitsState>,
    rest: Rest,
    domains: Vec<Domain>,
    tracepoints: Tracepoints,
    /// Slot of each task, by its number.
    slots: Vec<u32>,
    outside: Vec<Outside>,
    /// What was counted before each change, since the warm-up.
    sections: Vec<Counted>,
    is_measured: bool,
    /// The kernel's shell has something to do.
    awaits_orders: bool,
    acting: Acting,
    handled: Handled,
    /// Counters of control groups when counting began.
    cgroups: Vec<CgroupTotals>,
}

impl<'a, S: Sink> Machine<'a, S> {
    fn new(
        plan: Plan<'a>,
        instance: Instance,
        hardware: Hardware,
        sink: S,
        script: Option<Script<'a>>,
    ) -> Machine<'a, S> {
        let domains: Vec<Domain> = plan.platform.clusters.iter().map(Domain::new).collect();
        let cpus = plan.models.iter().enumerate().map(|(number, model)| {
            let cluster = plan.topology.cluster_of[number].0;
            let clock = &domains[cluster];
            Cpu::new(model, cluster, clock, instance.now())
        });
        let mut last_man = LastMan::of_platform(plan.platform);
        if let Some(last_man) = &mut last_man {
            let off = hardware.is_online.iter().enumerate().filter(|(_, on)| !**on);
            off.for_each(|(cpu, _)| last_man.offline(cpu));
        }
        let mut machine = Machine {
            cpus: cpus.collect(),
            rest: Rest::new(plan.platform, plan.topology, domains.iter().map(|d| d.opp)),
            world: World::new(plan),
            instance,
            hardware,
            last_man,
            latencies: Latencies::of_platform(plan.platform, plan.seed),
            limits: LimitsState::of_platform(
                plan.platform,
                ActiveCores::of_platform(plan.platform, plan.topology),
            ),
            sink,
            script,
            halt: None,
            polling: Vec::new(),
            domains,
            tracepoints: Tracepoints::default(),
            slots: Vec::new(),
            outside: Vec::new(),
            sections: Vec::new(),
            is_measured: false,
            awaits_orders: false,
            acting: Acting::Nobody,
            handled: Handled::default(),
            cgroups: vec![CgroupTotals::default(); plan.workload.cgroups.len()],
        };
        machine.start_sources();
        machine.start_limits();
        if S::RECORDS {
            (0..machine.cpus.len()).for_each(|cpu| machine.record_frequency(cpu));
        }
        machine.world.now = machine.instance.now();
        // The kernel knows nothing of CPUs beyond its last one that is online.
        let cpus = machine.instance.cpu_count();
        (0..cpus).for_each(|cpu| {
            machine.set_costs(cpu);
            machine.instance.cpu_mut(cpu).take_spent_ns();
            machine.instance.cpu_mut(cpu).timer_programmings = 0;
        });
        // The boot may have set timers or frequencies, and put CPUs to sleep.
        machine.take_tracepoints();
        (0..cpus).for_each(|cpu| machine.look_at(cpu));
        machine.follow();
        machine
    }

    /// Runs to `until`, and calls `goes_on` regularly. False if `goes_on` or the workload ended the
    /// run.
    pub fn run(
        &mut self,
        until: Instant,
        goes_on: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<bool, Trouble> {
        const ASK_EVERY: u64 = 1 << 14;
        loop {
            let time = self.world.queue.next_time();
            if time >= until || time == Instant::NEVER {
                break;
            }
            self.set_now(time);
            if let Some(who) = self.world.queue.due_outside() {
                match self.happen(who) {
                    Ok(()) => self.take_outside()?,
                    Err(halt) => self.fail(halt),
                }
            } else if let Some((cpu, event)) = self.world.queue.pop() {
                self.handle(cpu, event)?;
            }
            self.follow();
            if self.awaits_orders && self.instance.take_done() {
                self.learn_limits();
            }
            self.world.events += 1;
            let asks = self.world.events % ASK_EVERY == 0;
            if self.halt.is_some() || (asks && !goes_on(time)) {
                return Ok(false);
            }
        }
        self.set_now(until);
        (0..self.cpus.len()).for_each(|cpu| self.account(cpu));
        Ok(true)
    }

    fn set_now(&mut self, now: Instant) {
        self.world.now = now;
        self.instance.set_now(now);
    }

    /// The kernel's own counters of a CPU's idle states.
    pub fn idle_usage(&mut self, cpu: CpuId) -> Result<Vec<Usage>, Trouble> {
        self.instance.idle_usage(cpu)
    }

    pub fn instance(&mut self) -> &mut Instance {
        &mut self.instance
    }

    /// Returns the slot of a task, unless it has exited; 0 is the kernel's own.
    fn slot(&self, number: u32) -> Option<u32> {
        let index = number.checked_sub(1)?;
        Some(self.slots[index as usize]).filter(|slot| *slot != GONE)
    }

    fn handle(&mut self, cpu: usize, event: Event) -> Result<(), Trouble> {
        let now = self.world.now;
        match event {
            Event::Timer => {
                let set = self.instance.cpu(cpu).timer_ns;
                self.cpus[cpu].timer_queued = NEVER;
                if set <= now.0 as u64 {
                    self.instance.cpu_mut(cpu).timer_ns = NEVER;
                    return self.raise(cpu, IRQ_TIMER);
                }
                self.queue_timer(cpu, set);
            }
            Event::Ipi(bits) => return self.raise(cpu, bits),
            Event::Awake(number) => {
                // Unless that sleep has ended otherwise.
                let is_that = self.cpus[cpu].asleep.is_some_and(|sleep| sleep.number == number);
                if is_that || self.instance.cpu(cpu).raised != 0 {
                    return self.handle_raised(cpu);
                }
            }
            Event::Done => {
                let it = &mut self.cpus[cpu];
                if now >= it.done_queued {
                    it.done_queued = Instant::NEVER;
                }
                if it.done_at <= now {
                    return self.advance(cpu);
                }
                self.queue_done(cpu);
            }
            Event::Undemotes(number) => self.undemote(cpu, number),
            Event::Sleeps => self.enter_state(cpu),
            Event::Limits => self.keep_limits(),
            Event::PollEnd(end_ns) => return self.end_poll(cpu, end_ns),
            Event::Completion(task) => {
                self.cpus[cpu].irqs.push_back(Irq { at: now, line: Line::Script { task } });
                return self.raise(cpu, IRQ_DEVICE);
            }
        }
        Ok(())
    }

    /// A polling state's time is up, unless the CPU has left it or is about to.
    fn end_poll(&mut self, cpu: usize, end_ns: u64) -> Result<(), Trouble> {
        let Some(sleep) = &self.cpus[cpu].asleep else { return Ok(()) };
        if self.instance.cpu(cpu).poll_until_ns != end_ns || sleep.event.is_some() {
            return Ok(());
        }
        if sleep.since > self.world.now {
            self.world.queue.push(sleep.since, cpu, Event::PollEnd(end_ns));
            return Ok(());
        }
        // Its work would have come late: no tracepoint has reported it.
        assert!(
            !sleep.polls() || !self.instance.needs_resched(cpu),
            "the kernel reports what it gives to polling CPUs"
        );
        self.handle_raised(cpu)
    }

    /// Applies what the workload has done to the kernel.
    fn take_outside(&mut self) -> Result<(), Trouble> {
        let mut outside = std::mem::take(&mut self.outside);
        for what in outside.drain(..) {
            match what {
                Outside::Interrupt(cpu) => self.raise(cpu, IRQ_DEVICE)?,
                Outside::Fork(setup) => self.fork(&setup)?,
                Outside::Release(task) => self.end_work(task),
                Outside::Change(index) => self.make_change(index)?,
            }
        }
        self.outside = outside;
        Ok(())
    }

    fn end_work(&mut self, task: TaskId) {
        let cpu = self.cpus.iter().position(|cpu| cpu.task == task.number());
        if let Some(cpu) = cpu {
            self.account(cpu);
        }
        if let Some(id) = self.slot(task.number()) {
            self.world.tasks[id as usize].left = Duration::ZERO;
        }
        if let Some(cpu) = cpu {
            self.plan_done(cpu);
        }
    }

    fn fork(&mut self, setup: &TaskSetup) -> Result<(), Trouble> {
        let handle = self.instance.new_task(setup)?;
        let id = self.slot(setup.number).expect("a task lives until it has run");
        self.world.tasks[id as usize].handle = Some(handle);
        self.follow();
        self.wake_for_itself(setup.forked_on.index())
    }

    /// Wakes a CPU that a call for it has given something to run while it sleeps.
    fn wake_for_itself(&mut self, cpu: usize) -> Result<(), Trouble> {
        // The kernel has no IPI for a CPU that it thinks it is on.
        if self.cpus[cpu].asleep.is_some() && self.instance.needs_resched(cpu) {
            self.raise(cpu, IRQ_RESCHEDULE)?;
        }
        Ok(())
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
        if let Some(freq_khz) = self.domains[self.cpus[cpu].cluster].requested_khz() {
            self.emit(cpu, EventKind::CpuFrequency { freq_khz });
        }
    }

    /// Resets all counters after the warm-up.
    fn start_over(&mut self, now: Instant) {
        self.world.now = now;
        self.across_reset(|machine| machine.reset(now));
        self.sink.start_over();
        if S::RECORDS {
            (0..self.cpus.len()).for_each(|cpu| self.record_frequency(cpu));
        }
    }

    fn reset(&mut self, now: Instant) {
        self.world.start_over();
        self.rest.take(now);
        self.domains.iter_mut().for_each(|domain| domain.start_over(now));
        self.cpus.iter_mut().for_each(|cpu| cpu.start_over(now));
        self.take_timer_programmings();
    }

    /// Returns how often clock event devices were set since the last call.
    fn take_timer_programmings(&mut self) -> u64 {
        let cpus = 0..self.instance.cpu_count();
        cpus.map(|cpu| std::mem::take(&mut self.instance.cpu_mut(cpu).timer_programmings)).sum()
    }

    fn close(mut self) -> (Counted, S) {
        let last = self.take_section();
        let counted = Counted::of_sections(self.sections, last);
        counted.check_times(self.hardware.overheads.interrupt);
        let ejection = self.instance.take_ejection();
        (Counted { ejection, ..counted }, self.sink)
    }

    fn fail(&mut self, halt: Halt) {
        self.halt.get_or_insert(halt);
    }
}
