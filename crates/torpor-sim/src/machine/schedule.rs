// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A CPU that runs tasks: who runs, for how long, and what the tick does about it.

use super::cpu::{Cpus, Mode};
use super::events::Listed;
use super::program::Programs;
use super::task::{Blocked, State};
use super::{Machine, Sink};
use crate::error::Halt;
use crate::sched::{Fit, fit};
use torpor_engine::policy::Policy;
use torpor_trace::PrevState;
use torpor_units::Instant;

/// The task that leaves a CPU, for the record.
pub(super) type Leaver = Option<(i32, PrevState)>;

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Something of the running CPU's own is due.
    pub(super) fn running(&mut self, number: usize) -> Result<(), Halt> {
        self.account(number);
        let has_ticked = self.cpus[number].tick <= self.world.now;
        let bigger = if has_ticked { self.tick(number) } else { None };
        self.expire_timers(number, has_ticked);
        if let Some(target) = bigger {
            self.move_running(number, target)?;
        }
        let cpu = &mut self.cpus[number];
        if cpu.ipi <= self.world.now {
            cpu.ipi = Instant::NEVER;
            cpu.needs_resched = true;
            cpu.hold_up(self.world.now, self.world.plan.overheads.ipi_handling);
        }
        self.go_on(number)
    }

    /// Runs tasks for as long as no time passes, then says when the next thing is due.
    pub(super) fn go_on(&mut self, number: usize) -> Result<(), Halt> {
        loop {
            let cpu = &mut self.cpus[number];
            if cpu.mode != Mode::Running {
                return Ok(());
            }
            if std::mem::take(&mut cpu.needs_resched) {
                self.preempt(number)?;
                continue;
            }
            let task = cpu.running.expect("a running CPU has a task");
            if self.world.tasks[task as usize].work > 0 || cpu.from > self.world.now {
                break;
            }
            self.advance(number, task)?;
        }
        self.plan_ahead(number);
        Ok(())
    }

    /// When something is due on a running CPU.
    pub(super) fn plan_ahead(&mut self, number: usize) {
        let cpu = &self.cpus[number];
        let task = cpu.running.expect("a running CPU has a task");
        let done = cpu.from + cpu.time_for(self.world.tasks[task as usize].work);
        let due = done.min(cpu.tick).min(cpu.next_timer()).min(cpu.ipi);
        self.world.agenda.set(Cpus::nth(number), due);
    }

    /// The running task's work and time up to now.
    #[inline]
    pub(super) fn account(&mut self, number: usize) {
        let cpu = &mut self.cpus[number];
        let Some(running) = cpu.running else { return };
        if self.world.now <= cpu.from {
            return;
        }
        let ran = self.world.now.since(cpu.from);
        cpu.from = self.world.now;
        cpu.task_time += ran;
        let task = &mut self.world.tasks[running as usize];
        task.work = (task.work - ran.0 * cpu.speed).max(0);
        task.cpu_time += ran;
        task.ran_at = self.world.now;
        cpu.queue.charge(&mut task.entity, ran, &self.tunables);
    }

    /// Brings a CPU's utilization up to now (`update_load_avg()`).
    #[inline]
    pub(super) fn touch(&mut self, number: usize) {
        let is_renewed = self.cpus[number].load.update(self.world.now.0 as u64);
        self.publish_util(number);
        if is_renewed {
            self.cpufreq_update(number, false);
        }
    }

    /// Tells placement of a CPU's utilization, where it asks for it.
    #[inline]
    pub(super) fn publish_util(&mut self, number: usize) {
        if !self.keeps_utils {
            return;
        }
        let cpu = &mut self.cpus[number];
        let util = cpu.util();
        let is_over = fit(util, self.clamps[number].get(), cpu.available) == Fit::None;
        if is_over != cpu.is_overutilized {
            cpu.is_overutilized = is_over;
            self.overutilized = if is_over { self.overutilized + 1 } else { self.overutilized - 1 };
        }
    }

    /// The queue of a CPU has grown or shrunk.
    pub(super) fn publish_count(&mut self, number: usize) {
        let count = self.cpus[number].queue.count();
        // What comes to an idle CPU is queued there once that is awake.
        if self.cpus[number].mode == Mode::Running {
            self.cpus[number].load.set_runnable(count);
        }
        self.counts.set(number, count);
        if count > 1 {
            self.crowded.insert(number);
        } else {
            self.crowded.remove(number);
        }
    }

    /// The next task, or idleness.
    pub(super) fn pick_next(&mut self, number: usize, leaver: Leaver) -> Result<(), Halt> {
        let picked = self.cpus[number].queue.pick();
        let picked = picked.or_else(|| self.pull_when_idle(number));
        if S::RECORDS {
            self.record_switch(number, leaver, picked);
        }
        match picked {
            Some(task) => {
                self.start_task(number, task);
                Ok(())
            }
            None => {
                let cpu = &mut self.cpus[number];
                cpu.load.switch(false);
                cpu.tick = Instant::NEVER;
                cpu.ipi = Instant::NEVER;
                cpu.needs_resched = false;
                self.go_idle(number)
            }
        }
    }

    /// The task comes onto the CPU.
    fn start_task(&mut self, number: usize, id: u32) {
        self.touch(number);
        let now = self.world.now;
        let cpu = &mut self.cpus[number];
        cpu.hold_up(now, self.world.plan.overheads.context_switch);
        if cpu.load.switch(true) {
            self.world.tasks[id as usize].load.is_runnable = false;
        }
        cpu.load.set_runnable(cpu.queue.count());
        cpu.running = Some(id);
        let task = &mut self.world.tasks[id as usize];
        task.load.update(&cpu.load, false);
        task.load.is_runnable = true;
        task.entity.picked();
        task.in_iowait = false;
        self.world.begins(id, cpu.from);
    }

    /// The running task goes back among those that wait, and the first of them runs.
    fn preempt(&mut self, number: usize) -> Result<(), Halt> {
        let cpu = &mut self.cpus[number];
        let id = cpu.running.expect("a running CPU has a task");
        if cpu.queue.waiting() == 0 {
            return Ok(());
        }
        cpu.queue.put_back(id, &self.world.tasks[id as usize].entity);
        let next = cpu.queue.pick().expect("two tasks at least are there");
        let task = &mut self.world.tasks[id as usize];
        if next == id {
            task.entity.picked();
            return Ok(());
        }
        self.touch(number);
        let task = &mut self.world.tasks[id as usize];
        task.load.update(&self.cpus[number].load, true);
        task.load.is_runnable = true;
        self.world.kinds[task.kind].preemptions += 1;
        if S::RECORDS {
            let leaver = Some((self.world.tasks[id as usize].pid, PrevState::Runnable));
            self.record_switch(number, leaver, Some(next));
        }
        self.start_task(number, next);
        Ok(())
    }

    /// The running task stops to wait for something, or ends.
    pub(super) fn leaves(&mut self, number: usize, state: State) -> Result<(), Halt> {
        let id = self.cpus[number].running.take().expect("it runs on this CPU");
        let cpu = &mut self.cpus[number];
        let is_renewed = cpu.load.update(self.world.now.0 as u64);
        let task = &mut self.world.tasks[id as usize];
        task.state = state;
        task.in_iowait = matches!(state, State::Blocked(Blocked::Io(wait)) if wait.in_iowait());
        cpu.iowait += u16::from(task.in_iowait);
        task.load.update(&cpu.load, true);
        task.load.is_runnable = false;
        cpu.queue.drop_running(&mut task.entity, &self.tunables);
        cpu.util_est -= task.util_est;
        task.update_util_est(cpu.capacity);
        let leaver = (task.pid, prev_state(state));
        self.publish_util(number);
        self.publish_count(number);
        self.dequeued(id, number, is_renewed);
        if matches!(state, State::Dead) {
            self.world.bury(id);
        }
        self.pick_next(number, Some(leaver))
    }

    /// The tick; returns where the running task should go, if it is too big for this CPU.
    fn tick(&mut self, number: usize) -> Option<usize> {
        if S::RECORDS {
            self.record_tick(number);
        }
        self.touch(number);
        let now = self.world.now;
        let cpu = &mut self.cpus[number];
        cpu.hold_up(now, self.world.plan.overheads.interrupt);
        cpu.tick += self.world.plan.models[number].tick.hz.tick();
        cpu.span.nr_running = cpu.queue.count() as u16;
        let id = cpu.running.expect("a running CPU has a task");
        let task = &mut self.world.tasks[id as usize];
        task.load.update(&cpu.load, true);
        if cpu.queue.ends_turn(&task.entity) {
            cpu.needs_resched = true;
        }
        self.balance_at_tick(number, id)
    }
}

pub(super) fn prev_state(state: State) -> PrevState {
    match state {
        State::Runnable => PrevState::Runnable,
        State::Blocked(Blocked::Io(wait)) if wait.is_uninterruptible() => PrevState::DiskSleep,
        State::Blocked(_) => PrevState::Sleeping,
        State::Dead => PrevState::Dead,
    }
}
