// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Effects of tasks and interrupts: channels filled, tasks started, clamps set.

use super::irq::{Irq, Line};
use super::task::{Blocked, State};
use super::{Machine, Sink};
use crate::error::Halt;
use crate::workload::Effect;
use torpor_machine::units::{CpuId, Duration, Instant};

impl<'a, S: Sink> Machine<'a, S> {
    /// Puts into a channel, and wakes the waiters that it satisfies, in FIFO order.
    pub(super) fn post(&mut self, channel: usize, count: u64, event: Instant, sync: bool) {
        self.world.channels[channel].put(count, event);
        loop {
            let world = &mut self.world;
            let state = &mut world.channels[channel];
            let Some(&first) = state.waiters.front() else { return };
            let State::Blocked(Blocked::Channel { count, .. }) = world.tasks[first as usize].state
            else {
                unreachable!("a waiter is blocked on its channel");
            };
            if state.held < count {
                return;
            }
            state.take(count);
            state.waiters.pop_front();
            self.wake(first, event, sync);
        }
    }

    /// Wakes the first or all waiters of a channel; keeps nothing for later ones.
    pub(super) fn notify(&mut self, channel: usize, all: bool) {
        let waiting = self.world.channels[channel].waiters.len();
        for _ in 0..if all { waiting } else { waiting.min(1) } {
            let world = &mut self.world;
            let first = world.channels[channel].waiters.pop_front().expect("so many wait");
            let now = world.now;
            self.wake(first, now, false);
        }
    }

    /// Starts tasks of a kind, forked on CPU `by` if given.
    pub(super) fn spawn(&mut self, kind: usize, count: u32, by: Option<usize>) -> Result<(), Halt> {
        for _ in 0..count {
            let world = &mut self.world;
            let cpus = world.plan.topology.cpus;
            let parent = world.plan.workload.tasks[kind].parent_cpu.map(CpuId::index);
            let near = by.or(parent).unwrap_or(world.next_instance[kind] as usize % cpus);
            let id = world.new_task(kind)?;
            self.admit(id, near);
        }
        Ok(())
    }

    /// Has a hint session set the clamps of its tasks after a flow that took `took`.
    pub(super) fn hint(&mut self, flow: usize, took: Duration) {
        let world = &mut self.world;
        let Some(hint) = &world.plan.workload.flows[flow].hint else { return };
        let Some(min) = world.sessions[flow].report(took, hint.target) else { return };
        for id in 0..world.tasks.len() as u32 {
            let world = &mut self.world;
            let task = &mut world.tasks[id as usize];
            if task.state != State::Dead && hint.tasks.contains(&task.kind) {
                task.uclamp.min = min.min(task.uclamp.max);
                self.reclamp(id);
            }
        }
    }

    /// The CPU handles an interrupt.
    pub(super) fn take_interrupt(&mut self, number: usize, irq: Irq) -> Result<(), Halt> {
        match irq.line {
            Line::Device { device } => self.handle_device(number, device),
            Line::Completion { device } => self.handle_completions(number, device),
            Line::Call { task, handling } => {
                let time = self.world.plan.overheads.ipi_handling + handling;
                self.hold_up(time);
                if self.world.tasks[task as usize].state == State::Blocked(Blocked::Call) {
                    self.wake(task, irq.at, false);
                } else {
                    let at = self.held_until(number);
                    self.world.answer(task, at);
                }
            }
            Line::Script { task } => {
                self.hold_up(self.hardware.overheads.interrupt);
                self.wake(task, irq.at, false);
            }
            Line::Source { source, handling } => {
                let plan = self.world.plan;
                self.hold_up(plan.overheads.interrupt + handling);
                match plan.workload.interrupts[source].effect {
                    Effect::Nothing => {}
                    Effect::Wake { channel, count } => {
                        self.post(channel, count, irq.at, false);
                    }
                    Effect::Spawn { task, count } => self.spawn(task, count, Some(number))?,
                }
            }
        }
        Ok(())
    }
}
