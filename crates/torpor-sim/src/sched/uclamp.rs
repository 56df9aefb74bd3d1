// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Utilization clamps of tasks, and what a runqueue makes of them (`uclamp_rq_inc()` and its like).
//!
//! FIDELITY(sched-uclamp): the kernel sorts clamps into a few buckets, each as large as the greatest
//! value since it was last empty; here every value counts as itself.

use super::fits;
use std::collections::BTreeMap;

/// `SCHED_CAPACITY_SCALE`.
const FULL: u16 = 1024;

/// `uclamp_min` and `uclamp_max`, in 1024ths of the biggest CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clamp {
    pub min: u16,
    pub max: u16,
}

impl Clamp {
    pub const NONE: Clamp = Clamp { min: 0, max: FULL };

    /// The utilization within; of clamps that cross, `min` counts.
    pub fn of(self, util: u64) -> u64 {
        util.min(self.max.into()).max(self.min.into())
    }

    /// Max-aggregation.
    pub fn join(self, other: Clamp) -> Clamp {
        Clamp { min: self.min.max(other.min), max: self.max.max(other.max) }
    }
}

/// How well a utilization fits a CPU (`util_fits_cpu()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    None,
    /// It would, but the CPU is smaller than `uclamp_min`.
    Slow,
    Full,
}

pub fn fit(util: u64, clamp: Clamp, capacity: u64) -> Fit {
    let is_limited = capacity != u64::from(FULL) || clamp.max != FULL;
    let is_held = is_limited && u64::from(clamp.max) <= capacity;
    if !is_held && !fits(util, capacity) {
        return Fit::None;
    }
    let min = u64::from(clamp.min.min(clamp.max));
    if util < min && min > capacity { Fit::Slow } else { Fit::Full }
}

/// Of the tasks that are runnable on a CPU.
#[derive(Clone, Debug)]
pub struct RunqueueClamp {
    mins: BTreeMap<u16, u32>,
    maxs: BTreeMap<u16, u32>,
    clamp: Clamp,
}

impl Default for RunqueueClamp {
    fn default() -> RunqueueClamp {
        RunqueueClamp { mins: BTreeMap::new(), maxs: BTreeMap::new(), clamp: Clamp::NONE }
    }
}

impl RunqueueClamp {
    /// Without tasks, `min` is let go and `max` stays as it was, so that what sleeping tasks have
    /// left behind does not raise the frequency.
    pub fn get(&self) -> Clamp {
        self.clamp
    }

    pub fn is_idle(&self) -> bool {
        self.mins.is_empty()
    }

    pub fn add(&mut self, clamp: Clamp) {
        *self.mins.entry(clamp.min).or_default() += 1;
        *self.maxs.entry(clamp.max).or_default() += 1;
        self.renew();
    }

    pub fn remove(&mut self, clamp: Clamp) {
        take(&mut self.mins, clamp.min);
        take(&mut self.maxs, clamp.max);
        self.renew();
    }

    fn renew(&mut self) {
        let greatest = |counts: &BTreeMap<u16, u32>| counts.last_key_value().map(|(v, _)| *v);
        self.clamp = Clamp {
            min: greatest(&self.mins).unwrap_or(0),
            max: greatest(&self.maxs).unwrap_or(self.clamp.max),
        };
    }
}

fn take(counts: &mut BTreeMap<u16, u32>, value: u16) {
    let count = counts.get_mut(&value).expect("a task that leaves has been counted");
    *count -= 1;
    if *count == 0 {
        counts.remove(&value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_takes_the_greatest_clamps_and_remembers_the_last_max() {
        let mut queue = RunqueueClamp::default();
        let (low, high) = (Clamp { min: 100, max: 300 }, Clamp { min: 200, max: 250 });
        queue.add(low);
        queue.add(high);
        queue.add(high);
        assert_eq!(queue.get(), Clamp { min: 200, max: 300 });
        queue.remove(high);
        queue.remove(low);
        assert_eq!(queue.get(), high);
        queue.remove(high);
        assert_eq!((queue.get(), queue.is_idle()), (Clamp { min: 0, max: 250 }, true));
        queue.add(low);
        assert_eq!(queue.get(), low, "the next task's own, not the one remembered");
    }

    #[test]
    fn a_clamp_makes_tasks_fit_or_want_more() {
        // 409 * 1280 < 512 * 1024 <= 410 * 1280.
        let none = Clamp::NONE;
        assert_eq!((fit(409, none, 512), fit(410, none, 512)), (Fit::Full, Fit::None));
        // Capped to what the CPU has, any task fits.
        assert_eq!(fit(1_000, Clamp { min: 0, max: 512 }, 512), Fit::Full);
        assert_eq!(fit(1_000, Clamp { min: 0, max: 513 }, 512), Fit::None);
        // The biggest CPU does not fit what is not clamped just because of its size.
        assert_eq!(fit(1_000, none, 1024), Fit::None);
        // Boosted beyond the CPU's size.
        assert_eq!(fit(100, Clamp { min: 600, max: 1024 }, 512), Fit::Slow);
        assert_eq!(fit(100, Clamp { min: 600, max: 512 }, 512), Fit::Full, "min is under max");
    }
}
