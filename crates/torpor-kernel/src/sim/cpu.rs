// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A simulated CPU: how fast it computes, and the sleep it is in.

use super::work::{End, Slept};
use torpor_units::{Duration, Instant};

pub(super) struct Cpu {
    /// The number of the task that has it; 0 is the kernel's own.
    pub(super) task: u32,
    pub(super) khz: u32,
    /// Until when its time is accounted for; in the future while the kernel's own work holds up
    /// what runs here.
    pub(super) from: Instant,
    /// Changes with `task`.
    pub(super) turn: u64,
    /// When the task is done with what it computes.
    pub(super) done_at: Instant,
    /// The earliest events of that and of its timer that are queued.
    pub(super) done_queued: Instant,
    pub(super) timer_queued: u64,
    /// Of what the kernel does next, a part that the cost of the sleep before it holds.
    pub(super) of_sleep: Duration,
    pub(super) asleep: Option<Sleep>,
    /// Those whose request to a device is done.
    pub(super) completed: Vec<usize>,
    pub(super) capacity: u64,
    pub(super) khz_max: u64,
    pub(super) cluster: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Sleep {
    pub(super) state: usize,
    pub(super) entered: Instant,
    pub(super) since: Instant,
    pub(super) poll_until_ns: u64,
    pub(super) timer: Instant,
    pub(super) tick_stopped: bool,
    /// It is on its way out, for something that came then.
    pub(super) event: Option<Instant>,
    pub(super) is_resched: bool,
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
        }
    }
}

impl Cpu {
    /// Its speed now, and that of a CPU of capacity 1024 at its highest frequency.
    pub(super) fn rate(&self) -> (i128, i128) {
        let khz = if self.khz == 0 { self.khz_max.max(1) } else { u64::from(self.khz) };
        let rate = i128::from(self.capacity) * i128::from(khz);
        (rate.max(1), 1024 * i128::from(self.khz_max.max(1)))
    }

    /// How long what takes `length` at full speed takes here.
    pub(super) fn time_for(&self, length: Duration) -> Duration {
        let (rate, full) = self.rate();
        Duration(((i128::from(length.0) * full + rate - 1) / rate) as i64)
    }
}
