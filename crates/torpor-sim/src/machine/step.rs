// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Steps of tasks in the kernel: what programs come down to.

use super::task::{FULL_SPEED, TaskId};
use super::{Acting, Machine, Sink};
use crate::kernel::{Attributes, TaskSetup, Trouble};
use torpor_machine::units::{CpuId, Duration, Instant};

/// Next step of a task.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Computes for as long as a CPU of capacity 1024 takes at its highest frequency.
    Run(Duration),
    /// `clock_nanosleep()` to a time; over at once if that has passed.
    Sleep(Instant),
    /// Blocks until a wake-up; continues at once if one has come in between.
    Wait,
    /// The same in `io_schedule()`.
    WaitIo,
    /// Wakes another.
    Wake(TaskId),
    /// The same, and it is about to sleep.
    WakeSync(TaskId),
    /// Starts another task, with a new number.
    Fork(Box<TaskSetup>),
    /// `sched_setattr()` and `sched_setaffinity()` for a task, if it has not exited.
    Change(TaskId, Attributes),
    Exit,
}

impl<S: Sink> Machine<'_, S> {
    /// Continues the CPU's task, which has finished its computation, until the task computes, is
    /// delayed, or leaves the CPU.
    pub(super) fn advance(&mut self, cpu: usize) -> Result<(), Trouble> {
        self.account(cpu);
        let (turn, now) = (self.cpus[cpu].turn, self.world.now);
        let id = self.slot(self.cpus[cpu].task).expect("what has exited computes no more");
        self.world.tasks[id as usize].left = Duration::ZERO;
        self.cpus[cpu].done_at = Instant::NEVER;
        while self.cpus[cpu].turn == turn {
            if self.cpus[cpu].from > now {
                self.plan_done(cpu);
                return Ok(());
            }
            let Some(step) = self.next_step(cpu, id) else { return Ok(()) };
            let task = &mut self.world.tasks[id as usize];
            match step {
                Step::Run(time) => {
                    task.left = time;
                    self.plan_done(cpu);
                    return Ok(());
                }
                Step::Sleep(until) if until <= now => {}
                Step::Sleep(until) => {
                    task.has_left = true;
                    return self.instance.sleep(cpu, until);
                }
                Step::Wait | Step::WaitIo if task.woken_before > 0 => task.woken_before -= 1,
                Step::Wait | Step::WaitIo => {
                    (task.is_waiting, task.has_left) = (true, true);
                    return match step {
                        Step::WaitIo => self.instance.block_io(cpu),
                        _ => self.instance.block(cpu),
                    };
                }
                Step::Wake(other) => self.perform_wake(cpu, other, false)?,
                Step::WakeSync(other) => self.perform_wake(cpu, other, true)?,
                Step::Fork(mut setup) => {
                    setup.forked_on = CpuId(cpu as u32);
                    self.fork(&setup)?;
                }
                Step::Change(other, attributes) => self.change(cpu, other, &attributes)?,
                Step::Exit => {
                    task.has_left = true;
                    return self.instance.exit(cpu);
                }
            }
        }
        Ok(())
    }

    /// Returns the next step of the CPU's task; none if the workload cannot go on.
    fn next_step(&mut self, cpu: usize, id: u32) -> Option<Step> {
        loop {
            let task = &mut self.world.tasks[id as usize];
            if let Some(step) = task.steps.pop_front() {
                return Some(step);
            }
            // The timer had expired before the task went to sleep.
            self.world.timer_wakes(id, self.cpus[cpu].interrupted);
            self.world.begins(id, self.world.now);
            self.acting = Acting::Task(id);
            let went = match self.script {
                None => self.run_program(cpu, id),
                Some(_) => self.run_script(cpu, id),
            };
            self.acting = Acting::Nobody;
            if let Err(halt) = went {
                self.fail(halt);
                return None;
            }
            let task = &mut self.world.tasks[id as usize];
            let work = std::mem::take(&mut task.work);
            if work > 0 {
                task.steps.push_back(Step::Run(Duration(work / FULL_SPEED)));
            }
        }
    }

    fn change(&mut self, cpu: usize, task: TaskId, to: &Attributes) -> Result<(), Trouble> {
        let Some(id) = self.slot(task.number()) else { return Ok(()) };
        if let Some(handle) = self.world.tasks[id as usize].handle {
            self.instance.change(handle, cpu, to)?;
            self.follow();
        }
        Ok(())
    }

    fn perform_wake(&mut self, cpu: usize, task: TaskId, sync: bool) -> Result<(), Trouble> {
        let Some(id) = self.slot(task.number()) else { return Ok(()) };
        if let Some(handle) = self.world.tasks[id as usize].take_wake() {
            self.instance.wake(handle, cpu, sync)?;
            self.follow();
        }
        Ok(())
    }
}
