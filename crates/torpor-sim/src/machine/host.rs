// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Requests of programs, devices and event sources to the kernel.

use super::irq::{Irq, Line};
use super::task::{Blocked, FULL_SPEED, State};
use super::{Acting, GONE, Machine, Numbered, Sink};
use crate::hardware::{Outside, Step, TaskId};
use std::collections::VecDeque;
use torpor_machine::units::{Duration, Instant};

impl<S: Sink> Machine<'_, S> {
    /// Wakes a task for an event that came at `event`.
    pub(super) fn wake(&mut self, id: u32, event: Instant, sync: bool) {
        self.world.woken(id, event);
        let task = TaskId(self.number_of[id as usize] as usize);
        match &mut self.acting {
            Acting::Handler { handled, .. } => handled.woken.push(task),
            Acting::Task(number) => {
                let step = if sync { Step::WakeSync(task) } else { Step::Wake(task) };
                self.numbered[*number].steps.push_back(step);
            }
            Acting::Nobody => unreachable!("tasks are woken by tasks and interrupts"),
        }
    }

    /// Takes a task off its CPU: it waits, or has ended.
    pub(super) fn leave(&mut self, id: u32, state: State) {
        let number = self.number_of[id as usize] as usize;
        self.world.tasks[id as usize].state = state;
        let step = match state {
            State::Dead => {
                self.world.bury(id);
                self.numbered[number].id = GONE;
                Step::Exit
            }
            State::Blocked(Blocked::Io(wait)) if wait.in_iowait() => Step::WaitIo,
            _ => Step::Wait,
        };
        self.numbered[number].steps.push_back(step);
    }

    pub(super) fn sleep_until(&mut self, id: u32, until: Instant) {
        let task = &mut self.world.tasks[id as usize];
        task.state = State::Blocked(Blocked::Timer);
        let numbered = &mut self.numbered[self.number_of[id as usize] as usize];
        numbered.sleeps_until = until;
        numbered.steps.push_back(Step::Sleep(until));
    }

    /// Starts a task on `near`, or on an online CPU after it.
    pub(super) fn admit(&mut self, id: u32, near: usize) {
        let near = self.world.plan.topology.online.first_from(near).expect("a CPU is online");
        let number = self.numbered.len();
        self.numbered.push(Numbered {
            id,
            steps: VecDeque::new(),
            sleeps_until: Instant(0),
            has_run: false,
        });
        let places = self.number_of.len().max(id as usize + 1);
        self.number_of.resize(places, GONE);
        self.number_of[id as usize] = number as u32;
        let setup = Box::new(self.setup(id, number, near));
        match &mut self.acting {
            Acting::Handler { handled, .. } => handled.outside.push(Outside::Fork(setup)),
            Acting::Task(number) => self.numbered[*number].steps.push_back(Step::Fork(setup)),
            Acting::Nobody => self.outside.push(Outside::Fork(setup)),
        }
    }

    /// An interrupt comes to a CPU.
    pub(super) fn interrupt(&mut self, number: usize, line: Line) {
        let at = self.world.now;
        self.cpus[number].irqs.push_back(Irq { at, line });
        self.outside.push(Outside::Interrupt(number));
    }

    /// Whether a CPU has an interrupt to handle.
    pub(super) fn has_interrupts(&self) -> bool {
        self.cpus.iter().any(|cpu| !cpu.irqs.is_empty())
    }

    /// A handler takes this long on the biggest CPU at its highest frequency.
    pub(super) fn hold_up(&mut self, length: Duration) {
        match &mut self.acting {
            Acting::Handler { handled, .. } => handled.time += length,
            _ => unreachable!("only handlers delay a CPU"),
        }
    }

    /// Returns when the handler that a CPU runs has done what it has by now.
    pub(super) fn held_until(&self, number: usize) -> Instant {
        let Acting::Handler { cpu, handled } = &self.acting else { return self.world.now };
        assert_eq!(number, *cpu, "a handler runs on its own CPU");
        let domain = &self.domains[self.cpus[number].cluster];
        let alone = domain.speed(self.cpus[number].model.capacity);
        let works = |other: usize| self.cpus[other].task.is_some();
        let speed = i128::from(self.world.plan.topology.shared_speed(number, alone, works));
        let time = i128::from(handled.time.0) * i128::from(FULL_SPEED) / speed;
        self.world.now + Duration(time as i64)
    }

    /// Whether the kernel has steps to perform before the program continues.
    pub(super) fn stops(&self, id: u32) -> bool {
        let number = self.number_of[id as usize] as usize;
        !self.numbered[number].steps.is_empty()
    }

    /// A task's `uclamp_min` has changed.
    pub(super) fn reclamp(&mut self, id: u32) {
        let task = TaskId(self.number_of[id as usize] as usize);
        let change = Step::Change(task, self.attributes(id));
        match &self.acting {
            Acting::Task(number) => self.numbered[*number].steps.push_back(change),
            _ => unreachable!("flows end in tasks"),
        }
    }

    /// Ends the busy-wait of a task.
    pub(super) fn release(&mut self, id: u32) {
        let task = TaskId(self.number_of[id as usize] as usize);
        self.outside.push(Outside::Release(task));
    }
}
