// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The hardware around a hosted kernel: its clock, what its CPUs do between two of its decisions,
//! and how long an interrupt takes to reach one that sleeps.

mod cpu;
mod follow;
mod interrupt;
mod last_man;
mod latency;
mod queue;
mod stats;
mod timers;
mod work;

use crate::kernel::abi::{IRQ_DEVICE, IRQ_RESCHEDULE, IRQ_TIMER, NEVER, Usage};
use crate::kernel::{Attributes, Instance, Machine, TaskHandle, TaskSetup, Trouble};
use cpu::Cpu;
pub use last_man::LastMan;
pub use latency::Latencies;
use queue::Queue;
pub use stats::{CpuStats, Stats, TaskStats};
use timers::Timers;
pub use timers::{TimerFunction, TimerId, Traced};
use torpor_machine::units::{CpuId, Duration, Instant};
pub use work::{End, Handled, Ipi, Outside, Seen, Slept, Step, TaskId, Work};

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
    /// A device has finished a task's request.
    Completion(usize),
}

struct Task {
    handle: TaskHandle,
    /// Rest of the computation under way, at a capacity of 1024.
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
    queue: Queue<Event>,
    cpus: Vec<Cpu>,
    /// By number.
    tasks: Vec<Option<Task>>,
    /// CPUs in a polling state, which need no interrupt to see that there is something to do.
    polling: Vec<usize>,
    /// The other threads of each CPU's core; empty where all CPUs are cores.
    siblings: Vec<Vec<usize>>,
    timers: Timers,
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
            .take(instance.cpu_count())
            .map(|&cluster| Cpu {
                task: 0,
                khz: 0,
                from: now,
                turn: 0,
                done_at: Instant::NEVER,
                done_queued: Instant::NEVER,
                timer_queued: NEVER,
                of_sleep: Duration::ZERO,
                asleep: None,
                history: Default::default(),
                cold: Duration::ZERO,
                handles_until: now,
                completed: Vec::new(),
                capacity: u64::from(machine.clusters[cluster].capacity),
                khz_max: machine.clusters[cluster].opps.last().map_or(0, |opp| u64::from(opp.khz)),
                cluster,
                speed_pct: 100,
            })
            .collect();
        let states = |cpu: &Cpu| machine.clusters[cpu.cluster].states.len().max(1);
        let stats = cpus.iter().map(|cpu| CpuStats {
            asleep: vec![Duration::ZERO; states(cpu)],
            entries: vec![0; states(cpu)],
            ..CpuStats::default()
        });
        let stats = Stats { cpus: stats.collect(), ..Stats::default() };
        let siblings = siblings(&machine.core_of);
        let mut sim = Sim {
            instance,
            machine,
            work,
            now,
            queue: Queue::new(cpus.len()),
            cpus,
            tasks: Vec::new(),
            polling: Vec::new(),
            siblings,
            timers: Timers::default(),
            handled: Handled::default(),
            is_halted: false,
            stats,
        };
        (0..sim.cpus.len()).for_each(|cpu| {
            sim.set_costs(cpu);
            sim.instance.cpu_mut(cpu).take_spent_ns();
        });
        if let Some(last_man) = &mut sim.machine.last_man {
            let off = sim.machine.is_online.iter().enumerate().filter(|(_, on)| !**on);
            off.for_each(|(cpu, _)| last_man.offline(cpu));
        }
        // The boot may have set timers or frequencies, and put CPUs to sleep.
        sim.take_timers();
        (0..sim.cpus.len()).for_each(|cpu| sim.look_at(cpu));
        sim.follow();
        sim
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    /// Adds a task with the next free number.
    pub fn add_task(&mut self, setup: TaskSetup) -> Result<TaskId, Trouble> {
        let id = TaskId(self.tasks.len());
        self.fork(&TaskSetup { number: id.0 as u32 + 1, ..setup })?;
        Ok(id)
    }

    /// Runs to `until`, and calls `goes_on` regularly. False if `goes_on` or the work ended the run.
    pub fn run(
        &mut self,
        until: Instant,
        goes_on: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<bool, Trouble> {
        const ASK_EVERY: u64 = 1 << 14;
        let mut outside = Vec::new();
        loop {
            let inside = self.queue.next_time();
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
            } else if let Some((cpu, event)) = self.queue.pop() {
                self.handle(cpu, event)?;
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

    pub fn work_mut(&mut self) -> &mut W {
        &mut self.work
    }

    /// Returns the work, and the sleep of each CPU that is in one.
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

    fn takes(&mut self, what: Outside) -> Result<(), Trouble> {
        match what {
            Outside::Interrupt(cpu) => self.raise(cpu, IRQ_DEVICE),
            Outside::Fork(setup) => self.fork(&setup),
            Outside::Release(task) => {
                self.release(task);
                Ok(())
            }
        }
    }

    fn release(&mut self, TaskId(index): TaskId) {
        let has_it = |cpu: &Cpu| cpu.task as usize == index + 1;
        let cpu = self.cpus.iter().position(has_it);
        if let Some(cpu) = cpu {
            self.account(cpu);
        }
        self.task(index).left = Duration::ZERO;
        if let Some(cpu) = cpu {
            self.plan_done(cpu);
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
        self.tasks[index].as_mut().expect("the kernel names existing tasks only")
    }

    fn handle(&mut self, cpu: usize, event: Event) -> Result<(), Trouble> {
        match event {
            Event::Timer => {
                let set = self.instance.cpu(cpu).timer_ns;
                self.cpus[cpu].timer_queued = NEVER;
                if set <= self.now.0 as u64 {
                    self.instance.cpu_mut(cpu).timer_ns = NEVER;
                    return self.raise(cpu, IRQ_TIMER);
                }
                self.queue_timer(cpu, set);
                Ok(())
            }
            Event::Ipi(bits) => self.raise(cpu, bits),
            Event::Awake(number) => {
                // Unless that sleep has ended otherwise.
                let is_that = self.cpus[cpu].asleep.is_some_and(|sleep| sleep.number == number);
                match is_that || self.instance.cpu(cpu).raised != 0 {
                    true => self.interrupt(cpu),
                    false => Ok(()),
                }
            }
            Event::Done => {
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
            Event::Undemotes(number) => {
                self.undemote(cpu, number);
                Ok(())
            }
            Event::Sleeps => {
                self.tell_sleep(cpu);
                Ok(())
            }
            Event::PollEnd(end_ns) => {
                let is_over = self.instance.cpu(cpu).poll_until_ns == end_ns;
                match self.cpus[cpu].asleep {
                    Some(sleep) if is_over && sleep.event.is_none() => {
                        if sleep.since > self.now {
                            self.queue.push(sleep.since, cpu, event);
                            return Ok(());
                        }
                        // Its work would have come late: no tracepoint has reported it.
                        assert!(
                            !sleep.polls() || !self.instance.needs_resched(cpu),
                            "the kernel reports what it gives to polling CPUs"
                        );
                        self.interrupt(cpu)
                    }
                    _ => Ok(()),
                }
            }
            Event::Completion(task) => {
                self.task(task).woken_at = Some(self.now);
                self.cpus[cpu].completed.push(task);
                self.raise(cpu, IRQ_DEVICE)
            }
        }
    }

    /// Continues the CPU's task, which has finished its computation.
    fn advance(&mut self, cpu: usize) -> Result<(), Trouble> {
        self.account(cpu);
        let turn = self.cpus[cpu].turn;
        let index = self.cpus[cpu].task as usize - 1;
        self.task(index).left = Duration::ZERO;
        self.cpus[cpu].done_at = Instant::NEVER;
        // Until the task computes, is delayed, or leaves the CPU.
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
                Step::Wait | Step::WaitIo => {
                    (task.is_waiting, task.has_left) = (true, true);
                    return match step {
                        Step::WaitIo => self.instance.block_io(cpu),
                        _ => self.instance.block(cpu),
                    };
                }
                Step::Wake(other) => self.wake(cpu, other, false)?,
                Step::WakeSync(other) => self.wake(cpu, other, true)?,
                Step::Fork(mut setup) => {
                    setup.forked_on = CpuId(cpu as u32);
                    self.fork(&setup)?;
                }
                Step::Io(time) => {
                    task.has_left = true;
                    self.queue.push(now + time, cpu, Event::Completion(index));
                    return self.instance.block_io(cpu);
                }
                Step::Yield => return self.yield_cpu(cpu, index),
                Step::Change(other, attributes) => self.change(cpu, other, &attributes)?,
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

    /// Yields the CPU. The task has no work when it runs again, and continues with its next step.
    fn yield_cpu(&mut self, cpu: usize, index: usize) -> Result<(), Trouble> {
        let turn = self.cpus[cpu].turn;
        self.task(index).has_left = true;
        self.instance.yield_cpu(cpu)?;
        self.follow();
        if self.cpus[cpu].turn == turn {
            self.task(index).has_left = false;
            self.plan_done(cpu);
        }
        Ok(())
    }

    fn change(
        &mut self,
        cpu: usize,
        TaskId(other): TaskId,
        attributes: &Attributes,
    ) -> Result<(), Trouble> {
        let other = self.task(other);
        if !other.has_exited {
            let handle = other.handle;
            self.instance.change(handle, cpu, attributes)?;
            self.follow();
        }
        Ok(())
    }

    fn wake(&mut self, cpu: usize, TaskId(other): TaskId, sync: bool) -> Result<(), Trouble> {
        let now = self.now;
        let task = self.task(other);
        if !task.is_waiting {
            task.woken_before += 1;
            return Ok(());
        }
        task.is_waiting = false;
        task.woken_at = Some(now);
        let handle = task.handle;
        self.instance.wake(handle, cpu, sync)?;
        self.follow();
        Ok(())
    }
}

/// Returns the siblings of each CPU; empty if no core has several.
fn siblings(core_of: &[usize]) -> Vec<Vec<usize>> {
    if core_of.iter().enumerate().all(|(cpu, core)| cpu == *core) {
        return Vec::new();
    }
    let mut threads = vec![Vec::new(); core_of.len()];
    core_of.iter().enumerate().for_each(|(cpu, core)| threads[*core].push(cpu));
    let others = |(cpu, core): (usize, &usize)| {
        threads[*core].iter().copied().filter(|other| *other != cpu).collect()
    };
    core_of.iter().enumerate().map(others).collect()
}
