// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Who makes something happen of itself. Each kind of event source is a file of its own, which
//! implements [`EventSource`], and a word in the list below; nothing else tells them apart.

use super::{Machine, Plan};
use crate::error::Halt;
use crate::machine::Sink;
use crate::queue::Who;
use torpor_engine::policy::Policy;

use super::call::Calls;
use super::cpu::Cpus;
use super::device::Devices;
use super::freq::Clocks;
use super::heat::Zones;
use super::sources::{Interrupts, Starts};

/// Things of one kind, each with one entry on the agenda.
pub(super) trait EventSource<M> {
    /// How many there are in a run.
    fn count(plan: &Plan<'_>) -> usize;

    /// At the beginning; sets when the first thing happens.
    fn start(machine: &mut M, index: usize) -> Result<(), Halt>;

    /// The time that was set has come. Whatever happens next is set here, or taken off.
    fn happen(machine: &mut M, index: usize) -> Result<(), Halt>;
}

/// Has a place in the list of sources.
pub(super) trait Listed {
    const KIND: u8;

    /// Whom the agenda knows.
    #[inline]
    fn nth(index: usize) -> Who {
        Who { kind: Self::KIND, index: index as u32 }
    }
}

macro_rules! event_sources {
    ($($source:ident),+) => {
        enum Kind { $($source),+ }

        $(impl Listed for $source {
            const KIND: u8 = Kind::$source as u8;
        })+

        /// How many there are of each kind.
        pub(super) fn counts<'a, P: Policy, S: Sink>(plan: &Plan<'a>) -> Vec<usize> {
            vec![$(<$source as EventSource<Machine<'a, P, S>>>::count(plan)),+]
        }

        impl<P: Policy, S: Sink> Machine<'_, P, S> {
            /// In the order of the list, which orders what happens at once at the beginning.
            pub(super) fn start_sources(&mut self) -> Result<(), Halt> {
                $(for index in 0..<$source as EventSource<Self>>::count(self.world.plan) {
                    <$source as EventSource<Self>>::start(self, index)?;
                })+
                Ok(())
            }

            #[inline]
            pub(super) fn happen(&mut self, who: Who) -> Result<(), Halt> {
                let index = who.index as usize;
                match who.kind {
                    $($source::KIND => <$source as EventSource<Self>>::happen(self, index),)+
                    kind => unreachable!("there is no event source {kind}"),
                }
            }
        }
    };
}

/// How many there are of each kind that a workload has whoever schedules it.
pub(super) fn shared_counts(plan: &Plan<'_>) -> Vec<usize> {
    let mut counts = vec![0; usize::from(Calls::KIND) + 1];
    counts[usize::from(Interrupts::KIND)] = plan.workload.interrupts.len();
    counts[usize::from(Starts::KIND)] = plan.workload.tasks.len();
    counts[usize::from(Devices::KIND)] = plan.devices.len();
    counts[usize::from(Calls::KIND)] = super::call::sources(plan);
    counts
}

event_sources![Interrupts, Starts, Cpus, Devices, Clocks, Calls, Zones];
