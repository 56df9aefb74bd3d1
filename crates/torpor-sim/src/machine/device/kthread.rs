// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Threads and workers that complete what the interrupt handler has left to them.

use super::Request;
use crate::machine::program::Next;
use crate::machine::task::{Blocked, State, work_of};
use crate::machine::{Machine, Sink};
use torpor_machine::platform::Completion;
use torpor_machine::units::{Duration, Instant};

impl<S: Sink> Machine<'_, S> {
    /// The handler wakes the CPU's thread, unless that is at work.
    pub(super) fn leave_to_kthread(
        &mut self,
        number: usize,
        device: usize,
        what: (Request, Instant),
    ) {
        let side = &mut self.world.devices[device].by_cpu[number];
        side.left.push_back(what);
        if let Some(thread) = side.sleeper.take() {
            self.wake(thread, what.1, false);
        }
    }

    /// Gives the thread the CPU time of the next request, or puts it to sleep.
    pub(in crate::machine) fn kthread_takes(&mut self, cpu: usize, id: u32, device: usize) -> Next {
        let world = &mut self.world;
        let plan = world.plan;
        let side = &mut world.devices[device].by_cpu[cpu];
        let Some((request, _)) = side.left.front() else {
            (side.sleeper, side.has_slept) = (Some(id), true);
            world.tasks[id as usize].step -= 1;
            self.leave(id, State::Blocked(Blocked::Kthread));
            return Next::Stop;
        };
        let submitter = request.cpu as usize;
        let model = &plan.devices[device];
        let mut time = Duration::ZERO;
        let is_worker = model.completion == Completion::Worker;
        if std::mem::take(&mut side.has_slept) && !is_worker {
            time += model.irq;
        }
        let is_here = is_worker || world.completes_here(cpu, submitter);
        time += if is_here { model.softirq } else { plan.overheads.ipi_send };
        world.tasks[id as usize].work = work_of(time);
        self.compute(id)
    }

    /// A worker completes wherever it runs (`blk_mq_complete_request_direct()`), a thread where the
    /// interrupt would have.
    pub(in crate::machine) fn kthread_completes(&mut self, cpu: usize, device: usize) {
        let world = &mut self.world;
        let left = world.devices[device].by_cpu[cpu].left.pop_front();
        let (request, at) = left.expect("the thread has taken it");
        let submitter = request.cpu as usize;
        let is_worker = world.plan.devices[device].completion == Completion::Worker;
        if is_worker || world.completes_here(cpu, submitter) {
            self.complete(cpu, device, request, at);
        } else {
            self.hand_over(submitter, device, (request, at));
        }
    }
}
