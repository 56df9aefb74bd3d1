// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Calls of a function on another CPU, for whose end the caller waits: in a loop, as
//! `smp_call_function_single()` does, or asleep.
//!
//! FIDELITY(sim-call): the caller spins as a task that can be preempted.

use super::events::Source;
use super::irq::Line;
use super::world::World;
use super::{Machine, Sink};
use crate::error::Halt;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use torpor_machine::units::{Duration, Instant};

/// Work of a busy-wait, which no run completes; it ends with the answer.
pub(super) const SPIN: i64 = i64::MAX / 2;

/// Continuation of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The IPI arrives.
    Arrives { task: u32, cpu: u32, handling: Duration },
    /// The function has run, and its caller sees it.
    Answered { task: u32 },
}

/// Calls under way.
#[derive(Default)]
pub(super) struct CallState {
    due: BinaryHeap<Reverse<(Instant, u64, Due)>>,
    sequence: u64,
}

impl<S: Sink> Machine<'_, S> {
    /// The next step of a call is due.
    pub(super) fn call_due(&mut self) -> Result<(), Halt> {
        let world = &mut self.world;
        let Reverse((.., due)) = world.calls.due.pop().expect("a call is due");
        world.plan_calls();
        match due {
            Due::Arrives { task, cpu, handling } => {
                self.interrupt(cpu as usize, Line::Call { task, handling });
            }
            Due::Answered { task } => self.release(task),
        }
        Ok(())
    }
}

impl World<'_> {
    /// The task's CPU sends an IPI to another.
    pub(super) fn call(&mut self, task: u32, cpu: usize, handling: Duration) {
        let at = self.now + self.plan.overheads.ipi_delivery;
        self.push_call(at, Due::Arrives { task, cpu: cpu as u32, handling });
    }

    /// The function will have run at `at`.
    pub(super) fn answer(&mut self, task: u32, at: Instant) {
        self.push_call(at.max(self.now), Due::Answered { task });
    }

    fn push_call(&mut self, at: Instant, due: Due) {
        self.calls.sequence += 1;
        let sequence = self.calls.sequence;
        self.calls.due.push(Reverse((at, sequence, due)));
        self.plan_calls();
    }

    fn plan_calls(&mut self) {
        let at = self.calls.due.peek().map_or(Instant::NEVER, |Reverse((at, ..))| *at);
        self.queue.set(Source::Call.nth(0), at);
    }
}
