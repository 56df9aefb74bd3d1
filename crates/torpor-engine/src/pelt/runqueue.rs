// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A CPU whose tasks come and go, for its utilization.

use super::average::{Average, DIVIDER_MIN};
use super::clock::Clock;

/// Speed of a CPU, in 1024ths of the biggest CPU at its highest frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    pub capacity: u32,
    /// Frequency in 1024ths of this CPU's own highest.
    pub freq: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Runqueue {
    average: Average,
    clock: Clock,
    scale: Scale,
    is_busy: bool,
    /// Utilization of tasks that have left since the last update.
    removed_util: u64,
}

/// A task's own average, and the CPU whose runqueue counts it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Task {
    average: Average,
    pub cpu: usize,
    /// The task was preempted.
    pub is_runnable: bool,
}

impl Runqueue {
    /// Returns the runqueue of a CPU that has been idle since long before `now_ns`.
    pub fn new(now_ns: u64, scale: Scale) -> Runqueue {
        let mut clock = Clock::default();
        clock.advance(now_ns, true, scale.capacity, scale.freq);
        let average = Average { updated_ns: clock.now_ns(), ..Average::default() };
        Runqueue { average, clock, scale, is_busy: false, removed_util: 0 }
    }

    /// Accounts for the time up to `now_ns`, and changes the frequency.
    pub fn set_freq(&mut self, now_ns: u64, freq: u32) {
        self.update(now_ns);
        self.scale.freq = freq;
    }

    /// Accounts for the time up to `now_ns` (`update_load_avg()`).
    pub fn update(&mut self, now_ns: u64) {
        self.clock.advance(now_ns, !self.is_busy, self.scale.capacity, self.scale.freq);
        self.apply_removed();
        self.average.update(self.clock.now_ns(), self.is_busy);
    }

    fn apply_removed(&mut self) {
        let left = std::mem::take(&mut self.removed_util);
        if left == 0 {
            return;
        }
        let util_avg = &mut self.average.util_avg;
        *util_avg = util_avg.saturating_sub(left);
        // The period may have moved on since the sums were taken, so the sum gets a floor.
        // Thousands of tasks may have left at once: the kernel's sums are 32 bits, and wrap.
        let least = (*util_avg as u32).wrapping_mul(DIVIDER_MIN);
        let gone = (left as u32).wrapping_mul(self.average.divider());
        let util_sum = &mut self.average.util_sum;
        *util_sum = util_sum.saturating_sub(gone).max(least);
    }

    /// Switches to a task or to idle, after [`Runqueue::update`].
    pub fn switch(&mut self, is_busy: bool) {
        if self.is_busy && !is_busy {
            self.clock.fall_idle(self.average.util_sum);
        }
        self.is_busy = is_busy;
    }

    /// Returns `sched_cpu_util()` as of the last update.
    pub fn util(&self) -> u16 {
        self.average.util_avg.min(u64::from(self.scale.capacity)) as u16
    }

    /// Returns the real time since the last update.
    pub fn since_update_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.clock.real_ns())
    }
}

/// Runqueues that are passed in are up to date.
impl Task {
    /// Returns a task without utilization.
    pub fn new(cpu: usize, on: &Runqueue) -> Task {
        let average = Average {
            updated_ns: on.average.updated_ns,
            period_units: on.average.period_units,
            ..Average::default()
        };
        Task { average, cpu, is_runnable: false }
    }

    /// Returns a task that was just created on a runqueue.
    pub fn forked(cpu: usize, on: &mut Runqueue) -> Task {
        let mut task = Task::new(cpu, on);
        let free = u64::from(on.scale.capacity).saturating_sub(on.average.util_avg);
        task.average.util_avg = free / 2;
        task.attach(on, cpu);
        task
    }

    /// Accounts for the time since the task's last update.
    pub fn update(&mut self, on: &Runqueue, was_running: bool) {
        self.average.update(on.clock.now_ns(), was_running);
    }

    /// Subtracts the task's utilization from `from`: at once if it was queued there, else, as the
    /// kernel
    /// does, at that runqueue's next update. Decay since then is applied here if that CPU idles, as
    /// its clock is then that of `now_ns`.
    pub fn detach(&mut self, from: &mut Runqueue, now_ns: u64) {
        self.average.update(from.average.updated_ns, false);
        from.removed_util += self.average.util_avg;
        if self.is_runnable {
            from.apply_removed();
        }
        if !from.is_busy {
            let mut clock = from.clock;
            clock.advance(now_ns, true, from.scale.capacity, from.scale.freq);
            self.average.update(clock.now_ns(), false);
        }
    }

    /// Ends the task; the runqueue loses its utilization at the next update.
    pub fn exit(self, from: &mut Runqueue) {
        from.removed_util += self.average.util_avg;
    }

    /// Adds the task's utilization to `to`, in step with that runqueue's periods.
    pub fn attach(&mut self, to: &mut Runqueue, cpu: usize) {
        self.cpu = cpu;
        self.average.updated_ns = to.average.updated_ns;
        self.average.period_units = to.average.period_units;
        self.average.util_sum = self.average.util_avg as u32 * self.average.divider();
        to.average.util_avg += self.average.util_avg;
        // As the kernel's u32: it wraps with some ninety tasks that are always busy.
        to.average.util_sum = to.average.util_sum.wrapping_add(self.average.util_sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const FULL: Scale = Scale { capacity: 1024, freq: 1024 };

    fn run(rq: &mut Runqueue, task: &mut Task, from_ns: u64, for_ns: u64) {
        rq.update(from_ns);
        task.update(rq, false);
        rq.switch(true);
        rq.update(from_ns + for_ns);
        task.update(rq, true);
        rq.switch(false);
    }

    #[test]
    fn runqueue_utilization_equals_its_only_task() {
        let mut rq = Runqueue::new(5 * MS, FULL);
        let mut task = Task::new(0, &rq);
        for n in 1..200 {
            run(&mut rq, &mut task, n * 10 * MS, 3 * MS);
            assert_eq!(u64::from(rq.util()), task.average.util_avg, "turn {n}");
        }
        // 30 % of the time, and the peak right after running is a little above that.
        assert!((307..350).contains(&rq.util()), "{}", rq.util());
    }

    #[test]
    fn utilization_goes_with_a_task_that_moves() {
        let mut from = Runqueue::new(0, FULL);
        let mut to = Runqueue::new(0, FULL);
        let mut task = Task::new(0, &from);
        run(&mut from, &mut task, MS, 40 * MS);
        let before = task.average.util_avg;
        assert!(before > 500);
        // 33.6 ms later, one half-life, it starts on the other CPU.
        let later = 41 * MS + 33_554_432;
        to.update(later);
        task.detach(&mut from, later);
        task.attach(&mut to, 1);
        assert!(
            task.average.util_avg.abs_diff(before / 2) <= 1,
            "{before} to {}",
            task.average.util_avg
        );
        assert_eq!(u64::from(to.util()), task.average.util_avg);
        from.update(later);
        assert_eq!(from.util(), 0);
    }

    #[test]
    fn utilization_never_exceeds_capacity() {
        let little = Scale { capacity: 160, freq: 1024 };
        let mut rq = Runqueue::new(0, little);
        let mut task = Task::new(0, &rq);
        for n in 0..100 {
            run(&mut rq, &mut task, n * 10 * MS, 5 * MS);
        }
        // Half of its time, so half of its capacity; it runs for less than a period of its own
        // time, in which the average may still be that of before, after 5 ms of idling.
        assert!((70..90).contains(&rq.util()), "{}", rq.util());
        run(&mut rq, &mut task, 2_000 * MS, 5_000 * MS);
        assert_eq!(rq.util(), 160);
    }
}
