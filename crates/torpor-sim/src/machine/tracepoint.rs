// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Tracepoints of the kernel: timers, the tick, wake-ups.

use super::{Machine, Sink, trace};
use crate::kernel::{Instance, abi};
use std::collections::HashMap;
use torpor_machine::units::{CpuId, Instant};
use torpor_trace::{EventKind, FunctionId, Timer};

/// Tracepoints that are not reported yet, and numbers of timers and functions by address, in the
/// order of first use.
#[derive(Default)]
pub(super) struct Tracepoints {
    pending: Vec<abi::Event>,
    timers: HashMap<usize, Timer>,
    functions: HashMap<usize, FunctionId>,
}

impl Tracepoints {
    fn timer(&mut self, address: usize) -> Timer {
        let next = trace::kernel_timer(self.timers.len() as u32);
        *self.timers.entry(address).or_insert(next)
    }

    fn function(&mut self, instance: &Instance, address: usize) -> FunctionId {
        let next = trace::other_function(self.functions.len() as u32);
        *self.functions.entry(address).or_insert_with(|| {
            match instance.function(address).as_deref() {
                // Older and newer kernels name the tick's handler differently.
                Some("tick_sched_timer" | "tick_nohz_handler") => trace::function(0),
                Some("hrtimer_wakeup") => trace::function(1),
                _ => next,
            }
        })
    }
}

impl<S: Sink> Machine<'_, S> {
    pub(super) fn take_tracepoints(&mut self) {
        if S::RECORDS {
            self.tracepoints.pending.extend(self.instance.take_traced());
        }
    }

    /// Records the tracepoints of a CPU before this number of its context switches.
    pub(super) fn show_tracepoints(&mut self, cpu: usize, switches: u64) {
        if self.tracepoints.pending.is_empty() {
            return;
        }
        let mut pending = std::mem::take(&mut self.tracepoints.pending);
        pending.retain(|event| {
            let is_next = event.cpu as usize == cpu && event.switches < switches;
            if is_next {
                if let Some(kind) = self.traced(event) {
                    self.emit(cpu, kind);
                }
            }
            !is_next
        });
        self.tracepoints.pending = pending;
    }

    /// Returns the event of a recording; none for a task that has exited.
    fn traced(&mut self, event: &abi::Event) -> Option<EventKind> {
        let target_cpu = CpuId(event.target);
        match event.kind {
            abi::SCHED_WAKING | abi::SCHED_WAKEUP | abi::SCHED_WAKEUP_NEW => {
                self.slot(event.task)?;
                let pid = trace::pid_of(event.task);
                return Some(match event.kind {
                    abi::SCHED_WAKING => EventKind::SchedWaking { pid, target_cpu },
                    abi::SCHED_WAKEUP => EventKind::SchedWakeup { pid, target_cpu },
                    _ => EventKind::SchedWakeupNew { pid, target_cpu },
                });
            }
            abi::TICK_STOP | abi::TICK_KEPT => {
                return Some(EventKind::TickStop { success: event.kind == abi::TICK_STOP });
            }
            _ => {}
        }
        let timer = self.tracepoints.timer(event.timer as usize);
        let [first, second] =
            [event.expires_ns, event.softexpires_ns].map(|ns| Instant(ns as i64).into());
        Some(match event.kind {
            abi::HRTIMER_CANCEL => EventKind::HrtimerCancel { timer },
            abi::HRTIMER_EXPIRE_EXIT => EventKind::HrtimerExpireExit { timer },
            kind => {
                let function = event.function as usize;
                let function = self.tracepoints.function(&self.instance, function);
                match kind {
                    abi::HRTIMER_EXPIRE_ENTRY => {
                        EventKind::HrtimerExpireEntry { timer, function, now: first }
                    }
                    _ => EventKind::HrtimerStart {
                        timer,
                        function,
                        expires: first,
                        softexpires: second,
                    },
                }
            }
        })
    }
}
