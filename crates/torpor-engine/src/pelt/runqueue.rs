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

impl Scale {
    pub const FULL: Scale = Scale { capacity: 1024, freq: 1024 };
}

#[derive(Clone, Copy, Debug)]
pub struct Runqueue {
    average: Average,
    clock: Clock,
    scale: Scale,
    is_busy: bool,
    /// Tasks that run or wait.
    runnable: u64,
    /// Utilization of tasks that have left since the last update.
    removed_util: u64,
    removed_runnable: u64,
}

/// A task's own average, and whose runqueue it counts in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Task {
    average: Average,
    pub cpu: usize,
    /// It left its CPU while it had still work to do.
    pub is_runnable: bool,
}

impl Runqueue {
    /// Idle since long before `now_ns`.
    pub fn new(now_ns: u64, scale: Scale) -> Runqueue {
        let mut clock = Clock::default();
        clock.advance(now_ns, true, scale.capacity, scale.freq);
        let average = Average { updated_ns: clock.now_ns(), ..Average::default() };
        Runqueue {
            average,
            clock,
            scale,
            is_busy: false,
            runnable: 0,
            removed_util: 0,
            removed_runnable: 0,
        }
    }

    /// Utilization of a task or more up to now, then at another frequency.
    pub fn set_freq(&mut self, now_ns: u64, freq: u32) {
        self.update(now_ns);
        self.scale.freq = freq;
    }

    /// At another frequency from the last update on, which is how the kernel has it: it reads the
    /// scale when it updates.
    pub fn scale_freq(&mut self, freq: u32) {
        self.scale.freq = freq;
    }

    /// Accounts for the time up to `now_ns`. True if the utilization was renewed, which is when
    /// the kernel tells cpufreq (`update_load_avg()`).
    pub fn update(&mut self, now_ns: u64) -> bool {
        self.clock.advance(now_ns, !self.is_busy, self.scale.capacity, self.scale.freq);
        let has_lost = self.apply_removed();
        let runnable = self.runnable.max(self.is_busy.into());
        self.average.update(self.clock.now_ns(), runnable, self.is_busy) || has_lost
    }

    fn apply_removed(&mut self) -> bool {
        let left = std::mem::take(&mut self.removed_util);
        let left_runnable = std::mem::take(&mut self.removed_runnable);
        if left == 0 && left_runnable == 0 {
            return false;
        }
        let divider = u64::from(self.average.divider());
        let runnable_avg = &mut self.average.runnable_avg;
        *runnable_avg = runnable_avg.saturating_sub(left_runnable);
        let least = *runnable_avg * u64::from(DIVIDER_MIN);
        let runnable_sum = &mut self.average.runnable_sum;
        *runnable_sum = runnable_sum.saturating_sub(left_runnable * divider).max(least);
        let util_avg = &mut self.average.util_avg;
        *util_avg = util_avg.saturating_sub(left);
        // The period may have moved on since the sums were taken, so the sum gets a floor.
        // Thousands of tasks may have left at once: the kernel's sums are 32 bits, and wrap.
        let least = (*util_avg as u32).wrapping_mul(DIVIDER_MIN);
        let gone = (left as u32).wrapping_mul(self.average.divider());
        let util_sum = &mut self.average.util_sum;
        *util_sum = util_sum.saturating_sub(gone).max(least);
        true
    }

    /// The CPU has gone over to a task, or to idling; [`Runqueue::update`] came first. Whether that
    /// is something else.
    pub fn switch(&mut self, is_busy: bool) -> bool {
        if self.is_busy && !is_busy {
            self.clock.fall_idle(self.average.util_sum);
        }
        std::mem::replace(&mut self.is_busy, is_busy) != is_busy
    }

    /// Sets the number of tasks that run or wait from the last update on.
    pub fn set_runnable(&mut self, count: u32) {
        self.runnable = count.into();
    }

    /// As of the last update: `util_avg` and `runnable_avg`, which may be more than the CPU has.
    pub fn averages(&self) -> (u64, u64) {
        (self.average.util_avg, self.average.runnable_avg)
    }

    /// As of the last update: `sched_cpu_util()`.
    pub fn util(&self) -> u16 {
        self.average.util_avg.min(u64::from(self.scale.capacity)) as u16
    }

    /// Takes another's word for its averages.
    pub fn assume(&mut self, util_avg: u64, runnable_avg: u64) {
        (self.average.util_avg, self.average.runnable_avg) = (util_avg, runnable_avg);
    }

    /// In real time.
    pub fn since_update_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.clock.real_ns())
    }
}

impl Task {
    /// A task that has done nothing yet, on a runqueue that is up to date.
    pub fn new(cpu: usize, on: &Runqueue) -> Task {
        let average = Average {
            updated_ns: on.average.updated_ns,
            period_units: on.average.period_units,
            ..Average::default()
        };
        Task { average, cpu, is_runnable: false }
    }

    /// A task that has just come into being on a runqueue that is up to date.
    pub fn forked(cpu: usize, on: &mut Runqueue) -> Task {
        let mut task = Task::new(cpu, on);
        let free = u64::from(on.scale.capacity).saturating_sub(on.average.util_avg);
        task.average.util_avg = free / 2;
        task.average.runnable_avg = task.average.util_avg;
        task.attach(on, cpu);
        task
    }

    /// Accounts for the time since its last update; its runqueue is up to date.
    pub fn update(&mut self, on: &Runqueue, was_running: bool) {
        self.advance(on.clock.now_ns(), was_running);
    }

    /// A sleeping task, up to the last update of the runqueue that it counts in
    /// (`sync_entity_load_avg()`).
    pub fn catch_up(&mut self, with: &Runqueue) {
        self.advance(with.average.updated_ns, false);
    }

    fn advance(&mut self, now_ns: u64, was_running: bool) {
        let runnable = u64::from(self.is_runnable || was_running);
        self.average.update(now_ns, runnable, was_running);
    }

    /// Takes its utilization off `from`: at once if it was queued there, else, as the kernel, when
    /// that runqueue is updated next. How much `from` has decayed since is made up for here if
    /// that CPU idles, as its own clock is then that of `now_ns`.
    pub fn detach(&mut self, from: &mut Runqueue, now_ns: u64) {
        self.advance(from.average.updated_ns, false);
        from.removed_util += self.average.util_avg;
        from.removed_runnable += self.average.runnable_avg;
        if self.is_runnable {
            from.apply_removed();
        }
        if !from.is_busy {
            let mut clock = from.clock;
            clock.advance(now_ns, true, from.scale.capacity, from.scale.freq);
            self.advance(clock.now_ns(), false);
        }
    }

    /// Ends on a runqueue that is up to date, which loses its utilization when it is updated next.
    pub fn exit(self, from: &mut Runqueue) {
        from.removed_util += self.average.util_avg;
        from.removed_runnable += self.average.runnable_avg;
    }

    /// Adds its utilization to `to`, which is up to date, in step with that one's periods.
    pub fn attach(&mut self, to: &mut Runqueue, cpu: usize) {
        self.cpu = cpu;
        self.average.updated_ns = to.average.updated_ns;
        self.average.period_units = to.average.period_units;
        self.average.util_sum = self.average.util_avg as u32 * self.average.divider();
        self.average.runnable_sum = self.average.runnable_avg * u64::from(self.average.divider());
        to.average.runnable_avg += self.average.runnable_avg;
        to.average.runnable_sum += self.average.runnable_sum;
        to.average.util_avg += self.average.util_avg;
        // As the kernel's u32: it wraps with some ninety tasks that are always busy.
        to.average.util_sum = to.average.util_sum.wrapping_add(self.average.util_sum);
    }

    /// Takes another's word for its averages.
    pub fn assume(&mut self, util_avg: u64, runnable_avg: u64) {
        (self.average.util_avg, self.average.runnable_avg) = (util_avg, runnable_avg);
    }

    pub fn runnable(&self) -> u64 {
        self.average.runnable_avg
    }

    pub fn util(&self) -> u64 {
        self.average.util_avg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn run(rq: &mut Runqueue, task: &mut Task, from_ns: u64, for_ns: u64) {
        rq.update(from_ns);
        task.update(rq, false);
        rq.switch(true);
        rq.update(from_ns + for_ns);
        task.update(rq, true);
        rq.switch(false);
    }

    #[test]
    fn a_runqueue_is_as_utilized_as_its_one_task() {
        let mut rq = Runqueue::new(5 * MS, Scale::FULL);
        let mut task = Task::new(0, &rq);
        for n in 1..200 {
            run(&mut rq, &mut task, n * 10 * MS, 3 * MS);
            assert_eq!(u64::from(rq.util()), task.util(), "turn {n}");
        }
        // 30 % of the time, and the peak right after running is a little above that.
        assert!((307..350).contains(&rq.util()), "{}", rq.util());
    }

    #[test]
    fn utilization_goes_with_a_task_that_moves() {
        let mut from = Runqueue::new(0, Scale::FULL);
        let mut to = Runqueue::new(0, Scale::FULL);
        let mut task = Task::new(0, &from);
        run(&mut from, &mut task, MS, 40 * MS);
        let before = task.util();
        assert!(before > 500);
        // 33.6 ms later, one half-life, it starts on the other CPU.
        let later = 41 * MS + 33_554_432;
        to.update(later);
        task.detach(&mut from, later);
        task.attach(&mut to, 1);
        assert!(task.util().abs_diff(before / 2) <= 1, "{before} to {}", task.util());
        assert_eq!(u64::from(to.util()), task.util());
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
