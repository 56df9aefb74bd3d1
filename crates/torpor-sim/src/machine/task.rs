// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Tasks.

use crate::sched::{Clamp, Entity};
use crate::workload::{IoWait, Stream, StreamName, TaskKind, TransferKind};
use std::collections::VecDeque;
use torpor_engine::pelt;
use torpor_units::{Duration, Instant};

/// Work is counted in ns at 2^-20 of full speed, so that no fraction is ever lost: a CPU's speed is
/// a whole number of these, by its capacity and, to 1/1024, its frequency.
pub(super) const FULL_SPEED: i64 = 1 << 20;

/// Of a task that has not run on its CPU: long ago.
pub(super) const NEVER_RAN: Instant = Instant(i64::MIN / 2);

/// `UTIL_EST_MARGIN`: closer estimates are left alone.
const UTIL_EST_MARGIN: u64 = 1024 / 100;

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
    /// The one before, as far as placement has looked (`recent_used_cpu`).
    pub recent_cpu: usize,
    pub kind: usize,
    pub entity: Entity,
    pub load: pelt::Task,
    /// `util_est.ewma`; 0 while it has never slept.
    pub util_est: u64,
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
    /// As its runqueue counts it.
    pub clamp: Clamp,
    /// As it was asked for: by its kind, or by a hint session.
    pub uclamp: Clamp,
    /// When it ran last on this CPU, whose cache may hold its data.
    pub ran_at: Instant,
    /// From going to wait for IO until it runs again, if its engine marks that.
    pub in_iowait: bool,
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
    /// Those it asked for itself.
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
            recent_cpu: 0,
            entity: Entity::new(own.weight),
            load: pelt::Task::default(),
            util_est: 0,
            clamp: own.clamp,
            uclamp: own.clamp,
            in_iowait: false,
            ran_at: NEVER_RAN,
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

    /// `task_util_est()`.
    pub(super) fn util(&self) -> u64 {
        self.load.util().max(self.util_est)
    }

    /// `util_est_update()`: it goes to sleep with this utilization on a CPU of this capacity.
    pub(super) fn update_util_est(&mut self, capacity: u64) {
        let (seen, ewma) = (self.load.util(), self.util_est);
        if ewma <= seen {
            self.util_est = seen;
        } else if ewma - seen > UTIL_EST_MARGIN && seen <= capacity {
            self.util_est = ewma - ((ewma - seen) >> 2);
        }
    }
}
