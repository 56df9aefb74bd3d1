// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What programs, devices and event sources ask of a hosted kernel.

use super::{Acting, GONE, Hosted, Numbered};
use crate::error::Halt;
use crate::machine::Sink;
use crate::machine::cpu::{Irq, Line};
use crate::machine::task::{Blocked, FULL_SPEED, State};
use crate::machine::world::{Host, World};
use std::collections::VecDeque;
use torpor_kernel::{Outside, Step, TaskId};
use torpor_units::{Duration, Instant};

impl<'a, S: Sink> Host<'a> for Hosted<'a, S> {
    fn world(&mut self) -> &mut World<'a> {
        &mut self.world
    }

    fn wake(&mut self, id: u32, _: Option<usize>, event: Instant, sync: bool) {
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

    fn leave(&mut self, _: usize, id: u32, state: State) -> Result<(), Halt> {
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
        Ok(())
    }

    fn sleep_until(&mut self, _: usize, id: u32, until: Instant) -> Result<(), Halt> {
        let task = &mut self.world.tasks[id as usize];
        task.state = State::Blocked(Blocked::Timer);
        let numbered = &mut self.numbered[self.number_of[id as usize] as usize];
        numbered.sleeps_until = until;
        numbered.steps.push_back(Step::Sleep(until));
        Ok(())
    }

    fn admit(&mut self, id: u32, _: Option<usize>, near: usize) {
        let online = &self.world.plan.topology.online;
        let near = (0..self.cpus.len())
            .map(|step| (near + step) % self.cpus.len())
            .find(|cpu| online.contains(*cpu))
            .expect("a CPU is online");
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

    fn interrupt(&mut self, number: usize, line: Line) -> Result<(), Halt> {
        let at = self.world.now;
        self.cpus[number].irqs.push_back(Irq { at, line });
        self.outside.push(Outside::Interrupt(number));
        Ok(())
    }

    fn has_interrupts(&self) -> bool {
        self.cpus.iter().any(|cpu| !cpu.irqs.is_empty())
    }

    fn hold_up(&mut self, _: usize, length: Duration) {
        match &mut self.acting {
            Acting::Handler { handled, .. } => handled.time += length,
            _ => unreachable!("tasks hold nothing up"),
        }
    }

    fn held_until(&self, number: usize) -> Instant {
        let Acting::Handler { cpu, handled } = &self.acting else { return self.world.now };
        assert_eq!(number, *cpu, "a handler asks of its own CPU");
        let domain = &self.domains[self.cpus[number].cluster];
        let alone = domain.speed(self.cpus[number].model.capacity);
        let works = |other: usize| self.cpus[other].task.is_some();
        let speed = i128::from(self.world.plan.topology.shared_speed(number, alone, works));
        let time = i128::from(handled.time.0) * i128::from(FULL_SPEED) / speed;
        self.world.now + Duration(time as i64)
    }

    /// What it does to the kernel is done first.
    fn stops(&self, _: usize, id: u32) -> bool {
        let number = self.number_of[id as usize] as usize;
        !self.numbered[number].steps.is_empty()
    }

    fn reclamp(&mut self, id: u32) {
        let task = TaskId(self.number_of[id as usize] as usize);
        let change = Step::Change(task, self.attributes(id));
        match &self.acting {
            Acting::Task(number) => self.numbered[*number].steps.push_back(change),
            _ => unreachable!("flows end in tasks"),
        }
    }

    fn release(&mut self, id: u32) -> Result<(), Halt> {
        let task = TaskId(self.number_of[id as usize] as usize);
        self.outside.push(Outside::Release(task));
        Ok(())
    }
}
