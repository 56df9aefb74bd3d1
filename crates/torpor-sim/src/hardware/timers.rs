// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Tracepoints of the kernel: timers, the tick, wake-ups.

use super::Sim;
use super::TaskId;
use super::work::{Seen, Work};
use crate::kernel::{Instance, abi};
use std::collections::HashMap;
use torpor_machine::units::{CpuId, Instant};

/// A timer of the kernel, by the order in which they were first heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId(pub u32);

/// Function of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerFunction {
    Tick,
    /// It wakes a task.
    Wakeup,
    /// Another, by the order in which they were first heard of.
    Other(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traced {
    Start {
        timer: TimerId,
        function: TimerFunction,
        expires: Instant,
        softexpires: Instant,
    },
    Cancel {
        timer: TimerId,
    },
    ExpireEntry {
        timer: TimerId,
        function: TimerFunction,
        now: Instant,
    },
    ExpireExit {
        timer: TimerId,
    },
    /// The tick is stopped, or is not to be.
    TickStop {
        success: bool,
    },
    /// A task is about to be woken; `target` is the CPU where it ran last.
    Waking {
        task: TaskId,
        target: CpuId,
    },
    /// A task is on the runqueue of `target`.
    Wakeup {
        task: TaskId,
        target: CpuId,
        is_new: bool,
    },
}

/// Timers that are known and not yet shown, and names known by address.
#[derive(Default)]
pub(super) struct Timers {
    told: Vec<abi::Event>,
    ids: HashMap<usize, TimerId>,
    functions: HashMap<usize, TimerFunction>,
}

impl Timers {
    fn event(&mut self, instance: &Instance, told: &abi::Event) -> Traced {
        match told.kind {
            abi::SCHED_WAKING | abi::SCHED_WAKEUP | abi::SCHED_WAKEUP_NEW => {
                let (task, target) = (TaskId(told.task as usize - 1), CpuId(told.target));
                let is_new = told.kind == abi::SCHED_WAKEUP_NEW;
                return match told.kind {
                    abi::SCHED_WAKING => Traced::Waking { task, target },
                    _ => Traced::Wakeup { task, target, is_new },
                };
            }
            _ => {}
        }
        if matches!(told.kind, abi::TICK_STOP | abi::TICK_KEPT) {
            return Traced::TickStop { success: told.kind == abi::TICK_STOP };
        }
        let next = TimerId(self.ids.len() as u32);
        let timer = *self.ids.entry(told.timer as usize).or_insert(next);
        let [first, second] = [told.expires_ns, told.softexpires_ns].map(|ns| Instant(ns as i64));
        match told.kind {
            abi::HRTIMER_CANCEL => Traced::Cancel { timer },
            abi::HRTIMER_EXPIRE_EXIT => Traced::ExpireExit { timer },
            kind => {
                let function = self.function(instance, told.function as usize);
                match kind {
                    abi::HRTIMER_EXPIRE_ENTRY => {
                        Traced::ExpireEntry { timer, function, now: first }
                    }
                    _ => Traced::Start { timer, function, expires: first, softexpires: second },
                }
            }
        }
    }

    fn function(&mut self, instance: &Instance, address: usize) -> TimerFunction {
        let next = TimerFunction::Other(self.functions.len() as u32);
        *self.functions.entry(address).or_insert_with(|| {
            match instance.function(address).as_deref() {
                // The tick's name of old, and its present one.
                Some("tick_sched_timer" | "tick_nohz_handler") => TimerFunction::Tick,
                Some("hrtimer_wakeup") => TimerFunction::Wakeup,
                _ => next,
            }
        })
    }
}

impl<W: Work> Sim<W> {
    pub(super) fn take_timers(&mut self) {
        if self.machine.records {
            self.timers.told.extend(self.instance.take_traced());
        }
    }

    /// Shows what happened to a CPU's timers before so many of its switches.
    pub(super) fn show_timers(&mut self, cpu: usize, switches: u64) {
        if self.timers.told.is_empty() {
            return;
        }
        let mut told = std::mem::take(&mut self.timers.told);
        told.retain(|told| {
            let is_next = told.cpu as usize == cpu && told.switches < switches;
            if is_next {
                let event = self.timers.event(&self.instance, told);
                self.work.watch(cpu, self.now, Seen::Traced(event));
            }
            !is_next
        });
        self.timers.told = told;
    }
}
