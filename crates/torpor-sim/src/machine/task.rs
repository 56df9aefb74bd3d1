// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Tasks.

use crate::workload::{Clamp, IoWait, Stream, StreamName, TaskKind, TransferKind};
use std::collections::VecDeque;
use torpor_machine::units::{Duration, Instant};

/// Work is counted in ns at 2^-20 of full speed, so that no fraction is ever lost: a CPU's speed is
/// a whole number of these, by its capacity and, to 1/1024, its frequency.
pub(super) const FULL_SPEED: i64 = 1 << 20;

/// Returns the work of a drawn length at full speed; what takes longer than 2.4 hours takes that.
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
    /// On a channel, which has to hold so many.
    Channel {
        channel: usize,
        count: u64,
    },
    Barrier(usize),
    /// On a function that another CPU runs.
    Call,
    Io(IoWait),
}

/// Thousands of tasks do not fit a core's cache: what every pass needs comes first, and each task
/// begins on a cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Task {
    pub state: State,
    pub cpu: usize,
    pub kind: usize,
    /// The event that caused a wake-up that has not caused it to run yet.
    pub woken_by: Option<Instant>,
    /// The event that last woke it, or the time that it was late for.
    pub called: Instant,
    pub cpu_time: Duration,
    /// The step it is at.
    pub step: usize,
    /// Left of the current run, in ns at 2^-20 of full speed.
    pub work: i64,
    pub streams: Vec<Stream>,
    /// Steps since time last passed for it.
    pub last_step: Instant,
    pub steps_at_once: u32,
    /// As its kind or a hint session asks.
    pub uclamp: Clamp,
    pub pid: i32,
    /// When the current pass began.
    pub pass_began: Instant,
    /// Passes through the program that are left.
    pub passes: u64,
    /// The group it belongs to.
    pub group: usize,
    /// The next multiple of its period.
    pub next_period: Instant,

    /// Which of its kind, from 0.
    pub instance: u64,
    /// Passes left of each loop it is in.
    pub loops: Vec<u64>,
    /// When each of its own timers expires.
    pub timers: Vec<Instant>,
    pub started: Instant,
    /// Requests whose results it has not taken.
    pub io_depth: u32,
    /// When those were submitted whose results are there.
    pub io_done: VecDeque<(Instant, TransferKind)>,
    /// It slept for the result that it takes next.
    pub slept_for_io: bool,
    /// When it began the IO that the page cache answers.
    pub io_began: Instant,
    /// Requests that it submitted itself.
    pub ios_submitted: u64,
    pub ios_taken: u64,
}

impl Task {
    pub(super) fn new(
        kinds: &[TaskKind],
        kind: usize,
        instance: u64,
        pid: i32,
        seed: u64,
        now: Instant,
    ) -> Task {
        let own = &kinds[kind];
        let name = StreamName::new(seed).text(&own.name).number(instance);
        Task {
            kind,
            instance,
            group: own.group_of(instance),
            pid,
            state: State::Runnable,
            cpu: 0,
            uclamp: own.clamp,
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
            ios_taken: 0,
            called: now,
            steps_at_once: 0,
            last_step: now,
            woken_by: None,
            cpu_time: Duration::ZERO,
        }
    }
}
