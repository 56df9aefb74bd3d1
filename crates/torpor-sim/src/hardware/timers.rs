// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Tracepoints of the kernel: timers, the tick, wake-ups.

use super::Sim;
use super::TaskId;
use super::work::{Seen, Work};
use crate::kernel::{Instance, abi};
use std::collections::HashMap;
use torpor_machine::units::{CpuId, Instant};

/// A timer of the kernel, numbered in the order of first use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId(pub u32);

/// Function of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerFunction {
    Tick,
    /// It wakes a task.
    Wakeup,
    /// Another function, numbered in the order of first use.
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
    /// The tick is stopped, or kept.
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

/// Tracepoints that are not reported yet, and numbers of timers and functions by address.
#[derive(Default)]
pub(super) struct Timers {
    pending: Vec<abi::Event>,
    ids: HashMap<usize, TimerId>,
    functions: HashMap<usize, TimerFunction>,
}

impl Timers {
    fn traced(&mut self, instance: &Instance, event: &abi::Event) -> Traced {
        match event.kind {
            abi::SCHED_WAKING | abi::SCHED_WAKEUP | abi::SCHED_WAKEUP_NEW => {
                let (task, target) = (TaskId(event.task as usize - 1), CpuId(event.target));
                let is_new = event.kind == abi::SCHED_WAKEUP_NEW;
                return match event.kind {
                    abi::SCHED_WAKING => Traced::Waking { task, target },
                    _ => Traced::Wakeup { task, target, is_new },
                };
            }
            _ => {}
        }
        if matches!(event.kind, abi::TICK_STOP | abi::TICK_KEPT) {
            return Traced::TickStop { success: event.kind == abi::TICK_STOP };
        }
        let next = TimerId(self.ids.len() as u32);
        let timer = *self.ids.entry(event.timer as usize).or_insert(next);
        let [first, second] = [event.expires_ns, event.softexpires_ns].map(|ns| Instant(ns as i64));
        match event.kind {
            abi::HRTIMER_CANCEL => Traced::Cancel { timer },
            abi::HRTIMER_EXPIRE_EXIT => Traced::ExpireExit { timer },
            kind => {
                let function = self.function(instance, event.function as usize);
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
                // Older and newer kernels name the tick's handler differently.
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
            self.timers.pending.extend(self.instance.take_traced());
        }
    }

    /// Reports the tracepoints of a CPU before this number of its context switches.
    pub(super) fn show_timers(&mut self, cpu: usize, switches: u64) {
        if self.timers.pending.is_empty() {
            return;
        }
        let mut pending = std::mem::take(&mut self.timers.pending);
        pending.retain(|event| {
            let is_next = event.cpu as usize == cpu && event.switches < switches;
            if is_next {
                let traced = self.timers.traced(&self.instance, event);
                self.work.watch(cpu, self.now, Seen::Traced(traced));
            }
            !is_next
        });
        self.timers.pending = pending;
    }
}
