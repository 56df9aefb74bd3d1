// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Interface between the hardware and the simulation of tasks and devices.

use super::timers::Traced;
use crate::kernel::abi::{IRQ_CALL, IRQ_RESCHEDULE};
use crate::kernel::{Attributes, TaskSetup};
use torpor_machine::units::{Duration, Instant};

/// A task of the simulation, in the order of their making.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub usize);

/// Next step of a task.
#[derive(Clone, Debug)]
pub enum Step {
    /// Computes for as long as a CPU of capacity 1024 takes at its highest frequency.
    Run(Duration),
    /// `clock_nanosleep()` to a time; over at once if that has passed.
    Sleep(Instant),
    /// Blocks until a wake-up; continues at once if one has come in between.
    Wait,
    /// The same in `io_schedule()`.
    WaitIo,
    /// Wakes another.
    Wake(TaskId),
    /// The same, and it is about to sleep.
    WakeSync(TaskId),
    /// Starts another task, with a new number.
    Fork(Box<TaskSetup>),
    /// Blocks in `io_schedule()` until a device's interrupt, which arrives at the submitting CPU.
    Io(Duration),
    Yield,
    /// `sched_setattr()` and `sched_setaffinity()` for a task, if it has not exited.
    Change(TaskId, Attributes),
    Exit,
    /// Ends the run.
    Halt,
}

/// Events from outside.
#[derive(Clone, Debug)]
pub enum Outside {
    /// A device's interrupt, for a CPU.
    Interrupt(usize),
    Fork(Box<TaskSetup>),
    /// Ends the task's computation: it waited in a loop for something that has come.
    Release(TaskId),
}

/// Work of a device's interrupt handler.
#[derive(Debug, Default)]
pub struct Handled {
    pub woken: Vec<TaskId>,
    /// The time it requires on the biggest CPU at its highest frequency.
    pub time: Duration,
    /// Events that it causes elsewhere.
    pub outside: Vec<Outside>,
}

/// Observed activity of a CPU.
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
        /// The driver refuses it.
        is_rejected: bool,
        /// The state that the hardware enters.
        got: usize,
    },
    /// From there the hardware enters the requested state.
    Undemotes,
    /// An interrupt ends its sleep, and the kernel is about to handle it. Polling ends without.
    Wakes,
    Slept(Slept),
    /// A tracepoint of the kernel, if a trace is recorded.
    Traced(Traced),
    /// An interrupt came while it polled, and polling continues.
    PollsOn,
    Frequency {
        khz: u32,
    },
    SentIpi {
        to: usize,
        ipi: Ipi,
    },
    TakesIpi(Ipi),
}

/// Reasons for which one CPU interrupts another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipi {
    Reschedule,
    /// A function that the other must call, and maybe to reschedule.
    Call,
}

impl Ipi {
    pub(super) fn of(bits: u32) -> Option<Ipi> {
        match bits {
            _ if bits & IRQ_CALL != 0 => Some(Ipi::Call),
            _ if bits & IRQ_RESCHEDULE != 0 => Some(Ipi::Reschedule),
            _ => None,
        }
    }
}

/// A sleep that is over.
#[derive(Clone, Copy, Debug)]
pub struct Slept {
    pub state: usize,
    /// When the kernel entered the state, and when the hardware did: it may have had an interrupt's
    /// work to do first.
    pub entered: Instant,
    pub since: Instant,
    /// Time of the event that ended it.
    pub event: Instant,
    pub end: End,
    /// Another CPU gave it something to run.
    pub is_resched: bool,
    /// It has something to run.
    pub has_task: bool,
    /// Expiry that its clock event device was set to when it began.
    pub timer: Instant,
    pub tick_stopped: bool,
    /// There was no sleep: the driver has refused the state.
    pub is_rejected: bool,
    /// Timers that the governor has started since the sleep before.
    pub timer_starts: u32,
    /// The state that the hardware entered, and when a demoted one went on to `state`.
    pub got: usize,
    pub undemoted: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Event,
    /// The tick, which brought nothing to run.
    Tick,
    /// A timer of the idle governor's, which brought nothing to run.
    GovernorTimer,
    PollTimeout,
}

/// Simulation of tasks and of events from outside, with an observer.
pub trait Work {
    fn next(&mut self, task: TaskId, now: Instant) -> Step;

    /// When the next thing comes from outside.
    fn due(&self) -> Instant {
        Instant::NEVER
    }

    fn happens(&mut self, _now: Instant, _outside: &mut Vec<Outside>) {}

    /// The CPU handles the interrupts of devices that have come. What they wake is woken next.
    fn handle(&mut self, _cpu: usize, _now: Instant, _handled: &mut Handled) {}

    fn watch(&mut self, _cpu: usize, _now: Instant, _seen: Seen) {}
}

impl<F: FnMut(TaskId, Instant) -> Step> Work for F {
    fn next(&mut self, task: TaskId, now: Instant) -> Step {
        self(task, now)
    }
}
