// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Timers that no event shows, inferred from the tasks they wake.
//!
//! If an interrupt wakes a task on the CPU that took it, a timer for that task was most likely
//! armed there since the task went to sleep. It bounds every sleep of that CPU in between.
//! FIDELITY(inferred-timers): a device interrupt that wakes a task looks the same.

use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use torpor_machine::units::{CpuId, Instant};

/// Collects the times from a task's sleep to its wake-up, by the CPU whose interrupt woke it.
#[derive(Default)]
pub(super) struct InferredTimers {
    asleep_since: FxHashMap<i32, Instant>,
    by_cpu: BTreeMap<CpuId, Vec<(Instant, Instant)>>,
}

impl InferredTimers {
    pub(super) fn switched_out(&mut self, pid: i32, time: Instant) {
        self.asleep_since.insert(pid, time);
    }

    /// Records the wake-up of a task; `by_interrupt_on` is the CPU whose interrupt woke it, if one
    /// did.
    pub(super) fn woken(&mut self, pid: i32, by_interrupt_on: Option<CpuId>, time: Instant) {
        let Some(since) = self.asleep_since.remove(&pid) else { return };
        if let Some(cpu) = by_interrupt_on {
            if since < time {
                self.by_cpu.entry(cpu).or_default().push((since, time));
            }
        }
    }

    /// Returns the CPU's next timer after `start`, as far as tasks were woken until now. Starts must
    /// not go back: timers before them are dropped.
    pub(super) fn next_after(&mut self, cpu: CpuId, start: Instant) -> Option<Instant> {
        let timers = self.by_cpu.get_mut(&cpu)?;
        // Tasks are woken in order of time.
        let passed = timers.partition_point(|&(_, expires)| expires <= start);
        timers.drain(..passed);
        timers.iter().find(|(since, _)| *since <= start).map(|(_, expires)| *expires)
    }

    /// Returns a cursor over one CPU's inferred timers.
    pub(super) fn on(&self, cpu: CpuId) -> InferredCursor {
        let mut timers = self.by_cpu.get(&cpu).cloned().unwrap_or_default();
        timers.sort_unstable();
        InferredCursor { timers, taken: 0, armed: BinaryHeap::new() }
    }
}

/// Returns the next timer at times that only move forward.
pub(super) struct InferredCursor {
    /// (armed, expires), by arming time.
    timers: Vec<(Instant, Instant)>,
    taken: usize,
    armed: BinaryHeap<Reverse<Instant>>,
}

impl InferredCursor {
    pub(super) fn next_at(&mut self, now: Instant) -> Instant {
        while let Some(&(_, expires)) = self.timers.get(self.taken).filter(|t| t.0 <= now) {
            self.armed.push(Reverse(expires));
            self.taken += 1;
        }
        while let Some(&Reverse(expires)) = self.armed.peek() {
            if expires > now {
                return expires;
            }
            self.armed.pop();
        }
        Instant::NEVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_bounds_sleeps_until_its_expiry() {
        let mut timers = InferredTimers::default();
        timers.switched_out(7, Instant(100));
        timers.switched_out(8, Instant(150));
        timers.woken(8, Some(CpuId(0)), Instant(300));
        timers.woken(7, Some(CpuId(0)), Instant(900));
        let mut cursor = timers.on(CpuId(0));
        assert_eq!(cursor.next_at(Instant(50)), Instant::NEVER);
        assert_eq!(cursor.next_at(Instant(120)), Instant(900));
        assert_eq!(cursor.next_at(Instant(200)), Instant(300));
        assert_eq!(cursor.next_at(Instant(300)), Instant(900));
        assert_eq!(cursor.next_at(Instant(900)), Instant::NEVER);
    }

    #[test]
    fn remote_waking_is_no_timer() {
        let mut timers = InferredTimers::default();
        timers.switched_out(7, Instant(100));
        timers.woken(7, None, Instant(900));
        assert_eq!(timers.on(CpuId(0)).next_at(Instant(200)), Instant::NEVER);
    }
}
