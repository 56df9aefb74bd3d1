// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Measures the time of a policy's decisions. Only this module reads a clock; no decision depends
//! on it.

use crate::policy::{Policy, Reflection};
use std::time;
use torpor_governor::{Fault, Inputs, Selection};
use torpor_machine::units::{Duration, Instant};
use torpor_result::{Latencies, LatencyHistogram};

/// Clock readings whose median is subtracted from each measurement.
const LOOKS: usize = 1_001;

/// A policy whose calls are timed.
pub(crate) struct Timed<P> {
    pub policy: P,
    slots: Vec<Slot>,
    look: Duration,
}

#[derive(Clone, Default)]
struct Slot {
    /// Time of `select` without its `reflect` so far.
    selecting: Option<Duration>,
    times: LatencyHistogram,
}

impl<P: Policy> Timed<P> {
    /// Measures the CPUs in slots below `slots`.
    pub(crate) fn new(policy: P, slots: usize) -> Timed<P> {
        let mut looks: Vec<Duration> = (0..LOOKS).map(|_| since(time::Instant::now())).collect();
        looks.sort_unstable();
        Timed { policy, slots: vec![Slot::default(); slots], look: looks[LOOKS / 2] }
    }

    pub(crate) fn times(&mut self, slot: usize) -> Latencies {
        self.decided(slot, Duration::ZERO);
        self.slots[slot].times.latencies()
    }

    fn time<T>(&mut self, call: impl FnOnce(&mut P) -> T) -> (T, Duration) {
        let begin = time::Instant::now();
        let answer = call(&mut self.policy);
        (answer, (since(begin) - self.look).max(Duration::ZERO))
    }

    /// Records the current decision, which took `more`.
    fn decided(&mut self, slot: usize, more: Duration) {
        let slot = &mut self.slots[slot];
        if let Some(selecting) = slot.selecting.take() {
            slot.times.record(selecting + more);
        }
    }
}

fn since(begin: time::Instant) -> Duration {
    Duration(begin.elapsed().as_nanos() as i64)
}

impl<P: Policy> Policy for Timed<P> {
    const POLLS_ON: bool = P::POLLS_ON;

    fn select(&mut self, slot: usize, inputs: &Inputs) -> Result<Selection, Fault> {
        let (answer, took) = self.time(|policy| policy.select(slot, inputs));
        self.slots[slot].selecting = Some(took);
        answer
    }

    fn reflect(&mut self, slot: usize, reflection: &Reflection) -> Result<(), Fault> {
        let (answer, took) = self.time(|policy| policy.reflect(slot, reflection));
        self.decided(slot, took);
        answer
    }

    fn poll_limit(&mut self, slot: usize, default: Duration) -> Duration {
        self.policy.poll_limit(slot, default)
    }

    fn next_timer(&self, slot: usize) -> Option<Instant> {
        self.policy.next_timer(slot)
    }

    fn timer_starts(&self, slot: usize) -> u64 {
        self.policy.timer_starts(slot)
    }

    fn fire_timer(&mut self, slot: usize, now: Instant) -> Result<(), Fault> {
        self.policy.fire_timer(slot, now)
    }

    fn gave_up(&mut self, slot: usize) {
        self.policy.gave_up(slot);
        self.decided(slot, Duration::ZERO);
    }
}
