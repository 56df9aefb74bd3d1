// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A workload under a kernel's own scheduler, timers, tick, idle loop and governors: the kernel
//! decides, and what it does is counted as that of our own scheduler is.

use super::cpu::{Irq, Line};
use super::device::Devices;
use super::effects::Effects;
use super::events::{EventSource, Listed, shared_counts};
use super::freq::Domain;
use super::program::Programs;
use super::rest::Rest;
use super::sources::{Interrupts, Starts};
use super::task::{Blocked, FULL_SPEED, State};
use super::world::{Host, World};
use super::{Counted, CpuCounted, Plan, Sink, trace};
use crate::cpufreq::Cpufreq;
use crate::error::Halt;
use crate::queue::Agenda;
use std::collections::VecDeque;
use torpor_engine::decision::Decision;
use torpor_engine::input::{SleepSource, Span, WakeStamp};
use torpor_engine::model::{SleepEnd, Verdict};
use torpor_engine::totals::Tally;
use torpor_kernel::{
    Attributes, End, Handled, Instance, Outside, Policy, Seen, Sim, Slept, Step, TaskId, TaskSetup,
    Work,
};
use torpor_trace::{EventKind, PrevState};
use torpor_units::{CpuId, Duration, Energy, Instant};

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
    let mut hosted = Hosted::new(plan, sink);
    hosted.start()?;
    let mut sim = Sim::new(instance, machine, hosted);
    let mut is_interrupted = false;
    let ended = sim.run(end, &mut |now| {
        is_interrupted = !goes_on(now);
        !is_interrupted
    });
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
    Ok(hosted.close())
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
    tick_stopped: bool,
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
    /// Its end stands in the recording already.
    is_told: bool,
}

impl<'a, S: Sink> Hosted<'a, S> {
    fn new(plan: &'a Plan<'a>, sink: S) -> Hosted<'a, S> {
        // Without a driver, and until the first decision of a governor, the highest.
        let clusters = plan.platform.clusters.iter().enumerate();
        let domains: Vec<Domain> =
            clusters.map(|(n, c)| Domain::new(n, c, Cpufreq::Performance)).collect();
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
                tick_stopped: false,
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
        self.wakes_of_itself(cpu, id, sleeps_until);
        self.world.begins(id, from);
        self.record_switch(cpu, Some(id), switched);
    }

    /// Its timer has woken it.
    fn wakes_of_itself(&mut self, cpu: usize, id: u32, until: Instant) {
        if self.world.tasks[id as usize].state != State::Blocked(Blocked::Timer) {
            return;
        }
        self.world.woken(id, until);
        if S::RECORDS {
            let (pid, now) = (self.pid(id), self.world.now);
            let timer = trace::task_timer(pid);
            let function = trace::function(self.world.plan.workload.tasks.len(), 1);
            self.emit(cpu, EventKind::HrtimerExpireEntry { timer, function, now });
            self.emit(cpu, EventKind::SchedWaking { pid, target_cpu: CpuId(cpu as u32) });
            self.emit(cpu, EventKind::HrtimerExpireExit { timer });
        }
    }

    fn busy(&mut self, cpu: usize, time: Duration) {
        let cpu = &mut self.cpus[cpu];
        cpu.busy_at[usize::from(cpu.opp)] += time;
    }

    fn sleeps(&mut self, number: usize, state: usize, entered: Instant, tick_stopped: bool) {
        let now = self.world.now;
        self.rest.entered(number, state, now);
        let cpu = &mut self.cpus[number];
        cpu.asleep = Some(Asleep { state, entered, since: now, is_told: false });
        cpu.idle_since.get_or_insert(now);
        if S::RECORDS {
            if tick_stopped && !cpu.tick_stopped {
                self.emit(number, EventKind::HrtimerCancel { timer: trace::tick_timer(number) });
                self.emit(number, EventKind::TickStop { success: true });
            }
            self.emit(number, EventKind::CpuIdle { state: trace::state(state) });
        }
        self.cpus[number].tick_stopped = tick_stopped;
    }

    fn slept(&mut self, number: usize, slept: &Slept) {
        let now = self.world.now;
        let Slept { state, entered, event, end, is_resched, .. } = *slept;
        self.rest.left(number, state, now);
        let cpu = &mut self.cpus[number];
        let Asleep { since, is_told, .. } = cpu.asleep.take().expect("it was seen to sleep");
        let model = &cpu.model.states[state];
        let verdict = cpu.model.verdict(state, now.since(entered));
        if cpu.model.states.len() > 1 {
            cpu.tally.asked(SleepSource::TimerEvents);
        }
        cpu.tally.slept(cpu.opp, state, since, now, verdict);
        let latency = now.since(event);
        match end {
            End::Event => {
                cpu.tally.woken(state, latency, model.exit_latency);
                if model.is_polling && is_resched {
                    cpu.tally.ipi_saved();
                }
            }
            End::Tick => cpu.tally.ticked(cpu.opp),
            End::PollTimeout => cpu.tally.poll_timed_out(),
        }
        if self.sink.wants(number) {
            let decision = self.decision(number, slept, since, verdict);
            self.sink.decision(&decision);
        }
        if S::RECORDS {
            if !is_told {
                self.record_exit(number, state, verdict);
            }
            if end == End::Tick {
                self.record_tick(number);
            }
        }
        if end == End::Event {
            self.end_span(number, slept);
        }
    }

    fn record_exit(&mut self, number: usize, state: usize, verdict: Verdict) {
        self.emit(number, EventKind::CpuIdle { state: trace::state_none() });
        if verdict != Verdict::Fit {
            let below = verdict == Verdict::Below;
            self.emit(number, EventKind::CpuIdleMiss { state: trace::state(state), below });
        }
    }

    /// A sleep ends before the interrupt is handled that ends it.
    fn record_exit_first(&mut self, number: usize) {
        let cpu = &mut self.cpus[number];
        let Some(asleep) = cpu.asleep.as_mut().filter(|a| !cpu.model.states[a.state].is_polling)
        else {
            return;
        };
        asleep.is_told = true;
        let Asleep { state, entered, .. } = *asleep;
        let verdict = cpu.model.verdict(state, self.world.now.since(entered));
        self.record_exit(number, state, verdict);
    }

    fn record_tick(&mut self, number: usize) {
        let now = self.world.now;
        let symbols = self.world.plan.workload.tasks.len();
        let next = self.cpus[number].model.tick.next(now);
        for kind in trace::tick(symbols, number, now, next) {
            self.emit(number, kind);
        }
    }

    fn decision(&self, number: usize, slept: &Slept, since: Instant, verdict: Verdict) -> Decision {
        let Slept { state, event, end, is_resched, timer, tick_stopped, .. } = *slept;
        let (cpu, now) = (&self.cpus[number], self.world.now);
        let (costs, length) = (&cpu.model.costs, now.since(since));
        let cost = |state| costs.sleep(cpu.opp, state, length);
        let cheapest = cpu.model.allowed().into_iter().map(cost).min().unwrap_or(Energy::ZERO);
        let handled = match end {
            End::Tick => costs.awake(cpu.opp, cpu.model.tick_handling),
            _ => Energy::ZERO,
        };
        Decision {
            slot: number,
            span: 0,
            from: since,
            resume: now,
            state: state as u8,
            opp: cpu.opp,
            stop_tick: tick_stopped,
            tick_was_stopped: false,
            sleep_length: timer.since(since).max(Duration::ZERO),
            to_tick: (!tick_stopped).then(|| cpu.model.tick.next(since).since(since)),
            util: 0,
            nr_iowait: 0,
            event,
            stamp: WakeStamp::WakingEvent,
            is_resched,
            energy: cost(state) + handled,
            regret: cost(state) - cheapest,
            source: SleepSource::TimerEvents,
            verdict,
            end: match end {
                End::Event => SleepEnd::Event,
                End::Tick => SleepEnd::Tick,
                End::PollTimeout => SleepEnd::PollTimeout,
            },
            latency: (end == End::Event).then(|| now.since(event)),
        }
    }

    /// An event has ended the idleness.
    fn end_span(&mut self, number: usize, slept: &Slept) {
        let now = self.world.now;
        let cpu = &mut self.cpus[number];
        let Some(start) = cpu.idle_since.take().filter(|_| S::TAKES_SPANS) else { return };
        let wake = slept.event.max(start);
        let span = Span {
            start,
            wake,
            resume: now.max(wake),
            next_hrtimer: slept.timer,
            next_wheel: Instant::NEVER,
            freq_khz: 0,
            opp: cpu.opp,
            util: 0,
            source: SleepSource::TimerEvents,
            stamp: WakeStamp::WakingEvent,
            ends_visit: slept.has_task,
            is_resched: slept.is_resched,
            nr_iowait: 0,
            nr_running: 0,
            rcu_holds_tick: false,
        };
        self.sink.span(number, span);
    }

    /// An interrupt came while the CPU polled.
    fn polls_on(&mut self, number: usize) {
        let now = self.world.now;
        let cpu = &mut self.cpus[number];
        cpu.tally.poll_interrupted();
        cpu.tally.woken(0, Duration::ZERO, cpu.model.states[0].exit_latency);
        cpu.idle_since = Some(now);
    }

    fn changes_frequency(&mut self, number: usize, khz: u32) {
        let now = self.world.now;
        let cluster = self.cpus[number].cluster;
        let opp = self.domains[cluster].opp_of(khz);
        if self.domains[cluster].change(opp, now) {
            self.rest.set_opp(cluster, opp, now);
        }
        let cpu = &mut self.cpus[number];
        if let Some(Asleep { state, since, .. }) = cpu.asleep {
            cpu.tally.slept_before(cpu.opp, opp, state, now.since(since));
        }
        cpu.opp = opp;
        if S::RECORDS {
            self.record_frequency(number);
        }
    }

    /// The end of the run.
    fn cut(&mut self, number: usize, slept: Option<Slept>) {
        let now = self.world.now;
        let cpu = &mut self.cpus[number];
        if let Some(Asleep { state, since, .. }) = cpu.asleep.take() {
            cpu.tally.slept(cpu.opp, state, since, now, Verdict::Fit);
            let opp = cpu.opp;
            self.rest.left(number, state, now);
            self.sink.cut(number, state, opp, now.since(since));
        }
        if let Some(slept) = slept {
            self.end_span(number, &Slept { event: now, has_task: false, ..slept });
        }
    }

    fn close(mut self) -> (Counted, S) {
        let now = self.world.now;
        self.world.devices.iter_mut().for_each(|device| device.count_to(now));
        let domains = self.domains.into_iter().map(|domain| domain.close(now)).collect();
        let cpus = self.cpus.into_iter().map(|cpu| CpuCounted {
            is_online: true,
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

impl<'a, S: Sink> Host<'a> for Hosted<'a, S> {
    fn world(&mut self) -> &mut World<'a> {
        &mut self.world
    }

    fn wake(&mut self, id: u32, by: Option<usize>, event: Instant, _sync: bool) {
        self.world.woken(id, event);
        if S::RECORDS {
            let target = self.world.tasks[id as usize].cpu;
            let (pid, target_cpu) = (self.pid(id), CpuId(target as u32));
            self.emit(by.unwrap_or(target), EventKind::SchedWaking { pid, target_cpu });
        }
        let task = TaskId(self.number_of[id as usize] as usize);
        match &mut self.acting {
            Acting::Handler { handled, .. } => handled.woken.push(task),
            Acting::Task(number) => self.numbered[*number].steps.push_back(Step::Wake(task)),
            Acting::Nobody => unreachable!("tasks are woken by tasks and interrupts"),
        }
    }

    fn leave(&mut self, _: usize, id: u32, state: State) -> Result<(), Halt> {
        let number = self.number_of[id as usize] as usize;
        self.world.tasks[id as usize].state = state;
        let step = match state {
            State::Dead => {
                self.world.bury(id);
                self.numbered[number].id = GONE;
                Step::Exit
            }
            State::Blocked(Blocked::Io(wait)) if wait.in_iowait() => Step::WaitIo,
            _ => Step::Wait,
        };
        self.numbered[number].steps.push_back(step);
        Ok(())
    }

    fn sleep_until(&mut self, number: usize, id: u32, until: Instant) -> Result<(), Halt> {
        let task = &mut self.world.tasks[id as usize];
        task.state = State::Blocked(Blocked::Timer);
        if S::RECORDS {
            let workload = self.world.plan.workload;
            let expires = until + workload.tasks[task.kind].timer_slack;
            let start = trace::timer_start(workload.tasks.len(), task.pid, expires, until);
            self.emit(number, start);
        }
        let numbered = &mut self.numbered[self.number_of[id as usize] as usize];
        numbered.sleeps_until = until;
        numbered.steps.push_back(Step::Sleep(until));
        Ok(())
    }

    fn admit(&mut self, id: u32, by: Option<usize>, near: usize) {
        let number = self.numbered.len();
        self.numbered.push(Numbered {
            id,
            steps: VecDeque::new(),
            sleeps_until: Instant(0),
            has_run: false,
        });
        let places = self.number_of.len().max(id as usize + 1);
        self.number_of.resize(places, GONE);
        self.number_of[id as usize] = number as u32;
        let setup = Box::new(self.setup(id, number, near));
        if S::RECORDS {
            let (pid, target_cpu) = (self.pid(id), CpuId(near as u32));
            self.emit(by.unwrap_or(near), EventKind::SchedWaking { pid, target_cpu });
        }
        match &mut self.acting {
            Acting::Handler { handled, .. } => handled.outside.push(Outside::Fork(setup)),
            Acting::Task(number) => self.numbered[*number].steps.push_back(Step::Fork(setup)),
            Acting::Nobody => self.outside.push(Outside::Fork(setup)),
        }
    }

    fn interrupt(&mut self, number: usize, line: Line) -> Result<(), Halt> {
        let at = self.world.now;
        self.cpus[number].irqs.push_back(Irq { at, line });
        self.outside.push(Outside::Interrupt(number));
        Ok(())
    }

    fn has_interrupts(&self) -> bool {
        self.cpus.iter().any(|cpu| !cpu.irqs.is_empty())
    }

    fn hold_up(&mut self, _: usize, length: Duration) {
        match &mut self.acting {
            Acting::Handler { handled, .. } => handled.time += length,
            _ => unreachable!("tasks hold nothing up"),
        }
    }

    fn held_until(&self, number: usize) -> Instant {
        let Acting::Handler { cpu, handled } = &self.acting else { return self.world.now };
        assert_eq!(number, *cpu, "a handler asks of its own CPU");
        let domain = &self.domains[self.cpus[number].cluster];
        let speed = i128::from(domain.speed(self.cpus[number].model.capacity));
        let time = i128::from(handled.time.0) * i128::from(FULL_SPEED) / speed;
        self.world.now + Duration(time as i64)
    }

    /// What it does to the kernel is done first.
    fn stops(&self, _: usize, id: u32) -> bool {
        let number = self.number_of[id as usize] as usize;
        !self.numbered[number].steps.is_empty()
    }

    fn reclamp(&mut self, id: u32) {
        let task = TaskId(self.number_of[id as usize] as usize);
        let change = Step::Change(task, self.attributes(id));
        match &self.acting {
            Acting::Task(number) => self.numbered[*number].steps.push_back(change),
            _ => unreachable!("flows end in tasks"),
        }
    }
}

impl<S: Sink> Work for Hosted<'_, S> {
    fn next(&mut self, TaskId(number): TaskId, now: Instant) -> Step {
        self.world.now = now;
        loop {
            let numbered = &mut self.numbered[number];
            if let Some(step) = numbered.steps.pop_front() {
                return step;
            }
            let (id, until) = (numbered.id, numbered.sleeps_until);
            let cpu = self.world.tasks[id as usize].cpu;
            // A time that has come already.
            self.wakes_of_itself(cpu, id, until);
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
            Seen::Sleeps { state, entered, tick_stopped } => {
                self.sleeps(cpu, state, entered, tick_stopped);
            }
            Seen::Slept(slept) => self.slept(cpu, &slept),
            Seen::PollsOn => self.polls_on(cpu),
            Seen::Frequency { khz } => self.changes_frequency(cpu, khz),
            Seen::SentIpi(to) => {
                self.world.ipis += 1;
                let cause = torpor_trace::InterruptCause::Reschedule;
                self.emit(cpu, EventKind::IpiSend { target_cpu: CpuId(to as u32), cause });
            }
        }
    }
}
