// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The hardware around a hosted kernel: its clock, what its CPUs do between two of its decisions,
//! and how long an interrupt takes to reach one that sleeps.

use crate::abi::{self, IRQ_DEVICE, IRQ_TIMER, NEVER, Usage};
use crate::{Attributes, Instance, Machine, TaskHandle, TaskSetup, Trouble};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use torpor_units::{CpuId, Duration, Instant};

/// A task of the simulation, in the order of their making.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub usize);

/// What a task does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Computes for as long as a CPU of capacity 1024 takes at its highest frequency.
    Run(Duration),
    /// `clock_nanosleep()` to a time; over at once if that has passed.
    Sleep(Instant),
    /// Blocks until somebody wakes it; goes on at once if somebody has in between.
    Wait,
    /// Wakes another.
    Wake(TaskId),
    /// Blocks in `io_schedule()` until a device's interrupt, which comes to the CPU that it asked on.
    Io(Duration),
    Yield,
    /// `sched_setattr()` and `sched_setaffinity()` for a task that has not exited.
    Change(TaskId, Attributes),
    Exit,
}

/// What tasks do.
pub trait Work {
    fn next(&mut self, task: TaskId, now: Instant) -> Step;
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
    /// What a CPU's task had to compute is done; the number tells whether it still has the CPU.
    Done(usize, u64),
    /// A polling state's time is up.
    PollEnd(usize, u64),
    Completion(usize, usize),
}

struct Cpu {
    /// The number of the task that has it; 0 is the kernel's own.
    task: u32,
    /// Since when that has been so at this frequency.
    since: Instant,
    khz: u32,
    /// Changes with `task` and `khz`.
    turn: u64,
    /// The earliest event of its timer that is queued.
    timer_queued: u64,
    asleep: Option<Sleep>,
    capacity: u64,
    khz_max: u64,
    cluster: usize,
}

#[derive(Clone, Copy)]
struct Sleep {
    state: usize,
    since: Instant,
    is_polling: bool,
    /// It is on its way out.
    is_waking: bool,
}

struct Task {
    handle: TaskHandle,
    /// Of the computation under way, at a capacity of 1024.
    left: Duration,
    /// It waits to be woken by another.
    is_waiting: bool,
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
    tasks: Vec<Task>,
    /// CPUs in a polling state, which need no interrupt to see that there is something to do.
    polling: Vec<usize>,
    stats: Stats,
}

impl<W: Work> Sim<W> {
    pub fn new(instance: Instance, machine: Machine, work: W) -> Result<Sim<W>, Trouble> {
        let now = instance.now();
        let cpus: Vec<Cpu> = machine
            .cluster_of
            .iter()
            .map(|&cluster| Cpu {
                task: 0,
                since: now,
                khz: 0,
                turn: 0,
                timer_queued: NEVER,
                asleep: None,
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
        let queue = BinaryHeap::new();
        let (tasks, polling) = (Vec::new(), Vec::new());
        let mut sim =
            Sim { instance, machine, work, now, queue, queued: 0, cpus, tasks, polling, stats };
        // Whatever the start has left is news.
        (0..sim.cpus.len()).for_each(|cpu| sim.look_at(cpu));
        sim.follow();
        Ok(sim)
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    pub fn add_task(&mut self, setup: TaskSetup) -> Result<TaskId, Trouble> {
        let id = TaskId(self.tasks.len());
        let setup = TaskSetup { number: id.0 as u32 + 1, ..setup };
        let handle = self.instance.new_task(&setup)?;
        self.tasks.push(Task {
            handle,
            left: Duration::ZERO,
            is_waiting: false,
            woken_before: 0,
            woken_at: None,
            last_cpu: None,
            stats: TaskStats::default(),
        });
        self.follow();
        Ok(id)
    }

    /// Lets time pass; `goes_on` is asked now and then.
    pub fn run(
        &mut self,
        until: Instant,
        goes_on: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<bool, Trouble> {
        const ASK_EVERY: u64 = 1 << 14;
        while let Some(Reverse((time, _, event))) = self.queue.peek().copied() {
            if time > until {
                break;
            }
            self.queue.pop();
            self.now = time;
            self.instance.set_now(time);
            self.handle(event)?;
            self.follow();
            self.stats.events += 1;
            if self.stats.events % ASK_EVERY == 0 && !goes_on(time) {
                return Ok(false);
            }
        }
        self.now = until;
        self.instance.set_now(until);
        (0..self.cpus.len()).for_each(|cpu| self.account(cpu));
        Ok(true)
    }

    pub fn stats(&self) -> Stats {
        let mut stats = self.stats.clone();
        stats.tasks = self.tasks.iter().map(|task| task.stats.clone()).collect();
        for (cpu, stats) in stats.cpus.iter_mut().enumerate() {
            stats.switches = self.instance.cpu(cpu).switches;
            // The one under way; the kernel counts it when it ends.
            if let Some(sleep) = self.cpus[cpu].asleep {
                stats.asleep[sleep.state] += self.now.since(sleep.since);
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
            Event::Done(cpu, turn) if self.cpus[cpu].turn == turn => self.advance(cpu),
            Event::Done(..) => Ok(()),
            Event::PollEnd(cpu, end_ns) => {
                let is_over = self.instance.cpu(cpu).poll_until_ns == end_ns;
                match self.cpus[cpu].asleep {
                    Some(sleep) if is_over && !sleep.is_waking => self.interrupt(cpu),
                    _ => Ok(()),
                }
            }
            Event::Completion(task, cpu) => {
                self.tasks[task].woken_at = Some(self.now);
                self.instance.completes(self.tasks[task].handle, cpu)?;
                self.raise(cpu, IRQ_DEVICE)
            }
        }
    }

    /// An interrupt comes to a CPU: at once if it is awake, else once it is out of its state.
    fn raise(&mut self, cpu: usize, bits: u32) -> Result<(), Trouble> {
        self.instance.cpu_mut(cpu).raised |= bits;
        let Some(sleep) = &mut self.cpus[cpu].asleep else { return self.instance.interrupt(cpu) };
        if sleep.is_waking {
            return Ok(());
        }
        sleep.is_waking = true;
        let Sleep { state, since, is_polling, .. } = *sleep;
        let states = &self.machine.clusters[self.cpus[cpu].cluster].states;
        let at = match states.get(state) {
            Some(state) if !is_polling => {
                self.now.max(since + state.entry_latency) + state.exit_latency
            }
            _ => self.now,
        };
        self.push(at, Event::Awake(cpu));
        Ok(())
    }

    /// The kernel goes on on a CPU, asleep or not, with what is raised there.
    fn interrupt(&mut self, cpu: usize) -> Result<(), Trouble> {
        if let Some(sleep) = self.cpus[cpu].asleep.take() {
            let stats = &mut self.stats.cpus[cpu];
            stats.asleep[sleep.state] += self.now.since(sleep.since);
            stats.entries[sleep.state] += 1;
            self.polling.retain(|other| *other != cpu);
        }
        self.instance.interrupt(cpu)
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
            let sleep = self.cpus[cpu].asleep.as_mut().expect("a polling CPU is asleep");
            if !sleep.is_waking && self.instance.needs_resched(cpu) {
                sleep.is_waking = true;
                self.push(self.now, Event::Awake(cpu));
            }
        }
    }

    fn look_at(&mut self, cpu: usize) {
        let abi::Cpu { timer_ns, task, khz, idle_state, poll_until_ns, .. } =
            *self.instance.cpu(cpu);
        let sent = std::mem::take(&mut self.instance.cpu_mut(cpu).sent);
        if sent != 0 {
            self.stats.ipis += 1;
            self.push(self.now + self.machine.ipi_delivery, Event::Ipi(cpu, sent));
        }
        self.queue_timer(cpu, timer_ns);
        if task != self.cpus[cpu].task || khz != self.cpus[cpu].khz {
            self.account(cpu);
            self.cpus[cpu].task = task;
            self.cpus[cpu].khz = khz;
            self.cpus[cpu].turn += 1;
            if let Some(index) = (task as usize).checked_sub(1) {
                self.begins(cpu, index);
            }
        }
        if idle_state >= 0 && self.cpus[cpu].asleep.is_none() {
            let is_polling = poll_until_ns != 0;
            let state = idle_state as usize;
            self.cpus[cpu].asleep =
                Some(Sleep { state, since: self.now, is_polling, is_waking: false });
            if is_polling {
                self.polling.push(cpu);
                self.push(Instant(poll_until_ns as i64), Event::PollEnd(cpu, poll_until_ns));
            }
        }
    }

    fn queue_timer(&mut self, cpu: usize, timer_ns: u64) {
        if timer_ns < self.cpus[cpu].timer_queued {
            self.cpus[cpu].timer_queued = timer_ns;
            self.push(Instant(timer_ns as i64).max(self.now), Event::Timer(cpu));
        }
    }

    /// A task has the CPU, at a frequency.
    fn begins(&mut self, cpu: usize, index: usize) {
        let task = &mut self.tasks[index];
        if let Some(woken) = task.woken_at.take() {
            let latency = self.now.since(woken);
            task.stats.wakeups += 1;
            task.stats.latency_total += latency;
            task.stats.latency_max = task.stats.latency_max.max(latency);
        }
        if task.last_cpu.replace(cpu).is_some_and(|last| last != cpu) {
            task.stats.migrations += 1;
        }
        let (rate, full) = self.cpus[cpu].rate();
        let takes = (i128::from(task.left.0) * full + rate - 1) / rate;
        let turn = self.cpus[cpu].turn;
        self.push(self.now + Duration(takes as i64), Event::Done(cpu, turn));
    }

    /// What a CPU's task has computed since the last look.
    fn account(&mut self, cpu: usize) {
        let (rate, full) = self.cpus[cpu].rate();
        let it = &mut self.cpus[cpu];
        let elapsed = self.now.since(it.since);
        it.since = self.now;
        if let Some(index) = (it.task as usize).checked_sub(1) {
            let task = &mut self.tasks[index];
            let done = (i128::from(elapsed.0) * rate / full) as i64;
            task.left = Duration((task.left.0 - done).max(0));
            task.stats.run_time += elapsed;
            self.stats.cpus[cpu].busy += elapsed;
        }
    }

    /// The task that has the CPU has done what it had to, and says what is next.
    fn advance(&mut self, cpu: usize) -> Result<(), Trouble> {
        self.account(cpu);
        let turn = self.cpus[cpu].turn;
        let index = self.cpus[cpu].task as usize - 1;
        self.tasks[index].left = Duration::ZERO;
        // Until it computes, or makes way.
        while self.cpus[cpu].turn == turn {
            match self.work.next(TaskId(index), self.now) {
                Step::Run(time) => {
                    self.tasks[index].left = time;
                    self.begins(cpu, index);
                    return Ok(());
                }
                Step::Sleep(until) if until <= self.now => {}
                Step::Sleep(until) => {
                    self.tasks[index].woken_at = Some(until);
                    return self.instance.sleep(cpu, until);
                }
                Step::Wait if self.tasks[index].woken_before > 0 => {
                    self.tasks[index].woken_before -= 1;
                }
                Step::Wait => {
                    self.tasks[index].is_waiting = true;
                    return self.instance.block(cpu);
                }
                Step::Wake(other) => self.wake(cpu, other)?,
                Step::Io(time) => {
                    self.push(self.now + time, Event::Completion(index, cpu));
                    return self.instance.block_io(cpu);
                }
                Step::Yield => {
                    // It comes back with nothing left, and is asked again.
                    self.instance.yield_cpu(cpu)?;
                    self.follow();
                    if self.cpus[cpu].turn == turn {
                        self.push(self.now, Event::Done(cpu, turn));
                    }
                    return Ok(());
                }
                Step::Change(other, attributes) => {
                    let handle = self.tasks[other.0].handle;
                    self.instance.change(handle, cpu, &attributes)?;
                    self.follow();
                }
                Step::Exit => return self.instance.exit(cpu),
            }
        }
        Ok(())
    }

    fn wake(&mut self, cpu: usize, TaskId(other): TaskId) -> Result<(), Trouble> {
        let task = &mut self.tasks[other];
        if !task.is_waiting {
            task.woken_before += 1;
            return Ok(());
        }
        task.is_waiting = false;
        task.woken_at = Some(self.now);
        self.instance.wake(task.handle, cpu)?;
        self.follow();
        Ok(())
    }
}

impl Cpu {
    /// Its speed now, and that of a CPU of capacity 1024 at its highest frequency.
    fn rate(&self) -> (i128, i128) {
        let khz = if self.khz == 0 { self.khz_max.max(1) } else { u64::from(self.khz) };
        let rate = i128::from(self.capacity) * i128::from(khz);
        (rate.max(1), 1024 * i128::from(self.khz_max.max(1)))
    }
}
