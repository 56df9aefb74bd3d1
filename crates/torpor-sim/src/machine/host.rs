// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Requests of programs, devices and event sources to the kernel.

use super::irq::{Irq, Line};
use super::step::Step;
use super::task::{Blocked, FULL_SPEED, State, TaskId};
use super::{Acting, GONE, Machine, Outside, Sink, trace};
use crate::kernel::{Attributes, TaskSetup};
use crate::workload::attributes::nice_of;
use torpor_machine::units::{CpuId, Duration, Instant};

impl<S: Sink> Machine<'_, S> {
    /// Wakes a task for an event that came at `event`.
    pub(super) fn wake(&mut self, id: u32, event: Instant, sync: bool) {
        self.world.woken(id, event);
        match self.acting {
            Acting::Handler(_) => self.handled.woken.push(id),
            Acting::Task(by) => {
                let task = self.task_id(id);
                let step = if sync { Step::WakeSync(task) } else { Step::Wake(task) };
                self.push_step(by, step);
            }
            Acting::Nobody => unreachable!("tasks are woken by tasks and interrupts"),
        }
    }

    /// Takes a task off its CPU: it waits, or has ended.
    pub(super) fn leave(&mut self, id: u32, state: State) {
        let task = &mut self.world.tasks[id as usize];
        task.state = state;
        let step = match state {
            State::Dead => {
                self.slots[task.number as usize - 1] = GONE;
                self.world.bury(id);
                Step::Exit
            }
            State::Blocked(Blocked::Io(wait)) if wait.in_iowait() => Step::WaitIo,
            _ => Step::Wait,
        };
        self.push_step(id, step);
    }

    pub(super) fn sleep_until(&mut self, id: u32, until: Instant) {
        let task = &mut self.world.tasks[id as usize];
        task.state = State::Blocked(Blocked::Timer);
        task.sleeps_until = until;
        task.steps.push_back(Step::Sleep(until));
    }

    /// Starts a task on `near`, or on an online CPU after it.
    pub(super) fn admit(&mut self, id: u32, near: usize) {
        let near = self.world.plan.topology.online.first_from(near).expect("a CPU is online");
        let task = self.number(id);
        let kind = &self.world.plan.workload.tasks[self.world.tasks[id as usize].kind];
        let setup = Box::new(TaskSetup {
            name: kind.name.clone(),
            number: task.number(),
            forked_on: CpuId(near as u32),
            group: kind.cgroup.map_or(0, |group| group as u32 + 1),
            timer_slack: kind.timer_slack,
            attributes: self.attributes(id),
        });
        match self.acting {
            Acting::Task(by) => self.push_step(by, Step::Fork(setup)),
            Acting::Handler(_) | Acting::Nobody => self.outside.push(Outside::Fork(setup)),
        }
    }

    /// Gives a new task its number.
    pub(super) fn number(&mut self, id: u32) -> TaskId {
        self.slots.push(id);
        let task = &mut self.world.tasks[id as usize];
        task.number = self.slots.len() as u32;
        task.next_stripe = trace::pid_of(task.number).unsigned_abs().into();
        self.task_id(id)
    }

    fn task_id(&self, id: u32) -> TaskId {
        TaskId::of(self.world.tasks[id as usize].number)
    }

    pub(super) fn push_step(&mut self, id: u32, step: Step) {
        self.world.tasks[id as usize].steps.push_back(step);
    }

    pub(super) fn attributes(&self, id: u32) -> Attributes {
        let task = &self.world.tasks[id as usize];
        let kind = &self.world.plan.workload.tasks[task.kind];
        let uclamp = (task.uclamp.min.into(), task.uclamp.max.into());
        if let Some(changed) = &task.changed {
            return Attributes { uclamp, ..**changed };
        }
        Attributes {
            policy: kind.policy,
            nice: nice_of(kind.weight),
            uclamp,
            slice: kind.slice,
            affinity: kind.cpus.iter().flatten().copied().collect(),
        }
    }

    /// An interrupt comes to a CPU.
    pub(super) fn interrupt(&mut self, number: usize, line: Line) {
        let number = self.online_instead(number);
        let at = self.world.now;
        self.cpus[number].irqs.push_back(Irq { at, line });
        self.outside.push(Outside::Interrupt(number));
    }

    /// Returns the CPU to which the kernel has moved the interrupts of an offline one: the next.
    fn online_instead(&self, number: usize) -> usize {
        let count = self.instance.cpu_count();
        let is_online = |cpu: &usize| self.instance.cpu(*cpu).is_offline == 0;
        let mut after = (number..count).chain(0..number.min(count));
        after.find(is_online).unwrap_or(number)
    }

    /// Whether a CPU has an interrupt to handle.
    pub(super) fn has_interrupts(&self) -> bool {
        self.cpus.iter().any(|cpu| !cpu.irqs.is_empty())
    }

    /// A handler takes this long on the biggest CPU at its highest frequency.
    pub(super) fn hold_up(&mut self, length: Duration) {
        match self.acting {
            Acting::Handler(_) => self.handled.time += length,
            _ => unreachable!("only handlers delay a CPU"),
        }
    }

    /// Returns when the handler that a CPU runs has done what it has by now.
    pub(super) fn held_until(&self, number: usize) -> Instant {
        let Acting::Handler(cpu) = self.acting else { return self.world.now };
        assert_eq!(number, cpu, "a handler runs on its own CPU");
        let domain = &self.domains[self.cpus[number].cluster];
        let alone = domain.speed(self.cpus[number].model.capacity);
        let works = |other: usize| self.cpus[other].task != 0;
        let speed = i128::from(self.world.plan.topology.shared_speed(number, alone, works));
        let time = i128::from(self.handled.time.0) * i128::from(FULL_SPEED) / speed;
        self.world.now + Duration(time as i64)
    }

    /// Whether the kernel has steps to perform before the program continues.
    pub(super) fn stops(&self, id: u32) -> bool {
        !self.world.tasks[id as usize].steps.is_empty()
    }

    /// A task's `uclamp_min` has changed.
    pub(super) fn reclamp(&mut self, id: u32) {
        let change = Step::Change(self.task_id(id), self.attributes(id));
        match self.acting {
            Acting::Task(by) => self.push_step(by, change),
            _ => unreachable!("flows end in tasks"),
        }
    }

    /// Ends the busy-wait of a task.
    pub(super) fn release(&mut self, id: u32) {
        let task = self.task_id(id);
        self.outside.push(Outside::Release(task));
    }
}
