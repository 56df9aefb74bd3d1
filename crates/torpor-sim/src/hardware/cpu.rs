// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A simulated CPU: how fast it computes, and the sleep it is in.

use super::work::{End, Slept};
use torpor_machine::platform::SleepHistory;
use torpor_machine::units::{Duration, Instant};

pub(super) struct Cpu {
    /// The number of the running task; 0 for the kernel's own.
    pub(super) task: u32,
    pub(super) khz: u32,
    /// Time up to which its work is accounted; in the future while the kernel's own work delays
    /// the task.
    pub(super) from: Instant,
    /// Changes with `task`.
    pub(super) turn: u64,
    /// When the task is done with what it computes.
    pub(super) done_at: Instant,
    /// The earliest events of that and of its timer that are queued.
    pub(super) done_queued: Instant,
    pub(super) timer_queued: u64,
    /// Part of the kernel's next work that the cost of the sleep before it contains.
    pub(super) of_sleep: Duration,
    pub(super) asleep: Option<Sleep>,
    pub(super) history: SleepHistory,
    /// The handler of a device's interrupt runs until then, with interrupts off.
    pub(super) handles_until: Instant,
    /// Requests that a device has finished.
    pub(super) completed: Vec<usize>,
    /// Work that the next task loses to caches gone cold in the sleeps before it.
    pub(super) cold: Duration,
    pub(super) capacity: u64,
    pub(super) khz_max: u64,
    pub(super) cluster: usize,
    /// Percent of its full speed while another thread of its core works.
    pub(super) speed_pct: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Sleep {
    /// Number of sleeps that the kernel has entered on this CPU, including this one.
    pub(super) number: u32,
    pub(super) state: usize,
    pub(super) entered: Instant,
    pub(super) since: Instant,
    /// The state that the hardware has entered, and when a demoted one has gone on to `state`.
    pub(super) got: usize,
    pub(super) undemoted: Option<Instant>,
    pub(super) poll_until_ns: u64,
    pub(super) timer: Instant,
    pub(super) tick_stopped: bool,
    /// Time of the event for which the CPU leaves the state.
    pub(super) event: Option<Instant>,
    pub(super) is_resched: bool,
    /// Entry latency saved because others are in the state.
    pub(super) entry_saved: Duration,
    /// The driver has refused the state: the CPU is awake, with interrupts off until `poll_until_ns`.
    pub(super) is_rejected: bool,
    /// Timers that the governor has started since the last sleep.
    pub(super) timer_starts: u32,
}

impl Sleep {
    pub(super) fn slept(&self, now: Instant) -> Slept {
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
            is_rejected: self.is_rejected,
            timer_starts: self.timer_starts,
            got: self.got,
            undemoted: self.undemoted,
        }
    }

    /// The state that the hardware is in, and since when.
    pub(super) fn in_hardware(&self) -> (usize, Instant) {
        self.undemoted.map_or((self.got, self.since), |at| (self.state, at))
    }

    pub(super) fn polls(&self) -> bool {
        self.poll_until_ns != 0 && !self.is_rejected
    }
}

impl Cpu {
    /// Its speed now, and that of a CPU of capacity 1024 at its highest frequency.
    fn rate(&self) -> (u64, u64) {
        let khz = if self.khz == 0 { self.khz_max.max(1) } else { u64::from(self.khz) };
        let full = 1024 * self.khz_max.max(1);
        match self.speed_pct {
            100 => ((self.capacity * khz).max(1), full),
            pct => ((self.capacity * khz * pct / 100).max(1), full),
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
