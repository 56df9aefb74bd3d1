// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A CPU's queue of fair tasks, by virtual runtime (`kernel/sched/fair.c` of Linux 6.1).

use std::collections::BTreeSet;
use torpor_units::Duration;

/// The weight of nice 0.
const NICE_0: i64 = 1024;
/// `sched_nr_latency`: with more tasks the latency target grows.
const LATENCY_TASKS: u32 = 8;

/// `sysctl_sched_*`, scaled for the machine's size as the kernel does it by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    pub latency: Duration,
    pub min_granularity: Duration,
    pub wakeup_granularity: Duration,
}

impl Tunables {
    /// Base values of 6, 0.75 and 1 ms, times 1 + log2 of at most 8 CPUs.
    pub fn new(cpus: usize) -> Tunables {
        let factor = 1 + i64::from(cpus.clamp(1, 8).ilog2());
        Tunables {
            latency: Duration(factor * 6_000_000),
            min_granularity: Duration(factor * 750_000),
            wakeup_granularity: Duration(factor * 1_000_000),
        }
    }
}

/// A task's part in a queue.
#[derive(Clone, Copy, Debug)]
pub struct Entity {
    /// In ns of a task of nice 0.
    pub vruntime: i64,
    pub weight: u32,
    /// Run since it was last picked.
    pub ran: Duration,
}

/// Runnable tasks of one CPU: those that wait, by virtual runtime, and what the running one counts.
#[derive(Clone, Debug, Default)]
pub struct FairQueue {
    waiting: BTreeSet<(i64, u32)>,
    min_vruntime: i64,
    /// Of all that are runnable, the running one included.
    weight: u64,
    count: u32,
}

impl FairQueue {
    /// Runnable tasks, the running one included.
    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Those that wait, the last in turn first.
    pub fn waiting_last_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.iter().rev().map(|(_, task)| *task)
    }

    /// A task becomes runnable here and waits.
    pub fn add(&mut self, task: u32, entity: &Entity) {
        self.count += 1;
        self.weight += u64::from(entity.weight);
        self.waiting.insert((entity.vruntime, task));
    }

    /// A task that ran here is no longer runnable.
    pub fn drop_running(&mut self, entity: &Entity) {
        self.count -= 1;
        self.weight -= u64::from(entity.weight);
    }

    /// A task that waited here is no longer runnable, or goes elsewhere.
    pub fn drop_waiting(&mut self, task: u32, entity: &Entity) {
        let was_there = self.waiting.remove(&(entity.vruntime, task));
        assert!(was_there, "a task that waits is in its queue");
        self.drop_running(entity);
    }

    /// The task that runs has to wait.
    pub fn put_back(&mut self, task: u32, entity: &Entity) {
        self.waiting.insert((entity.vruntime, task));
    }

    /// The next to run.
    pub fn pick(&mut self) -> Option<u32> {
        self.waiting.pop_first().map(|(_, task)| task)
    }

    /// The running task has run for `time`.
    #[inline]
    pub fn charge(&mut self, entity: &mut Entity, time: Duration) {
        entity.ran += time;
        entity.vruntime += match i64::from(entity.weight) {
            NICE_0 => time.0,
            weight => (i128::from(time.0) * i128::from(NICE_0) / i128::from(weight)) as i64,
        };
        let first = self.waiting.first().map_or(entity.vruntime, |(v, _)| *v);
        self.min_vruntime = self.min_vruntime.max(entity.vruntime.min(first));
    }

    /// A new task starts as if it had had its slice; a sleeper gets up to half a target of credit.
    pub fn place(&self, entity: &mut Entity, is_new: bool, tunables: &Tunables) {
        if is_new {
            let debit = self.slice(entity.weight, self.count + 1, tunables);
            let scaled = i128::from(debit.0) * i128::from(NICE_0) / i128::from(entity.weight);
            entity.vruntime = self.min_vruntime + scaled as i64;
        } else {
            entity.vruntime = entity.vruntime.max(self.min_vruntime - tunables.latency.0 / 2);
        }
    }

    /// A task brings its lead or lag along from another queue.
    pub fn rebase(&self, entity: &mut Entity, from: &FairQueue) {
        entity.vruntime += self.min_vruntime - from.min_vruntime;
    }

    /// At a tick: has the running task had its turn?
    pub fn ends_turn(&self, running: &Entity, tunables: &Tunables) -> bool {
        let Some((first, _)) = self.waiting.first() else { return false };
        let slice = self.slice(running.weight, self.count, tunables);
        if running.ran > slice {
            return true;
        }
        running.ran >= tunables.min_granularity && running.vruntime - first > slice.0
    }

    /// At a wake-up: does the woken task go before the running one?
    pub fn preempts(&self, running: &Entity, woken: &Entity, tunables: &Tunables) -> bool {
        let granularity = tunables.wakeup_granularity.0 * NICE_0 / i64::from(woken.weight);
        running.vruntime - woken.vruntime > granularity
    }

    fn slice(&self, weight: u32, count: u32, tunables: &Tunables) -> Duration {
        let target = if count > LATENCY_TASKS {
            i64::from(count) * tunables.min_granularity.0
        } else {
            tunables.latency.0
        };
        let all = self.weight.max(u64::from(weight));
        let slice = i128::from(target) * i128::from(weight) / i128::from(all);
        Duration((slice as i64).max(tunables.min_granularity.0))
    }
}

/// `sched_prio_to_weight[]` (`kernel/sched/core.c`), from nice -20 to 19.
pub const NICE_WEIGHTS: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// The nice level whose weight comes nearest.
pub fn nice_of(weight: u32) -> i32 {
    let off = |level: &usize| NICE_WEIGHTS[*level].abs_diff(weight);
    (0..NICE_WEIGHTS.len()).min_by_key(off).map_or(0, |level| level as i32 - 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(vruntime: i64) -> Entity {
        Entity { vruntime, weight: 1024, ran: Duration::ZERO }
    }

    #[test]
    fn tunables_grow_with_the_machine() {
        let (one, eight) = (Tunables::new(1), Tunables::new(256));
        assert_eq!(one.latency, Duration(6_000_000));
        assert_eq!(eight.latency, Duration(24_000_000), "1 + log2(8) = 4");
        assert_eq!(eight.wakeup_granularity, Duration(4_000_000));
    }

    #[test]
    fn a_turn_is_the_tasks_share_of_the_target() {
        // One CPU, two tasks: 3 ms of 6 each.
        let tunables = Tunables::new(1);
        let mut queue = FairQueue::default();
        let mut running = entity(0);
        queue.add(0, &running);
        queue.add(1, &entity(0));
        assert_eq!(queue.pick(), Some(0));
        queue.charge(&mut running, Duration(3_000_000));
        assert!(!queue.ends_turn(&running, &tunables), "not more than the slice");
        queue.charge(&mut running, Duration(1));
        assert!(queue.ends_turn(&running, &tunables));
        queue.put_back(0, &running);
        assert_eq!(queue.pick(), Some(1));
    }

    #[test]
    fn a_sleeper_gets_half_a_target_and_goes_before_a_task_far_ahead() {
        let tunables = Tunables::new(1);
        let mut queue = FairQueue::default();
        let mut running = entity(0);
        queue.add(0, &running);
        queue.pick();
        queue.charge(&mut running, Duration(100_000_000));
        let mut sleeper = entity(-5);
        queue.place(&mut sleeper, false, &tunables);
        assert_eq!(sleeper.vruntime, 97_000_000);
        assert!(queue.preempts(&running, &sleeper, &tunables), "3 ms behind, more than 1");
        assert!(!queue.preempts(&running, &entity(99_000_000), &tunables), "exactly 1 ms");
    }

    #[test]
    fn a_heavy_task_ages_slowly() {
        let mut queue = FairQueue::default();
        let mut heavy = Entity { weight: 2048, ..entity(0) };
        queue.add(0, &heavy);
        queue.pick();
        queue.charge(&mut heavy, Duration(1_000));
        assert_eq!(heavy.vruntime, 500);
    }
}
