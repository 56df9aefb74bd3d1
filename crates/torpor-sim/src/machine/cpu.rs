// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One simulated CPU: what it is at, and until when that is accounted for.

use super::task::FULL_SPEED;
use crate::sched::FairQueue;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use torpor_engine::idle_loop::{IdleCpu, Pending};
use torpor_engine::input::Span;
use torpor_engine::pelt;
use torpor_units::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// In an idle state, or on its way in or out.
    Asleep,
    /// Awake, with interrupts to handle and no task yet.
    Interrupted,
    /// Running a task.
    Running,
}

/// An interrupt that the CPU has not handled yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Irq {
    pub at: Instant,
    pub line: Line,
}

/// Where an interrupt came from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Line {
    /// One of the workload's, by index, with the time its handler takes.
    Source { source: usize, handling: Duration },
    /// A device has served requests.
    Device { device: usize },
    /// Another CPU had a device's interrupt, and hands its completions over.
    Completion { device: usize },
    /// A task's call of a function, which takes so long.
    Call { task: u32, handling: Duration },
}

/// The first device's interrupt number, for the record; sources come before.
const DEVICE_IRQ: u32 = 64;
/// x86's `CALL_FUNCTION_SINGLE_VECTOR`.
const CALL_IRQ: u32 = 251;

impl Line {
    pub(super) fn number(self) -> u32 {
        match self {
            Line::Source { source, .. } => source as u32,
            Line::Device { device } | Line::Completion { device } => DEVICE_IRQ + device as u32,
            Line::Call { .. } => CALL_IRQ,
        }
    }
}

/// A timer, in the order in which they expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    /// When it interrupts the CPU of its own.
    pub expires: Instant,
    /// In which order they were set.
    pub sequence: u64,
    /// From when on another timer's interrupt takes it along.
    pub softexpires: Instant,
    pub task: u32,
}

/// CPUs as sources of events: a state left, a timer, the tick, work done.
pub(super) struct Cpus;

/// The owner of the timer of each CPU's soft-lockup detector.
pub(super) const WATCHDOG: u32 = u32::MAX;
/// `kernel/watchdog.c`: two fifths of `watchdog_thresh`, which is 10 s.
pub(super) const WATCHDOG_PERIOD: Duration = Duration(4_000_000_000);

pub(super) struct Cpu<'a> {
    pub mode: Mode,
    pub idle: IdleCpu<'a>,
    /// The sleep it is in, while [`Mode::Asleep`].
    pub pending: Option<Pending>,
    /// The state that the hardware is in meanwhile.
    pub rests_in: usize,
    /// The idleness it is in: what the idle loop knows.
    pub span: Span,
    /// Where a sink wants spans: since when there is nothing to do, and the span that an event has
    /// ended, until it is known whether that brought a task.
    pub idle_since: Option<Instant>,
    pub ended: Option<Span>,
    /// The task it runs.
    pub running: Option<u32>,
    pub queue: FairQueue,
    pub load: pelt::Runqueue,
    /// `util_est` of its runnable tasks.
    pub util_est: u64,
    /// While running: until when the task's work is accounted for; in the future while interrupts
    /// and switches hold it up. While interrupted: when the handling ends.
    pub from: Instant,
    /// What the next task loses to caches that its sleeps have left cold.
    pub cold: Duration,
    pub timers: BinaryHeap<Reverse<Timer>>,
    pub irqs: VecDeque<Irq>,
    /// Tasks that slept last here and wait for IO.
    pub iowait: u16,
    pub needs_resched: bool,
    /// When a reschedule IPI arrives at the running CPU.
    pub ipi: Instant,
    /// While running: the next tick.
    pub tick: Instant,
    /// Work done in a ns; see [`FULL_SPEED`].
    pub speed: i64,
    pub capacity: u64,
    /// What of it heat has left: `get_actual_cpu_capacity()`.
    pub available: u64,
    /// Its tasks' time, and that of interrupts and switches; idle states and the ticks in them
    /// are the idle loop's to count.
    pub task_time: Duration,
    pub overhead: Duration,
    /// It counts as overutilized.
    pub is_overutilized: bool,
    /// Sleeps for which the tick was to be stopped: `tick_nohz_get_idle_calls_cpu()`.
    pub idle_calls: u64,
}

impl Timer {
    pub(super) fn of_watchdog(at: Instant) -> Timer {
        Timer { expires: at, sequence: 0, softexpires: at, task: WATCHDOG }
    }
}

impl Cpu<'_> {
    pub(super) fn next_timer(&self) -> Instant {
        self.timers.peek().map_or(Instant::NEVER, |Reverse(timer)| timer.expires)
    }

    /// When something happens in this sleep: its end, or before that the hardware leaves a demoted
    /// CPU's state for a deeper one.
    pub(super) fn due(&self, pending: &Pending) -> Instant {
        let (first, last) = pending.got();
        match self.idle.undemoted_at(pending) {
            Some(at) if first != last && self.rests_in == first => at.min(pending.sleep.resume),
            _ => pending.sleep.resume,
        }
    }

    /// How long `work` takes here.
    pub(super) fn time_for(&self, work: i64) -> Duration {
        Duration((work + self.speed - 1) / self.speed)
    }

    /// Interrupts or a switch hold up what runs here; `length` is that of the biggest CPU at its
    /// highest frequency.
    pub(super) fn hold_up(&mut self, now: Instant, length: Duration) {
        let time = self.time_for(work_of(length));
        self.from = self.from.max(now) + time;
        self.overhead += time;
    }

    /// With tasks, interrupts and switches, up to now.
    pub(super) fn busy(&self, now: Instant) -> Duration {
        self.task_time + self.overhead - self.ahead(now)
    }

    /// Interrupts and switches that are counted and not over yet. Those that a CPU handles while
    /// it polls are part of its sleep, and not counted.
    pub(super) fn ahead(&self, now: Instant) -> Duration {
        let is_ahead = self.mode != Mode::Asleep && self.from > now;
        if is_ahead { self.from.since(now) } else { Duration::ZERO }
    }

    /// `cpu_util()`, with what the runnable tasks are expected to come to.
    pub(super) fn util(&self) -> u64 {
        u64::from(self.load.util()).max(self.util_est).min(self.capacity)
    }
}

/// Work from a drawn length of time at full speed; what takes longer than 2.4 hours takes that.
pub(super) fn work_of(length: Duration) -> i64 {
    length.0.saturating_mul(FULL_SPEED)
}
