// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What tasks and interrupts bring about: channels filled, tasks started, clamps set.

use super::cpu::{Irq, Line};
use super::device::Requests;
use super::task::{Blocked, State};
use super::world::Host;
use crate::error::Halt;
use crate::workload::Effect;
use torpor_units::{Duration, Instant};

pub(super) trait Effects<'a>: Host<'a> {
    /// Puts into a channel, and wakes those whose wish is then fulfilled, in the order they came.
    fn post(&mut self, channel: usize, count: u64, by: usize, event: Instant, sync: bool) {
        self.world().channels[channel].put(count, event);
        loop {
            let world = self.world();
            let state = &mut world.channels[channel];
            let Some(&first) = state.waiters.front() else { return };
            let State::Blocked(Blocked::Channel { count, .. }) = world.tasks[first as usize].state
            else {
                unreachable!("who waits on a channel is blocked on it");
            };
            if state.held < count {
                return;
            }
            state.take(count);
            state.waiters.pop_front();
            self.wake(first, Some(by), event, sync);
        }
    }

    /// Wakes who waits on a channel, the first or all; nothing is kept for others.
    fn notify(&mut self, channel: usize, all: bool, by: usize) {
        let waiting = self.world().channels[channel].waiters.len();
        for _ in 0..if all { waiting } else { waiting.min(1) } {
            let world = self.world();
            let first = world.channels[channel].waiters.pop_front().expect("so many wait");
            let now = world.now;
            self.wake(first, Some(by), now, false);
        }
    }

    /// Starts tasks of a kind, on behalf of CPU `by` or of nobody.
    fn spawn(&mut self, kind: usize, count: u32, by: Option<usize>) -> Result<(), Halt> {
        for _ in 0..count {
            let world = self.world();
            let cpus = world.plan.topology.cpus;
            let near = by.unwrap_or(world.next_instance[kind] as usize % cpus);
            let id = world.new_task(kind)?;
            self.admit(id, by, near);
        }
        Ok(())
    }

    /// A flow took so long: a hint session sets the clamps of its tasks.
    fn hint(&mut self, flow: usize, took: Duration) {
        let world = self.world();
        let Some(hint) = &world.plan.workload.flows[flow].hint else { return };
        let Some(min) = world.sessions[flow].report(took, hint.target) else { return };
        for id in 0..world.tasks.len() as u32 {
            let world = self.world();
            let task = &mut world.tasks[id as usize];
            if task.state != State::Dead && hint.tasks.contains(&task.kind) {
                task.uclamp.min = min.min(task.uclamp.max);
                self.reclamp(id);
            }
        }
    }

    /// The CPU handles an interrupt.
    fn take_interrupt(&mut self, number: usize, irq: Irq) -> Result<(), Halt> {
        match irq.line {
            Line::Device { device } => self.handle_device(number, device),
            Line::Completion { device } => self.handle_completions(number, device),
            Line::Call { task, handling } => {
                let time = self.world().plan.overheads.ipi_handling + handling;
                self.hold_up(number, time);
                if self.world().tasks[task as usize].state == State::Blocked(Blocked::Call) {
                    self.wake(task, Some(number), irq.at, false);
                } else {
                    let at = self.held_until(number);
                    self.world().answer(task, at);
                }
            }
            Line::Source { source, handling } => {
                let plan = self.world().plan;
                self.hold_up(number, plan.overheads.interrupt + handling);
                match plan.workload.interrupts[source].effect {
                    Effect::Nothing => {}
                    Effect::Wake { channel, count } => {
                        self.post(channel, count, number, irq.at, false);
                    }
                    Effect::Spawn { task, count } => self.spawn(task, count, Some(number))?,
                }
            }
        }
        Ok(())
    }
}

impl<'a, H: Host<'a>> Effects<'a> for H {}
