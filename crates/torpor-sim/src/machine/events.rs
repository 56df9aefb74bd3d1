// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Sources of events in the workload. Each has one entry in the queue.

use super::queue::Who;
use super::{Machine, Sink};
use crate::error::Halt;

/// A kind of event source. Events of the start that are due at the same time come in this order.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// Interrupts of the workload.
    Interrupt,
    /// Initial tasks of a kind.
    Start,
    Device,
    /// Calls of functions on other CPUs; one source for all.
    Call,
    /// Changes of the workload's timeline.
    Change,
}

const SOURCES: [Source; 5] =
    [Source::Interrupt, Source::Start, Source::Device, Source::Call, Source::Change];

impl Source {
    /// Returns the owner of a source's entry in the queue.
    #[inline]
    pub(super) fn nth(self, index: usize) -> Who {
        Who { kind: self as u8, index: index as u32 }
    }
}

impl<S: Sink> Machine<'_, S> {
    pub(super) fn start_sources(&mut self) {
        (0..self.world.plan.workload.interrupts.len()).for_each(|index| self.arm_source(index));
        (0..self.world.plan.workload.tasks.len()).for_each(|kind| self.arm_start(kind));
        (0..self.world.plan.workload.changes.len()).for_each(|index| self.arm_change(index));
    }

    /// Handles what is due, and re-arms or removes its source.
    pub(super) fn happen(&mut self, who: Who) -> Result<(), Halt> {
        let index = who.index as usize;
        match SOURCES[usize::from(who.kind)] {
            Source::Interrupt => self.source_fires(index),
            Source::Start => self.start_next(index),
            Source::Device => self.device_due(index),
            Source::Call => self.call_due(),
            Source::Change => {
                self.change_due(index);
                Ok(())
            }
        }
    }
}
