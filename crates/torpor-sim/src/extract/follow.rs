// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Follows every task of a recording: its work, its waits, and the cause of each wake-up.

use super::context::{Contexts, Waker, event_time};
use super::speed::Speeds;
use crate::error::SimError;
use std::collections::{BTreeSet, HashMap};
use torpor_engine::Progress;
use torpor_engine::input::{CpuInput, Recording};
use torpor_engine::timeline::{Change, Fold, Moment, Run, Timeline};
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration, Instant};
use torpor_trace::{Event, EventKind, Name, PrevState, Trace, UNKNOWN_PID};

/// One thing a task did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Act {
    /// Work, in ns of the biggest CPU at its highest frequency.
    Run(f64),
    /// Woke another task: the number of the wake-up.
    Wake(usize),
    /// Waited for another task or an interrupt: the number of the wake-up.
    Wait { number: usize, length: Duration },
    /// Slept until a timer of its own.
    Sleep { until: Instant, length: Duration },
}

/// Cause of a wait's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Another task, by number.
    Task(usize),
    Timer {
        /// Whether no event shows the timer, which is inferred from the interrupt.
        is_guess: bool,
    },
    Interrupt,
    /// Unknown: the waking was lost, or its CPU was not recorded.
    Unseen,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct WakeUp {
    pub at: Instant,
    /// CPU of the waker.
    pub cpu: CpuId,
    pub wakee: usize,
    pub cause: Cause,
    /// Whether it ended a wait; other wake-ups found the task awake.
    pub is_used: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Running {
        cpu: CpuId,
        since: Instant,
    },
    Runnable,
    /// Waits since it left this CPU.
    Blocked {
        cpu: Option<CpuId>,
        since: Instant,
    },
    /// Woken, but not yet on a CPU.
    Woken,
}

#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub pid: i32,
    pub comm: Option<Name>,
    /// Time of its first action.
    pub start: Instant,
    pub acts: Vec<Act>,
    pub cpu_time: Duration,
    /// Number of waits that ended.
    pub wakeups: u64,
    /// CPUs that it ran on.
    pub cpus: BTreeSet<CpuId>,
    state: State,
    /// Waking that found it awake, possibly about to wait.
    early: Option<usize>,
}

impl Thread {
    pub(super) fn work_ns(&self) -> f64 {
        let of = |act: &Act| if let Act::Run(ns) = act { *ns } else { 0.0 };
        self.acts.iter().map(of).sum()
    }
}

/// All tasks of a recording, in the order in which they appear.
pub(super) struct Followed {
    pub window: (Instant, Instant),
    pub threads: Vec<Thread>,
    pub wake_ups: Vec<WakeUp>,
}

pub(super) fn follow(
    trace: &Trace,
    platform: Option<&Platform>,
    recording: &Recording,
    progress: &dyn Progress,
) -> Result<Followed, SimError> {
    let window = trace.window.unwrap_or((Instant(0), Instant(0)));
    let cpus = trace.meta.cpu_count as usize;
    let mut inputs: Vec<Option<&CpuInput>> = vec![None; cpus];
    for input in &recording.cpus {
        inputs[input.cpu.index()] = Some(input);
    }
    let follower = Follower {
        speeds: Speeds::new(trace, platform),
        contexts: Contexts::new(cpus, trace.carries),
        inputs,
        by_pid: HashMap::new(),
        has_wakings: trace.event_counts.contains_key("sched_waking"),
        followed: Followed { window, threads: Vec::new(), wake_ups: Vec::new() },
    };
    Ok(super::folded(trace, follower, progress)?.followed)
}

struct Follower<'a> {
    speeds: Speeds,
    contexts: Contexts,
    inputs: Vec<Option<&'a CpuInput>>,
    by_pid: HashMap<i32, usize>,
    has_wakings: bool,
    followed: Followed,
}

impl Fold for Follower<'_> {
    fn take(&mut self, moment: &Moment<'_>) {
        let Event { time: now, cpu, kind } = *moment.event;
        let running = moment.timeline.running(cpu);
        match (kind, moment.change) {
            (
                EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm },
                Change::Switched { left, .. },
            ) => {
                // The CPU's first switch shows which task ran from the beginning.
                let since = if left.is_none() { self.followed.window.0 } else { now };
                self.leave(cpu, (now, since), prev_pid, prev_state);
                let was_idle = left.is_some_and(|run| run.pid == 0);
                self.enter(cpu, (now, was_idle), next_pid, next_comm);
            }
            (EventKind::SchedWaking { pid, .. }, _) => self.waking(cpu, now, pid, running),
            (EventKind::SchedWakeup { pid, .. }, _) if !self.has_wakings => {
                self.waking(cpu, now, pid, running);
            }
            (EventKind::CpuFrequency { freq_khz }, _) => {
                let task = running.and_then(|run| self.by_pid.get(&run.pid));
                task.copied().into_iter().for_each(|task| self.close_run(task, now));
                self.speeds.set(cpu, freq_khz);
            }
            _ => {}
        }
        self.contexts.observe(moment.event);
    }

    fn end(&mut self, _: &Timeline) {
        let end = self.followed.window.1;
        (0..self.followed.threads.len()).for_each(|thread| self.close_run(thread, end));
    }
}

impl Follower<'_> {
    /// Returns the task's number; a new task is in `state` since `start`.
    fn thread(&mut self, pid: i32, start: Instant, state: State) -> usize {
        let threads = &mut self.followed.threads;
        *self.by_pid.entry(pid).or_insert_with(|| {
            threads.push(Thread {
                pid,
                comm: None,
                start,
                acts: Vec::new(),
                cpu_time: Duration::ZERO,
                wakeups: 0,
                cpus: BTreeSet::new(),
                state,
                early: None,
            });
            threads.len() - 1
        })
    }

    /// Ends the run of a task; one that is new has run `since` then.
    fn leave(&mut self, cpu: CpuId, (now, since): (Instant, Instant), pid: i32, left: PrevState) {
        if pid == 0 || pid == UNKNOWN_PID {
            return;
        }
        let index = self.thread(pid, since, State::Running { cpu, since });
        self.close_run(index, now);
        let thread = &mut self.followed.threads[index];
        thread.state = match left {
            PrevState::Runnable => State::Runnable,
            _ => State::Blocked { cpu: Some(cpu), since: now },
        };
    }

    fn enter(
        &mut self,
        cpu: CpuId,
        (now, was_idle): (Instant, bool),
        pid: i32,
        comm: Option<Name>,
    ) {
        if pid == 0 || pid == UNKNOWN_PID {
            return;
        }
        let index = self.thread(pid, now, State::Runnable);
        if let State::Blocked { .. } = self.followed.threads[index].state {
            match self.followed.threads[index].early {
                Some(early) => self.end_wait(index, early),
                None => {
                    let at = if was_idle { event_time(self.input(cpu), now) } else { now };
                    self.wake_up(at, cpu, index, Cause::Unseen);
                }
            }
        }
        let thread = &mut self.followed.threads[index];
        thread.early = None;
        thread.comm = comm.or(thread.comm);
        thread.cpus.insert(cpu);
        thread.state = State::Running { cpu, since: now };
    }

    fn waking(&mut self, cpu: CpuId, now: Instant, pid: i32, running: Option<Run>) {
        let asleep = State::Blocked { cpu: None, since: self.followed.window.0 };
        let index = self.thread(pid, self.followed.window.0, asleep);
        let is_idle = running.is_some_and(|run| run.pid == 0);
        let event = if is_idle { event_time(self.input(cpu), now) } else { now };
        let waker = self.contexts.waker(cpu, running);
        let state = self.followed.threads[index].state;
        let cause = match (waker, state) {
            // A waker that is not followed counts as an event from outside.
            (Waker::Task(pid), _) => {
                self.by_pid.get(&pid).map_or(Cause::Interrupt, |task| Cause::Task(*task))
            }
            (Waker::Timer, _) => Cause::Timer { is_guess: false },
            (Waker::Interrupt, _) => Cause::Interrupt,
            // FIDELITY(extracted): a device's interrupt on that CPU looks the same.
            (Waker::AnyInterrupt, State::Blocked { cpu: Some(home), .. }) if home == cpu => {
                Cause::Timer { is_guess: true }
            }
            (Waker::AnyInterrupt, _) => Cause::Interrupt,
        };
        let number = match state {
            State::Blocked { .. } => self.wake_up(event, cpu, index, cause),
            State::Running { .. } | State::Runnable | State::Woken => {
                let wake_ups = &mut self.followed.wake_ups;
                wake_ups.push(WakeUp { at: event, cpu, wakee: index, cause, is_used: false });
                let number = wake_ups.len() - 1;
                self.followed.threads[index].early = Some(number);
                number
            }
        };
        if let Cause::Task(waker) = cause {
            self.close_run(waker, now);
            self.followed.threads[waker].acts.push(Act::Wake(number));
        }
    }

    /// Adds a wake-up of a waiting task; returns its number.
    fn wake_up(&mut self, at: Instant, cpu: CpuId, wakee: usize, cause: Cause) -> usize {
        self.followed.wake_ups.push(WakeUp { at, cpu, wakee, cause, is_used: false });
        let number = self.followed.wake_ups.len() - 1;
        self.end_wait(wakee, number);
        number
    }

    fn end_wait(&mut self, index: usize, number: usize) {
        let WakeUp { at, cause, .. } = self.followed.wake_ups[number];
        self.followed.wake_ups[number].is_used = true;
        let thread = &mut self.followed.threads[index];
        let State::Blocked { since, .. } = thread.state else {
            unreachable!("only a waiting task is woken");
        };
        let length = at.since(since).max(Duration::ZERO);
        thread.acts.push(match cause {
            Cause::Timer { .. } => Act::Sleep { until: at, length },
            _ => Act::Wait { number, length },
        });
        thread.wakeups += 1;
        thread.early = None;
        thread.state = State::Woken;
    }

    fn input(&self, cpu: CpuId) -> Option<&CpuInput> {
        self.inputs.get(cpu.index()).copied().flatten()
    }

    /// Adds the work of a running task until now.
    fn close_run(&mut self, index: usize, now: Instant) {
        let thread = &mut self.followed.threads[index];
        let State::Running { cpu, since } = &mut thread.state else { return };
        let ran = now.since(*since);
        *since = now;
        thread.cpu_time += ran;
        let work = self.speeds.work_ns(*cpu, ran);
        match thread.acts.last_mut() {
            Some(Act::Run(before)) => *before += work,
            _ if work > 0.0 => thread.acts.push(Act::Run(work)),
            _ => {}
        }
    }
}
