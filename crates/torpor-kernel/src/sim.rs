// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The hardware around a hosted kernel: its clock, what its CPUs do between two of its decisions,
//! and how long an interrupt takes to reach one that sleeps.

use crate::abi::{self, IRQ_CALL, IRQ_DEVICE, IRQ_RESCHEDULE, IRQ_TIMER, NEVER, Usage};
use crate::{Attributes, Instance, Machine, TaskHandle, TaskSetup, Trouble};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use torpor_units::{CpuId, Duration, Instant};

/// A task of the simulation, in the order of their making.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub usize);

/// What a task does next.
#[derive(Clone, Debug)]
pub enum Step {
    /// Computes for as long as a CPU of capacity 1024 takes at its highest frequency.
    Run(Duration),
    /// `clock_nanosleep()` to a time; over at once if that has passed.
    Sleep(Instant),
    /// Blocks until somebody wakes it; goes on at once if somebody has in between.
    Wait,
    /// The same in `io_schedule()`.
    WaitIo,
    /// Wakes another.
    Wake(TaskId),
    /// Starts another, whose number nobody has had.
    Fork(Box<TaskSetup>),
    /// Blocks in `io_schedule()` until a device's interrupt, which comes to the CPU that it asked on.
    Io(Duration),
    Yield,
    /// `sched_setattr()` and `sched_setaffinity()` for a task, if it has not exited.
    Change(TaskId, Attributes),
    Exit,
    /// The run is to end here.
    Halt,
}

/// What comes from outside.
#[derive(Clone, Debug)]
pub enum Outside {
    /// A device's interrupt, for a CPU.
    Interrupt(usize),
    Fork(Box<TaskSetup>),
}

/// What the handler of a device's interrupt does.
#[derive(Debug, Default)]
pub struct Handled {
    pub woken: Vec<TaskId>,
    /// What it takes on the biggest CPU at its highest frequency.
    pub time: Duration,
    /// What it brings about elsewhere.
    pub outside: Vec<Outside>,
}

/// What a CPU is seen to do.
#[derive(Clone, Copy, Debug)]
pub enum Seen {
    /// A task has the CPU from `switched` on, and begins to compute at `from`.
    Runs {
        task: TaskId,
        switched: Instant,
        from: Instant,
    },
    /// Another has taken its place, while it had more to do.
    Preempted(TaskId),
    /// The CPU has nothing to run.
    Idles,
    Computed {
        task: TaskId,
        time: Duration,
    },
    /// The kernel's own work takes so long.
    HeldUp(Duration),
    /// The kernel has entered the state at `entered`, and the hardware does now.
    Sleeps {
        state: usize,
        entered: Instant,
        tick_stopped: bool,
    },
    Slept(Slept),
    /// An interrupt came while it polled, and polling goes on.
    PollsOn,
    Frequency {
        khz: u32,
    },
    /// To a CPU.
    SentIpi(usize),
}

/// A sleep that is over.
#[derive(Clone, Copy, Debug)]
pub struct Slept {
    pub state: usize,
    /// When the kernel entered the state, and when the hardware did: it may have had an interrupt's
    /// work to do first.
    pub entered: Instant,
    pub since: Instant,
    /// What ended it came then.
    pub event: Instant,
    pub end: End,
    /// Another CPU gave it something to run.
    pub is_resched: bool,
    /// It has something to run.
    pub has_task: bool,
    /// What its clock event device was set to when it began.
    pub timer: Instant,
    pub tick_stopped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Event,
    /// The tick, which brought nothing to run.
    Tick,
    PollTimeout,
}

/// What tasks do, what else comes from outside, and who looks on.
pub trait Work {
    fn next(&mut self, task: TaskId, now: Instant) -> Step;

    /// When the next thing comes from outside.
    fn due(&self) -> Instant {
        Instant::NEVER
    }

    /// It is time.
    fn happens(&mut self, _now: Instant, _outside: &mut Vec<Outside>) {}

    /// The CPU handles the interrupts of devices that have come.
    fn handle(&mut self, _cpu: usize, _now: Instant, _handled: &mut Handled) {}

    fn watch(&mut self, _cpu: usize, _now: Instant, _seen: Seen) {}
}

impl<F: FnMut(TaskId, Instant) -> Step> Work for F {
    fn next(&mut self, task: TaskId, now: Instant) -> Step {
        self(task, now)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskStats {
    pub wakeups: u64,
    /// From the event that woke it to its running.
    pub latency_total: Duration,
    pub latency_max: Duration,
    pub migrations: u64,
    pub run_time: Duration,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuStats {
    pub busy: Duration,
    /// By the kernel's own work.
    pub held_up: Duration,
    /// Time asleep in each state, from the decision to the wake-up event.
    pub asleep: Vec<Duration>,
    pub entries: Vec<u64>,
    pub switches: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub events: u64,
    pub ipis: u64,
    pub cpus: Vec<CpuStats>,
    pub tasks: Vec<TaskStats>,
}

/// Events are in the order of their time, then of their making.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A clock event device may have reached what it is set to.
    Timer(usize),
    Ipi(usize, u32),
    /// A CPU is out of its idle state, or a polling one has seen that there is something to do.
    Awake(usize),
    /// What a CPU's task had to compute may be done.
    Done(usize),
    /// The hardware enters the state that the kernel has entered before.
    Sleeps(usize),
    /// A polling state's time is up.
    PollEnd(usize, u64),
    Completion(usize, usize),
}

struct Cpu {
    /// The number of the task that has it; 0 is the kernel's own.
    task: u32,
    khz: u32,
    /// Until when its time is accounted for; in the future while the kernel's own work holds up
    /// what runs here.
    from: Instant,
    /// Changes with `task`.
    turn: u64,
    /// When the task is done with what it computes.
    done_at: Instant,
    /// The earliest events of that and of its timer that are queued.
    done_queued: Instant,
    timer_queued: u64,
    asleep: Option<Sleep>,
    /// Those whose request to a device is done.
    completed: Vec<usize>,
    capacity: u64,
    khz_max: u64,
    cluster: usize,
}

#[derive(Clone, Copy)]
struct Sleep {
    state: usize,
    entered: Instant,
    since: Instant,
    poll_until_ns: u64,
    timer: Instant,
    tick_stopped: bool,
    /// It is on its way out, for something that came then.
    event: Option<Instant>,
    is_resched: bool,
}

struct Task {
    handle: TaskHandle,
    /// Of the computation under way, at a capacity of 1024.
    left: Duration,
    /// It waits to be woken by another.
    is_waiting: bool,
    /// It has left its CPU by itself.
    has_left: bool,
    /// The kernel knows it no more.
    has_exited: bool,
    /// Times it was woken while it did not wait.
    woken_before: u64,
    /// When the event came that its running answers.
    woken_at: Option<Instant>,
    last_cpu: Option<usize>,
    stats: TaskStats,
}

/// A hosted kernel on simulated hardware.
pub struct Sim<W> {
    instance: Instance,
    machine: Machine,
    work: W,
    now: Instant,
    queue: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    queued: u64,
    cpus: Vec<Cpu>,
    /// By number.
    tasks: Vec<Option<Task>>,
    /// CPUs in a polling state, which need no interrupt to see that there is something to do.
    polling: Vec<usize>,
    handled: Handled,
    is_halted: bool,
    stats: Stats,
}

impl<W: Work> Sim<W> {
    pub fn new(instance: Instance, machine: Machine, work: W) -> Sim<W> {
        let now = instance.now();
        let cpus: Vec<Cpu> = machine
            .cluster_of
            .iter()
            .map(|&cluster| Cpu {
                task: 0,
                khz: 0,
                from: now,
                turn: 0,
                done_at: Instant::NEVER,
                done_queued: Instant::NEVER,
                timer_queued: NEVER,
                asleep: None,
                completed: Vec::new(),
                capacity: u64::from(machine.clusters[cluster].capacity),
                khz_max: machine.clusters[cluster].opps.last().map_or(0, |opp| u64::from(opp.khz)),
                cluster,
            })
            .collect();
        let states = |cpu: &Cpu| machine.clusters[cpu.cluster].states.len().max(1);
        let stats = cpus.iter().map(|cpu| CpuStats {
            asleep: vec![Duration::ZERO; states(cpu)],
            entries: vec![0; states(cpu)],
            ..CpuStats::default()
        });
        let stats = Stats { cpus: stats.collect(), ..Stats::default() };
        let mut sim = Sim {
            instance,
            machine,
            work,
            now,
            queue: BinaryHeap::new(),
            queued: 0,
            cpus,
            tasks: Vec::new(),
            polling: Vec::new(),
            handled: Handled::default(),
            is_halted: false,
            stats,
        };
        // Whatever the start has left is news.
        (0..sim.cpus.len()).for_each(|cpu| sim.look_at(cpu));
        sim.follow();
        sim
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    /// A task from outside, with the next number that is free.
    pub fn add_task(&mut self, setup: TaskSetup) -> Result<TaskId, Trouble> {
        let id = TaskId(self.tasks.len());
        self.fork(&TaskSetup { number: id.0 as u32 + 1, ..setup })?;
        Ok(id)
    }

    /// Lets time pass; `goes_on` is asked now and then. False if that or the work has ended it.
    pub fn run(
        &mut self,
        until: Instant,
        goes_on: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<bool, Trouble> {
        const ASK_EVERY: u64 = 1 << 14;
        let mut outside = Vec::new();
        loop {
            let inside = self.queue.peek().map_or(Instant::NEVER, |Reverse((time, ..))| *time);
            let due = self.work.due();
            let time = inside.min(due);
            if time >= until || time == Instant::NEVER {
                break;
            }
            self.now = time;
            self.instance.set_now(time);
            if due <= inside {
                self.work.happens(time, &mut outside);
                for what in outside.drain(..) {
                    self.takes(what)?;
                }
            } else if let Some(Reverse((.., event))) = self.queue.pop() {
                self.handle(event)?;
            }
            self.follow();
            self.stats.events += 1;
            if self.is_halted || (self.stats.events % ASK_EVERY == 0 && !goes_on(time)) {
                return Ok(false);
            }
        }
        self.now = until;
        self.instance.set_now(until);
        (0..self.cpus.len()).for_each(|cpu| self.account(cpu));
        Ok(true)
    }

    /// What does the work, and what is under way: the sleep of each CPU that is in one.
    pub fn into_work(mut self) -> (W, Vec<Option<Slept>>) {
        let now = self.now;
        let slept = self.cpus.iter_mut().map(|cpu| cpu.asleep.take().map(|s| s.slept(now)));
        (self.work, slept.collect())
    }

    pub fn stats(&self) -> Stats {
        let mut stats = self.stats.clone();
        stats.tasks = self.tasks.iter().flatten().map(|task| task.stats.clone()).collect();
        for (cpu, stats) in stats.cpus.iter_mut().enumerate() {
            stats.switches = self.instance.cpu(cpu).switches;
            // The one under way; the kernel counts it when it ends.
            if let Some(sleep) = self.cpus[cpu].asleep {
                stats.asleep[sleep.state] += self.now.since(sleep.since).max(Duration::ZERO);
            }
        }
        stats
    }

    /// The kernel's own counters of a CPU's idle states.
    pub fn idle_usage(&mut self, cpu: CpuId) -> Result<Vec<Usage>, Trouble> {
        self.instance.idle_usage(cpu)
    }

    pub fn instance(&mut self) -> &mut Instance {
        &mut self.instance
    }

    fn push(&mut self, time: Instant, event: Event) {
        self.queued += 1;
        self.queue.push(Reverse((time, self.queued, event)));
    }

    fn takes(&mut self, what: Outside) -> Result<(), Trouble> {
        match what {
            Outside::Interrupt(cpu) => self.raise(cpu, IRQ_DEVICE),
            Outside::Fork(setup) => self.fork(&setup),
        }
    }

    fn fork(&mut self, setup: &TaskSetup) -> Result<(), Trouble> {
        let index = setup.number as usize - 1;
        let task = Task {
            handle: self.instance.new_task(setup)?,
            left: Duration::ZERO,
            is_waiting: false,
            has_left: false,
            has_exited: false,
            woken_before: 0,
            woken_at: None,
            last_cpu: None,
            stats: TaskStats::default(),
        };
        if index >= self.tasks.len() {
            self.tasks.resize_with(index + 1, || None);
        }
        self.tasks[index] = Some(task);
        self.follow();
        let cpu = setup.forked_on.index();
        // The kernel has no IPI for a CPU that it thinks it is on.
        if self.cpus[cpu].asleep.is_some() && self.instance.needs_resched(cpu) {
            self.raise(cpu, IRQ_RESCHEDULE)?;
        }
        Ok(())
    }

    fn task(&mut self, index: usize) -> &mut Task {
        self.tasks[index].as_mut().expect("the kernel knows the tasks that there are")
    }

    fn handle(&mut self, event: Event) -> Result<(), Trouble> {
        match event {
            Event::Timer(cpu) => {
                let set = self.instance.cpu(cpu).timer_ns;
                self.cpus[cpu].timer_queued = NEVER;
                if set <= self.now.0 as u64 {
                    self.instance.cpu_mut(cpu).timer_ns = NEVER;
                    return self.raise(cpu, IRQ_TIMER);
                }
                self.queue_timer(cpu, set);
                Ok(())
            }
            Event::Ipi(cpu, bits) => self.raise(cpu, bits),
            Event::Awake(cpu) => self.interrupt(cpu),
            Event::Done(cpu) => {
                let it = &mut self.cpus[cpu];
                if self.now >= it.done_queued {
                    it.done_queued = Instant::NEVER;
                }
                if it.done_at <= self.now {
                    return self.advance(cpu);
                }
                self.queue_done(cpu);
                Ok(())
            }
            Event::Sleeps(cpu) => {
                self.tell_sleep(cpu);
                Ok(())
            }
            Event::PollEnd(cpu, end_ns) => {
                let is_over = self.instance.cpu(cpu).poll_until_ns == end_ns;
                match self.cpus[cpu].asleep {
                    Some(sleep) if is_over && sleep.event.is_none() => {
                        if sleep.since > self.now {
                            self.push(sleep.since, event);
                            return Ok(());
                        }
                        self.interrupt(cpu)
                    }
                    _ => Ok(()),
                }
            }
            Event::Completion(task, cpu) => {
                self.task(task).woken_at = Some(self.now);
                self.cpus[cpu].completed.push(task);
                self.raise(cpu, IRQ_DEVICE)
            }
        }
    }

    /// An interrupt comes to a CPU: at once if it is awake, else once it is out of its state.
    fn raise(&mut self, cpu: usize, bits: u32) -> Result<(), Trouble> {
        self.instance.cpu_mut(cpu).raised |= bits;
        let now = self.now;
        let Some(sleep) = &mut self.cpus[cpu].asleep else { return self.interrupt(cpu) };
        if sleep.event.is_some() {
            return Ok(());
        }
        sleep.event = Some(now);
        sleep.is_resched = bits & IRQ_RESCHEDULE != 0;
        let Sleep { state, since, poll_until_ns, .. } = *sleep;
        let states = &self.machine.clusters[self.cpus[cpu].cluster].states;
        let at = match states.get(state) {
            Some(state) if poll_until_ns == 0 => {
                now.max(since + state.entry_latency) + state.exit_latency
            }
            _ => now.max(since),
        };
        self.push(at, Event::Awake(cpu));
        Ok(())
    }

    /// The kernel goes on on a CPU, asleep or not, with what is raised there.
    fn interrupt(&mut self, cpu: usize) -> Result<(), Trouble> {
        self.account(cpu);
        let asleep = self.cpus[cpu].asleep.take();
        let raised = self.instance.cpu(cpu).raised;
        let mut handled = std::mem::take(&mut self.handled);
        let mut held = self.handle_devices(cpu, raised, &mut handled)?;
        let overheads = self.machine.overheads;
        if raised & IRQ_TIMER != 0 {
            held += overheads.interrupt;
        }
        if raised & (IRQ_RESCHEDULE | IRQ_CALL) != 0 {
            held += overheads.ipi_handling;
        }
        let before = self.instance.cpu(cpu).switches;
        self.instance.interrupt(cpu)?;
        let has_task = self.instance.cpu(cpu).switches != before;
        if let Some(sleep) = asleep {
            if !has_task && self.polls_on(cpu, sleep) {
                held = Duration::ZERO;
            } else {
                let is_tick = raised == IRQ_TIMER && !has_task && !sleep.tick_stopped;
                let mut slept = sleep.slept(self.now);
                slept.has_task = has_task;
                if is_tick {
                    slept.end = End::Tick;
                    // Part of the sleep's cost, and of nobody's work.
                    self.cpus[cpu].from = self.now + std::mem::take(&mut held);
                } else if raised == 0 && sleep.event.is_none() && !has_task {
                    slept.end = End::PollTimeout;
                }
                self.left(cpu, slept);
            }
        }
        self.hold_up(cpu, held);
        self.plan_done(cpu);
        for what in handled.outside.drain(..) {
            self.takes(what)?;
        }
        self.handled = handled;
        Ok(())
    }

    /// What devices have for this CPU; returns what that takes.
    fn handle_devices(
        &mut self,
        cpu: usize,
        raised: u32,
        handled: &mut Handled,
    ) -> Result<Duration, Trouble> {
        if raised & IRQ_DEVICE == 0 {
            return Ok(Duration::ZERO);
        }
        handled.time = Duration::ZERO;
        handled.woken.clear();
        for task in std::mem::take(&mut self.cpus[cpu].completed) {
            self.instance.completes(self.tasks[task].as_ref().expect("it asked").handle, cpu)?;
            handled.time = self.machine.overheads.interrupt;
        }
        self.work.handle(cpu, self.now, handled);
        for TaskId(task) in handled.woken.drain(..) {
            let now = self.now;
            let it = self.task(task);
            if !std::mem::take(&mut it.is_waiting) {
                it.woken_before += 1;
                continue;
            }
            it.woken_at = Some(now);
            let handle = it.handle;
            self.instance.completes(handle, cpu)?;
        }
        Ok(handled.time)
    }

    /// Whether a polling CPU still polls after an interrupt; the kernel is back in its loop then.
    fn polls_on(&mut self, cpu: usize, sleep: Sleep) -> bool {
        let &abi::Cpu { idle_state, poll_until_ns, .. } = self.instance.cpu(cpu);
        let is_same = idle_state == sleep.state as i32 && poll_until_ns == sleep.poll_until_ns;
        let polls = sleep.poll_until_ns != 0 && sleep.poll_until_ns > self.now.0 as u64;
        if !polls || !is_same || self.instance.needs_resched(cpu) {
            return false;
        }
        self.cpus[cpu].asleep = Some(Sleep { event: None, is_resched: false, ..sleep });
        self.work.watch(cpu, self.now, Seen::PollsOn);
        true
    }

    fn left(&mut self, cpu: usize, slept: Slept) {
        let stats = &mut self.stats.cpus[cpu];
        stats.asleep[slept.state] += self.now.since(slept.since);
        stats.entries[slept.state] += 1;
        self.polling.retain(|other| *other != cpu);
        self.work.watch(cpu, self.now, Seen::Slept(slept));
    }

    /// Takes over what the kernel has decided.
    fn follow(&mut self) {
        for word in 0..self.cpus.len().div_ceil(64) {
            let mut touched = self.instance.take_touched(word);
            while touched != 0 {
                self.look_at(64 * word + touched.trailing_zeros() as usize);
                touched &= touched - 1;
            }
        }
        for at in 0..self.polling.len() {
            let cpu = self.polling[at];
            let now = self.now;
            let sleep = self.cpus[cpu].asleep.as_mut().expect("a polling CPU is asleep");
            if sleep.event.is_none() && self.instance.needs_resched(cpu) {
                sleep.event = Some(now);
                sleep.is_resched = true;
                let at = now.max(sleep.since);
                self.push(at, Event::Awake(cpu));
            }
        }
    }

    fn look_at(&mut self, cpu: usize) {
        let abi::Cpu { timer_ns, task, khz, idle_state, poll_until_ns, tick_stopped, .. } =
            *self.instance.cpu(cpu);
        let sent = std::mem::take(&mut self.instance.cpu_mut(cpu).sent);
        if sent != 0 {
            let sender = self.instance.acting_cpu();
            self.stats.ipis += 1;
            self.work.watch(sender, self.now, Seen::SentIpi(cpu));
            self.hold_up(sender, self.machine.overheads.ipi_send);
            self.plan_done(sender);
            self.push(self.now + self.machine.ipi_delivery, Event::Ipi(cpu, sent));
        }
        self.queue_timer(cpu, timer_ns);
        if khz != self.cpus[cpu].khz {
            self.account(cpu);
            self.cpus[cpu].khz = khz;
            self.work.watch(cpu, self.now, Seen::Frequency { khz });
            self.plan_done(cpu);
        }
        if task != self.cpus[cpu].task {
            self.account(cpu);
            self.changes(cpu, task);
        }
        if idle_state >= 0 && self.cpus[cpu].asleep.is_none() {
            let sleep = Sleep {
                state: idle_state as usize,
                entered: self.now,
                since: self.now.max(self.cpus[cpu].from),
                poll_until_ns,
                timer: if timer_ns == NEVER { Instant::NEVER } else { Instant(timer_ns as i64) },
                tick_stopped: tick_stopped != 0,
                event: None,
                is_resched: false,
            };
            self.cpus[cpu].asleep = Some(sleep);
            if poll_until_ns != 0 {
                self.polling.push(cpu);
                self.push(Instant(poll_until_ns as i64), Event::PollEnd(cpu, poll_until_ns));
            }
            match sleep.since > self.now {
                true => self.push(sleep.since, Event::Sleeps(cpu)),
                false => self.tell_sleep(cpu),
            }
        }
    }

    fn tell_sleep(&mut self, cpu: usize) {
        let Some(sleep) = self.cpus[cpu].asleep.filter(|sleep| sleep.since == self.now) else {
            return;
        };
        let Sleep { state, entered, tick_stopped, .. } = sleep;
        self.work.watch(cpu, self.now, Seen::Sleeps { state, entered, tick_stopped });
    }

    /// Another task has the CPU, or none.
    fn changes(&mut self, cpu: usize, task: u32) {
        let before = std::mem::replace(&mut self.cpus[cpu].task, task);
        self.cpus[cpu].turn += 1;
        self.cpus[cpu].done_at = Instant::NEVER;
        if let Some(index) = (before as usize).checked_sub(1)
            && !self.task(index).has_left
        {
            self.work.watch(cpu, self.now, Seen::Preempted(TaskId(index)));
        }
        match (task as usize).checked_sub(1) {
            Some(index) => self.begins(cpu, index),
            None => self.work.watch(cpu, self.now, Seen::Idles),
        }
    }

    fn queue_timer(&mut self, cpu: usize, timer_ns: u64) {
        if timer_ns < self.cpus[cpu].timer_queued {
            self.cpus[cpu].timer_queued = timer_ns;
            self.push(Instant(timer_ns as i64).max(self.now), Event::Timer(cpu));
        }
    }

    /// A task has the CPU.
    fn begins(&mut self, cpu: usize, index: usize) {
        let switched = self.cpus[cpu].from.max(self.now);
        self.hold_up(cpu, self.machine.overheads.context_switch);
        let from = self.cpus[cpu].from.max(self.now);
        let task = self.task(index);
        task.has_left = false;
        if let Some(woken) = task.woken_at.take() {
            let latency = from.since(woken);
            task.stats.wakeups += 1;
            task.stats.latency_total += latency;
            task.stats.latency_max = task.stats.latency_max.max(latency);
        }
        if task.last_cpu.replace(cpu).is_some_and(|last| last != cpu) {
            task.stats.migrations += 1;
        }
        self.work.watch(cpu, self.now, Seen::Runs { task: TaskId(index), switched, from });
        self.plan_done(cpu);
    }

    /// The kernel's own work takes time on a CPU; `length` is that of the biggest CPU at its
    /// highest frequency.
    fn hold_up(&mut self, cpu: usize, length: Duration) {
        if length <= Duration::ZERO {
            return;
        }
        self.account(cpu);
        let time = self.cpus[cpu].time_for(length);
        let it = &mut self.cpus[cpu];
        it.from = it.from.max(self.now) + time;
        self.stats.cpus[cpu].held_up += time;
        self.work.watch(cpu, self.now, Seen::HeldUp(time));
    }

    /// When the task that has the CPU is done with what it computes.
    fn plan_done(&mut self, cpu: usize) {
        let it = &self.cpus[cpu];
        let Some(index) = (it.task as usize).checked_sub(1) else { return };
        let (left, from) = (self.tasks[index].as_ref().map_or(Duration::ZERO, |t| t.left), it.from);
        self.cpus[cpu].done_at = from.max(self.now) + self.cpus[cpu].time_for(left);
        self.queue_done(cpu);
    }

    fn queue_done(&mut self, cpu: usize) {
        let it = &mut self.cpus[cpu];
        if it.done_at < it.done_queued {
            it.done_queued = it.done_at;
            let at = it.done_at;
            self.push(at, Event::Done(cpu));
        }
    }

    /// What a CPU's task has computed since the last look.
    fn account(&mut self, cpu: usize) {
        let (rate, full) = self.cpus[cpu].rate();
        let it = &mut self.cpus[cpu];
        if self.now <= it.from {
            return;
        }
        let time = self.now.since(it.from);
        it.from = self.now;
        if let Some(index) = (it.task as usize).checked_sub(1) {
            let task = self.tasks[index].as_mut().expect("it has the CPU");
            let done = (i128::from(time.0) * rate / full) as i64;
            task.left = Duration((task.left.0 - done).max(0));
            task.stats.run_time += time;
            self.stats.cpus[cpu].busy += time;
            self.work.watch(cpu, self.now, Seen::Computed { task: TaskId(index), time });
        }
    }

    /// The task that has the CPU has done what it had to, and says what is next.
    fn advance(&mut self, cpu: usize) -> Result<(), Trouble> {
        self.account(cpu);
        let turn = self.cpus[cpu].turn;
        let index = self.cpus[cpu].task as usize - 1;
        self.task(index).left = Duration::ZERO;
        self.cpus[cpu].done_at = Instant::NEVER;
        // Until it computes, is held up, or makes way.
        while self.cpus[cpu].turn == turn {
            if self.cpus[cpu].from > self.now {
                self.plan_done(cpu);
                return Ok(());
            }
            let step = self.work.next(TaskId(index), self.now);
            let now = self.now;
            let task = self.task(index);
            match step {
                Step::Run(time) => {
                    task.left = time;
                    self.plan_done(cpu);
                    return Ok(());
                }
                Step::Sleep(until) if until <= now => {}
                Step::Sleep(until) => {
                    task.woken_at = Some(until);
                    task.has_left = true;
                    return self.instance.sleep(cpu, until);
                }
                Step::Wait | Step::WaitIo if task.woken_before > 0 => task.woken_before -= 1,
                Step::Wait => {
                    (task.is_waiting, task.has_left) = (true, true);
                    return self.instance.block(cpu);
                }
                Step::WaitIo => {
                    (task.is_waiting, task.has_left) = (true, true);
                    return self.instance.block_io(cpu);
                }
                Step::Wake(other) => self.wake(cpu, other)?,
                Step::Fork(mut setup) => {
                    setup.forked_on = CpuId(cpu as u32);
                    self.fork(&setup)?;
                }
                Step::Io(time) => {
                    task.has_left = true;
                    self.push(now + time, Event::Completion(index, cpu));
                    return self.instance.block_io(cpu);
                }
                Step::Yield => {
                    task.has_left = true;
                    // It comes back with nothing left, and is asked again.
                    self.instance.yield_cpu(cpu)?;
                    self.follow();
                    if self.cpus[cpu].turn == turn {
                        self.task(index).has_left = false;
                        self.plan_done(cpu);
                    }
                    return Ok(());
                }
                Step::Change(other, attributes) => {
                    let other = self.task(other.0);
                    if !other.has_exited {
                        let handle = other.handle;
                        self.instance.change(handle, cpu, &attributes)?;
                        self.follow();
                    }
                }
                Step::Exit => {
                    (task.has_left, task.has_exited) = (true, true);
                    return self.instance.exit(cpu);
                }
                Step::Halt => {
                    self.is_halted = true;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn wake(&mut self, cpu: usize, TaskId(other): TaskId) -> Result<(), Trouble> {
        let now = self.now;
        let task = self.task(other);
        if !task.is_waiting {
            task.woken_before += 1;
            return Ok(());
        }
        task.is_waiting = false;
        task.woken_at = Some(now);
        let handle = task.handle;
        self.instance.wake(handle, cpu)?;
        self.follow();
        Ok(())
    }
}

impl Sleep {
    fn slept(&self, now: Instant) -> Slept {
        Slept {
            state: self.state,
            entered: self.entered,
            since: self.since,
            event: self.event.unwrap_or(now),
            end: End::Event,
            is_resched: self.is_resched,
            has_task: false,
            timer: self.timer,
            tick_stopped: self.tick_stopped,
        }
    }
}

impl Cpu {
    /// Its speed now, and that of a CPU of capacity 1024 at its highest frequency.
    fn rate(&self) -> (i128, i128) {
        let khz = if self.khz == 0 { self.khz_max.max(1) } else { u64::from(self.khz) };
        let rate = i128::from(self.capacity) * i128::from(khz);
        (rate.max(1), 1024 * i128::from(self.khz_max.max(1)))
    }

    /// How long what takes `length` at full speed takes here.
    fn time_for(&self, length: Duration) -> Duration {
        let (rate, full) = self.rate();
        Duration(((i128::from(length.0) * full + rate - 1) / rate) as i64)
    }
}
