// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The IO boost of a run. Placement asks it in the middle of an event, so what has failed answers
//! 0 until the event is over; then the run ends with the fault.

use super::task::State;
use torpor_governor::{Fault, Flags, IoBoostInstance};
use torpor_units::Instant;

/// Why a task comes onto a CPU's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    New,
    WakeUp,
    /// From another CPU, while it was runnable.
    Move,
}

/// None, for a run without.
#[derive(Default)]
pub(super) struct Boost {
    instance: Option<IoBoostInstance>,
    /// Whether placement has to ask it at all, and schedutil.
    pub counts_in_placement: bool,
    pub raises_frequency: bool,
}

impl From<IoBoostInstance> for Boost {
    fn from(instance: IoBoostInstance) -> Boost {
        Boost {
            counts_in_placement: instance.counts_in_placement(),
            raises_frequency: instance.raises_frequency(),
            instance: Some(instance),
        }
    }
}

impl Boost {
    /// There is a new task of this number.
    pub(super) fn begin(&mut self, task: u32, uclamp_max: u16) {
        if let Some(boost) = &mut self.instance {
            boost.reset_task(task as usize);
            boost.set_uclamp_max(task as usize, uclamp_max.into());
        }
    }

    #[inline]
    pub(super) fn enqueue(
        &mut self,
        cpu: usize,
        task: u32,
        now: Instant,
        arrival: Arrival,
        in_iowait: bool,
    ) {
        if let Some(boost) = &mut self.instance {
            let wakeup = Flags::WAKEUP.when(arrival == Arrival::WakeUp);
            let flags = Flags::IOWAIT.when(in_iowait) | wakeup;
            let _ = boost.enqueue(cpu, task as usize, now, flags);
        }
    }

    /// A task leaves that is in `state` then.
    #[inline]
    pub(super) fn dequeue(
        &mut self,
        cpu: usize,
        task: u32,
        now: Instant,
        state: State,
        in_iowait: bool,
    ) {
        if let Some(boost) = &mut self.instance {
            let sleep = Flags::SLEEP.when(state != State::Runnable);
            let flags = Flags::IOWAIT.when(in_iowait) | sleep;
            let _ = boost.dequeue(cpu, task as usize, now, flags);
        }
    }

    #[inline]
    pub(super) fn update(&mut self, cpu: usize, now: Instant, is_iowait: bool) {
        if let Some(boost) = &mut self.instance {
            let _ = boost.update(cpu, now, Flags::IOWAIT.when(is_iowait));
        }
    }

    #[inline]
    pub(super) fn cpu_boost(&mut self, cpu: usize, now: Instant, capacity: u64) -> u64 {
        self.instance.as_mut().map_or(0, |b| b.cpu_boost(cpu, now, capacity).unwrap_or(0).into())
    }

    #[inline]
    pub(super) fn task_boost(&self, task: u32) -> u64 {
        self.instance.as_ref().map_or(0, |b| b.task_boost(task as usize).unwrap_or(0).into())
    }

    #[inline]
    pub(super) fn task_uclamp_min(&self, task: u32) -> u16 {
        let answer = |b: &IoBoostInstance| b.task_uclamp_min(task as usize).unwrap_or(0);
        self.instance.as_ref().map_or(0, |b| answer(b) as u16)
    }

    #[inline]
    pub(super) fn rq_boost(&self, cpu: usize) -> u64 {
        self.instance.as_ref().map_or(0, |b| b.rq_boost(cpu).unwrap_or(0).into())
    }

    #[inline]
    pub(super) fn perf_min(&self, cpu: usize) -> u64 {
        self.instance.as_ref().map_or(0, |b| b.perf_min(cpu).unwrap_or(0).into())
    }

    #[inline]
    pub(super) fn fault(&self) -> Option<&Fault> {
        self.instance.as_ref()?.fault()
    }
}
