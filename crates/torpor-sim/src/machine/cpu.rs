// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A simulated CPU: how fast it computes, what runs on it, the sleep it is in, and its counters.

use super::domain::Domain;
use super::irq::{Irq, Line};
use super::sleep::Sleep;
use std::borrow::Cow;
use std::collections::VecDeque;
use torpor_engine::model::CpuModel;
use torpor_engine::totals::Tally;
use torpor_machine::platform::SleepHistory;
use torpor_machine::units::{Duration, Instant};

pub(super) struct Cpu<'a> {
    /// The session's, until a change has another state enabled.
    pub(super) model: Cow<'a, CpuModel>,
    pub(super) cluster: usize,
    /// The frequency that the kernel has requested, and the one that it has.
    pub(super) requested_khz: u32,
    pub(super) khz: u32,
    pub(super) khz_max: u64,
    pub(super) opp: u16,
    /// Percent of its full speed while another thread of its core works.
    pub(super) speed_pct: u64,
    /// The kernel's number of the running task; 0 for the kernel's own.
    pub(super) task: u32,
    /// Changes with `task`.
    pub(super) turn: u64,
    /// Time up to which its work is accounted; in the future while the kernel's own work delays
    /// the task.
    pub(super) from: Instant,
    /// When the task is done with what it computes.
    pub(super) done_at: Instant,
    /// The earliest events of that and of its timer that are queued.
    pub(super) done_queued: Instant,
    pub(super) timer_queued: u64,
    pub(super) asleep: Option<Sleep>,
    /// When the last interrupt came, before the CPU left its idle state for it.
    pub(super) interrupted: Instant,
    pub(super) history: SleepHistory,
    /// Begin of the span without an event, over which the oracle plans.
    pub(super) idle_since: Option<Instant>,
    /// Part of the kernel's next work that the cost of the sleep before it contains.
    pub(super) of_sleep: Duration,
    /// Work that the next task loses to caches gone cold in the sleeps before it.
    pub(super) cold: Duration,
    /// Interrupts to handle, and the one that its handler is at.
    pub(super) irqs: VecDeque<Irq>,
    pub(super) handles: Option<Line>,
    /// The handler of a device's interrupt runs until then, with interrupts off.
    pub(super) handles_until: Instant,
    pub(super) tally: Tally,
    pub(super) task_time: Duration,
    pub(super) overhead: Duration,
    /// Both together, by OPP.
    pub(super) busy_at: Vec<Duration>,
}

impl<'a> Cpu<'a> {
    /// A CPU of the cluster with this clock.
    pub(super) fn new(
        model: &'a CpuModel,
        cluster: usize,
        clock: &Domain,
        now: Instant,
    ) -> Cpu<'a> {
        Cpu {
            model: Cow::Borrowed(model),
            cluster,
            requested_khz: 0,
            khz: 0,
            khz_max: clock.khz_max(),
            opp: clock.opp,
            speed_pct: 100,
            task: 0,
            turn: 0,
            from: now,
            interrupted: now,
            done_at: Instant::NEVER,
            done_queued: Instant::NEVER,
            timer_queued: u64::MAX,
            asleep: None,
            history: SleepHistory::default(),
            idle_since: Some(Instant(0)),
            of_sleep: Duration::ZERO,
            cold: Duration::ZERO,
            irqs: VecDeque::new(),
            handles: None,
            handles_until: now,
            tally: Tally::new(model),
            task_time: Duration::ZERO,
            overhead: Duration::ZERO,
            busy_at: vec![Duration::ZERO; clock.opp_count()],
        }
    }

    /// Its speed now, and that of a CPU of capacity 1024 at its highest frequency.
    fn rate(&self) -> (u64, u64) {
        let khz = if self.khz == 0 { self.khz_max.max(1) } else { u64::from(self.khz) };
        let (capacity, full) = (u64::from(self.model.capacity), 1024 * self.khz_max.max(1));
        match self.speed_pct {
            100 => ((capacity * khz).max(1), full),
            pct => ((capacity * khz * pct / 100).max(1), full),
        }
    }

    /// Returns the time that work of `length` at full speed takes here.
    pub(super) fn time_for(&self, length: Duration) -> Duration {
        let (rate, full) = self.rate();
        Duration(scaled(length.0.max(0) as u64, full, rate, rate - 1) as i64)
    }

    /// Returns the work done in that time, as time at full speed.
    pub(super) fn done_in(&self, time: Duration) -> Duration {
        let (rate, full) = self.rate();
        Duration(scaled(time.0 as u64, rate, full, 0) as i64)
    }

    pub(super) fn count_busy(&mut self, time: Duration) {
        self.busy_at[usize::from(self.opp)] += time;
    }

    /// Resets the counters after the warm-up.
    pub(super) fn start_over(&mut self, now: Instant) {
        self.take(now);
        self.idle_since = self.idle_since.map(|_| now);
    }

    /// Takes what has been counted: of its sleeps, of tasks, of overhead, and both by OPP.
    pub(super) fn take(&mut self, now: Instant) -> (Tally, Duration, Duration, Vec<Duration>) {
        if let Some(sleep) = self.asleep.as_mut().filter(|sleep| sleep.is_entered) {
            sleep.counts_from = now;
        }
        let none = vec![Duration::ZERO; self.busy_at.len()];
        (
            std::mem::replace(&mut self.tally, Tally::new(&self.model)),
            std::mem::take(&mut self.task_time),
            std::mem::take(&mut self.overhead),
            std::mem::replace(&mut self.busy_at, none),
        )
    }
}

/// `(value * times + more) / by`. Few values do not fit, and a division of 128 bits is slow.
fn scaled(value: u64, times: u64, by: u64, more: u64) -> u64 {
    if times == by {
        return value;
    }
    match value.checked_mul(times).and_then(|product| product.checked_add(more)) {
        Some(sum) => sum / by,
        None => {
            ((u128::from(value) * u128::from(times) + u128::from(more)) / u128::from(by)) as u64
        }
    }
}
