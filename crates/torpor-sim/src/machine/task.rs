// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Tasks: where each is in its program, and what the kernel knows of it.

use super::step::Step;
use crate::kernel::{Attributes, TaskHandle};
use crate::random::{Stream, StreamName};
use crate::workload::{Clamp, IoWait, TaskKind, TransferKind};
use std::collections::VecDeque;
use torpor_machine::units::{Duration, Instant};

/// A task, in the order of their making: the kernel's number of it is one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub usize);

impl TaskId {
    pub(super) fn of(number: u32) -> TaskId {
        TaskId(number as usize - 1)
    }

    pub(super) fn number(self) -> u32 {
        self.0 as u32 + 1
    }
}

/// Work is counted in ns at 2^-20 of full speed, so that the speed of a CPU, which depends on its
/// capacity and its frequency, is a whole number.
pub(super) const FULL_SPEED: i64 = 1 << 20;

/// Returns the work of a length at full speed, at most 2.4 hours.
pub(super) fn work_of(length: Duration) -> i64 {
    length.0.saturating_mul(FULL_SPEED)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// On a CPU's queue, or running.
    Runnable,
    Blocked(Blocked),
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// On a timer.
    Timer,
    /// On a channel, until it holds `count`.
    Channel {
        channel: usize,
        count: u64,
    },
    Barrier(usize),
    /// On a function that another CPU runs.
    Call,
    Io(IoWait),
    /// A device's thread, on its next request.
    Kthread,
    /// A scripted task, on another.
    Script,
}

/// Thousands of tasks do not fit into a core's cache: fields that every pass needs come first, and
/// each task begins on a cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Task {
    pub state: State,
    pub cpu: usize,
    pub kind: usize,
    /// Event of a wake-up after which the task has not run yet.
    pub woken_by: Option<Instant>,
    /// Event that last woke the task, or the time for which it was late.
    pub called: Instant,
    pub cpu_time: Duration,
    /// Rest of the computation under way, at a capacity of 1024.
    pub left: Duration,
    /// Wake-up time of the sleep that it is in, or was in last.
    pub sleeps_until: Instant,
    /// Steps in the kernel before the program continues.
    pub steps: VecDeque<Step>,
    /// None before its fork.
    pub handle: Option<TaskHandle>,
    /// Times it was woken while it did not wait.
    pub woken_before: u64,
    /// The kernel's number of it.
    pub number: u32,
    /// It waits to be woken by another.
    pub is_waiting: bool,
    /// It has left its CPU by itself.
    pub has_left: bool,
    pub has_run: bool,
    /// Index of the next step of its program.
    pub step: usize,
    /// Remaining work, in ns at 2^-20 of full speed.
    pub work: i64,
    pub streams: Vec<Stream>,
    /// Steps since simulated time last passed for it.
    pub last_step: Instant,
    pub steps_at_once: u32,
    /// From its kind or from a hint session.
    pub uclamp: Clamp,
    /// Its attributes, if a change has made them other than its kind's.
    pub changed: Option<Box<Attributes>>,
    /// Start of the current pass.
    pub pass_began: Instant,
    /// Remaining passes through the program.
    pub passes: u64,
    /// The group it belongs to.
    pub group: usize,
    /// The next multiple of its period.
    pub next_period: Instant,

    /// Number within its kind, from 0.
    pub instance: u64,
    /// Remaining passes of each enclosing loop.
    pub loops: Vec<u64>,
    /// Expiry of each of its own timers.
    pub timers: Vec<Instant>,
    pub started: Instant,
    /// Requests in flight.
    pub io_depth: u32,
    /// Submission times of requests with a result.
    pub io_done: VecDeque<(Instant, TransferKind)>,
    /// Whether it slept for the next result.
    pub slept_for_io: bool,
    /// Start of the IO that the page cache serves.
    pub io_began: Instant,
    /// Requests submitted.
    pub ios_submitted: u64,
    /// Address of the next request in order, in parts of a die; each task begins at its own.
    pub next_stripe: u64,
    pub ios_taken: u64,
}

impl Task {
    pub(super) fn new(own: &TaskKind, kind: usize, instance: u64, seed: u64, now: Instant) -> Task {
        let name = StreamName::new(seed).text(&own.name).number(instance);
        Task {
            kind,
            instance,
            group: own.group_of(instance),
            state: State::Runnable,
            cpu: 0,
            uclamp: own.clamp,
            changed: None,
            step: 0,
            loops: Vec::with_capacity(own.depth),
            passes: own.repeat.unwrap_or(u64::MAX),
            streams: (0..own.draws).map(|n| name.number(n as u64).stream()).collect(),
            work: 0,
            pass_began: now,
            next_period: now,
            timers: vec![now; own.timers],
            started: now,
            io_depth: 0,
            io_done: VecDeque::new(),
            slept_for_io: false,
            io_began: now,
            ios_submitted: 0,
            next_stripe: 0,
            ios_taken: 0,
            called: now,
            steps_at_once: 0,
            last_step: now,
            woken_by: None,
            cpu_time: Duration::ZERO,
            left: Duration::ZERO,
            sleeps_until: Instant(0),
            steps: VecDeque::new(),
            handle: None,
            woken_before: 0,
            number: 0,
            is_waiting: false,
            has_left: false,
            has_run: false,
        }
    }

    /// Returns the handle of a task that waits to be woken; a wake-up before it waits is kept.
    pub(super) fn take_wake(&mut self) -> Option<TaskHandle> {
        if !std::mem::take(&mut self.is_waiting) {
            self.woken_before += 1;
            return None;
        }
        self.handle
    }
}
