// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A CPU's queue of fair tasks, by virtual deadline (EEVDF, `kernel/sched/fair.c` of Linux 6.12).
//!
//! Each task asks for a slice at a time, whose virtual deadline lies the further off the lighter it
//! is. The queue's virtual time is the mean of its tasks' virtual runtimes by weight; whoever has not
//! had more than its share by then is eligible, and the eligible one with the earliest deadline runs.

use std::collections::BTreeMap;
use torpor_units::Duration;

/// The weight of nice 0.
const NICE_0: i64 = 1024;

/// What a machine's size and its tick decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// `sysctl_sched_base_slice`.
    pub slice: Duration,
    /// How far a task's lead or lag counts when it comes back.
    pub lag_max: Duration,
}

impl Tunables {
    /// 0.7 ms, times 1 + log2 of at most 8 CPUs.
    pub fn new(cpus: usize, tick: Duration) -> Tunables {
        let factor = 1 + i64::from(cpus.clamp(1, 8).ilog2());
        let slice = Duration(factor * 700_000);
        Tunables { slice, lag_max: tick.max(slice + slice) }
    }
}

/// A task's part in a queue.
#[derive(Clone, Copy, Debug)]
pub struct Entity {
    /// In ns of a task of nice 0, as is all that is virtual.
    pub vruntime: i64,
    pub deadline: i64,
    /// Until it has had its slice no other takes its place, as long as it is eligible.
    pub slice_end: i64,
    /// By how much it was behind the virtual time when it left its queue.
    pub lag: i64,
    pub weight: u32,
}

impl Entity {
    pub fn new(weight: u32) -> Entity {
        Entity { vruntime: 0, deadline: 0, slice_end: 0, lag: 0, weight }
    }

    fn scaled(&self, time: Duration) -> i64 {
        match i64::from(self.weight) {
            NICE_0 => time.0,
            weight => (i128::from(time.0) * i128::from(NICE_0) / i128::from(weight)) as i64,
        }
    }

    /// It gets the CPU.
    pub fn picked(&mut self) {
        self.slice_end = self.deadline;
    }
}

/// Runnable tasks of one CPU: those that wait, by deadline, and what the running one counts.
#[derive(Clone, Debug, Default)]
pub struct FairQueue {
    /// Virtual runtime and weight.
    waiting: BTreeMap<(i64, u32), (i64, u32)>,
    running: Option<(i64, u32)>,
    /// Of all that are runnable: their weights, and the weighted sum of their virtual runtimes.
    weight: i64,
    weighted: i128,
    /// When it had a task last.
    virtual_time: i64,
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
        self.waiting.keys().rev().map(|(_, task)| *task)
    }

    /// `avg_vruntime()`.
    fn virtual_time(&self) -> i64 {
        match self.weight {
            0 => self.virtual_time,
            weight => self.weighted.div_euclid(weight.into()) as i64,
        }
    }

    /// `entity_eligible()`.
    fn is_eligible(&self, vruntime: i64) -> bool {
        i128::from(vruntime) * i128::from(self.weight) <= self.weighted
    }

    fn count_in(&mut self, vruntime: i64, weight: u32) {
        self.weight += i64::from(weight);
        self.weighted += i128::from(vruntime) * i128::from(weight);
    }

    fn count_out(&mut self, vruntime: i64, weight: u32) {
        self.virtual_time = self.virtual_time();
        self.weight -= i64::from(weight);
        self.weighted -= i128::from(vruntime) * i128::from(weight);
    }

    /// A task becomes runnable here and waits.
    pub fn add(&mut self, task: u32, entity: &Entity) {
        self.count += 1;
        self.count_in(entity.vruntime, entity.weight);
        self.waiting.insert((entity.deadline, task), (entity.vruntime, entity.weight));
    }

    /// The task that ran here is no longer runnable, or goes elsewhere.
    pub fn drop_running(&mut self, entity: &mut Entity, tunables: &Tunables) {
        assert!(self.running.take().is_some(), "a task runs");
        self.leaves(entity, tunables);
    }

    /// A task that waited here goes elsewhere.
    pub fn drop_waiting(&mut self, task: u32, entity: &mut Entity, tunables: &Tunables) {
        let was_there = self.waiting.remove(&(entity.deadline, task)).is_some();
        assert!(was_there, "a task that waits is in its queue");
        self.leaves(entity, tunables);
    }

    /// `update_entity_lag()`.
    fn leaves(&mut self, entity: &mut Entity, tunables: &Tunables) {
        let limit = entity.scaled(tunables.lag_max);
        entity.lag = (self.virtual_time() - entity.vruntime).clamp(-limit, limit);
        self.count -= 1;
        self.count_out(entity.vruntime, entity.weight);
    }

    /// The task that runs has to wait.
    pub fn put_back(&mut self, task: u32, entity: &Entity) {
        self.running = None;
        self.waiting.insert((entity.deadline, task), (entity.vruntime, entity.weight));
    }

    /// The next to run: of those that are eligible the one with the earliest deadline.
    pub fn pick(&mut self) -> Option<u32> {
        let eligible = self.waiting.iter().find(|(_, (vruntime, _))| self.is_eligible(*vruntime));
        let (&key, &at) = eligible.or_else(|| self.waiting.first_key_value())?;
        self.waiting.remove(&key);
        self.running = Some(at);
        Some(key.1)
    }

    /// The running task has run for `time`. With its slice used up it asks for another.
    #[inline]
    pub fn charge(&mut self, entity: &mut Entity, time: Duration, tunables: &Tunables) {
        let ran = entity.scaled(time);
        entity.vruntime += ran;
        self.weighted += i128::from(ran) * i128::from(entity.weight);
        self.running = Some((entity.vruntime, entity.weight));
        if entity.vruntime >= entity.deadline {
            entity.deadline = entity.vruntime + entity.scaled(tunables.slice);
        }
    }

    /// A task that comes back is as far behind, or ahead, as it was when it left; one that was ahead
    /// has waited for the others meanwhile, if it `stayed` on this CPU. A new one has half a slice.
    ///
    /// FIDELITY(sched-delayed): the kernel leaves a task that goes to sleep ahead of its share on its
    /// queue until the others have caught up, and does not place it if it wakes before.
    pub fn place(&self, entity: &mut Entity, is_new: bool, stayed: bool, tunables: &Tunables) {
        let now = self.virtual_time();
        let own = i64::from(entity.weight);
        let lag = match entity.lag {
            _ if is_new || self.weight == 0 => 0,
            ahead @ ..0 if stayed => (now - entity.vruntime).clamp(ahead, 0),
            ..0 => 0,
            behind => behind,
        };
        // The queue's virtual time changes with the task: its lag is to be the same afterwards.
        let lag = match self.weight {
            0 => 0,
            all => (i128::from(lag) * i128::from(all + own) / i128::from(all)) as i64,
        };
        entity.vruntime = now - lag;
        let slice = entity.scaled(tunables.slice);
        entity.deadline = entity.vruntime + if is_new { slice / 2 } else { slice };
    }

    /// Has the running task had its turn, with another to follow?
    pub fn ends_turn(&self, running: &Entity) -> bool {
        !self.waiting.is_empty() && running.deadline != running.slice_end
    }

    /// At a wake-up: does the woken task, which waits already, go before the running one?
    pub fn preempts(&self, running: &Entity, woken: &Entity) -> bool {
        if self.is_eligible(running.vruntime) && running.deadline == running.slice_end {
            return false;
        }
        let comes_first = |deadline: i64| deadline < woken.deadline;
        let another = self.waiting.iter().take_while(|((deadline, _), _)| comes_first(*deadline));
        let runs_on = self.is_eligible(running.vruntime) && comes_first(running.deadline);
        let eligible = |(_, (vruntime, _)): (_, &(i64, u32))| self.is_eligible(*vruntime);
        self.is_eligible(woken.vruntime) && !runs_on && !another.into_iter().any(eligible)
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

    const MS: i64 = 1_000_000;

    /// One CPU: slices of 0.7 ms.
    fn tunables() -> Tunables {
        Tunables::new(1, Duration(4 * MS))
    }

    fn entity(vruntime: i64) -> Entity {
        Entity { vruntime, deadline: vruntime + 700_000, ..Entity::new(1024) }
    }

    /// A queue whose task 0 runs.
    fn running(entity: &mut Entity) -> FairQueue {
        let mut queue = FairQueue::default();
        queue.add(0, entity);
        assert_eq!(queue.pick(), Some(0));
        entity.picked();
        queue
    }

    #[test]
    fn slices_grow_with_the_machine() {
        let (one, eight) = (tunables(), Tunables::new(256, Duration(4 * MS)));
        assert_eq!((one.slice, one.lag_max), (Duration(700_000), Duration(4 * MS)));
        assert_eq!(eight.slice, Duration(2_800_000), "1 + log2(8) = 4");
        assert_eq!(eight.lag_max, Duration(5_600_000), "two slices are more than a tick");
    }

    #[test]
    fn a_turn_is_a_slice() {
        let tunables = tunables();
        let mut first = entity(0);
        let mut queue = running(&mut first);
        queue.add(1, &entity(0));
        queue.charge(&mut first, Duration(699_999), &tunables);
        assert!(!queue.ends_turn(&first));
        queue.charge(&mut first, Duration(1), &tunables);
        assert!(queue.ends_turn(&first));
        assert_eq!(first.deadline, 1_400_000);
        queue.put_back(0, &first);
        assert_eq!(queue.pick(), Some(1));
    }

    /// 0 has run for 0.4 ms, so the virtual time of two is 0.2 ms: it is ahead of its share.
    #[test]
    fn who_has_had_more_than_its_share_makes_way() {
        let tunables = tunables();
        let mut first = entity(0);
        let mut queue = running(&mut first);
        queue.charge(&mut first, Duration(400_000), &tunables);
        let mut woken = Entity::new(1024);
        // Alone, the virtual time is its own.
        queue.place(&mut woken, false, true, &tunables);
        assert_eq!(woken.vruntime, 400_000);
        let queue_with = |woken: &Entity| {
            let mut queue = queue.clone();
            queue.add(1, woken);
            queue
        };
        assert!(!queue_with(&woken).preempts(&first, &woken), "0 is eligible, and in its slice");
        // 0.1 ms behind when it left: placed 0.2 ms behind one, it is 0.1 behind the two.
        woken.lag = 100_000;
        queue.place(&mut woken, false, true, &tunables);
        assert_eq!((woken.vruntime, woken.deadline), (200_000, 900_000));
        let with = queue_with(&woken);
        assert_eq!(with.virtual_time(), 300_000);
        assert!(with.preempts(&first, &woken));
    }

    #[test]
    fn a_sleeper_that_was_ahead_waits_for_the_others_and_no_longer() {
        let tunables = tunables();
        let mut first = entity(0);
        let mut queue = running(&mut first);
        let mut sleeper = Entity { vruntime: 500_000, lag: -500_000, ..Entity::new(1024) };
        queue.charge(&mut first, Duration(300_000), &tunables);
        queue.place(&mut sleeper, false, true, &tunables);
        // 0.2 ms are left of its lead; with it the virtual time is 0.5 ms.
        assert_eq!(sleeper.vruntime, 300_000 + 2 * 200_000);
        let mut sleeper = Entity { vruntime: 500_000, lag: -500_000, ..Entity::new(1024) };
        queue.charge(&mut first, Duration(300_000), &tunables);
        queue.place(&mut sleeper, false, true, &tunables);
        assert_eq!(sleeper.vruntime, 600_000);
    }

    #[test]
    fn the_earliest_deadline_of_those_that_are_eligible_runs() {
        let mut queue = FairQueue::default();
        queue.add(0, &Entity { deadline: 5, ..entity(90) });
        queue.add(1, &Entity { deadline: 9, ..entity(10) });
        queue.add(2, &Entity { deadline: 7, ..entity(20) });
        // The mean is 40.
        assert_eq!(queue.pick(), Some(2));
        assert_eq!(queue.pick(), Some(1));
        assert_eq!(queue.pick(), Some(0), "there is no other");
    }

    #[test]
    fn a_heavy_task_ages_slowly() {
        let mut heavy = Entity { weight: 2048, ..entity(0) };
        let mut queue = running(&mut heavy);
        queue.charge(&mut heavy, Duration(1_000), &tunables());
        assert_eq!(heavy.vruntime, 500);
    }
}
