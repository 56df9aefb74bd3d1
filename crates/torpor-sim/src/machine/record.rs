// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What the kernel's tracepoints would have told of a run. Only a sink that records gets here.

use super::cpu::Timer;
use super::schedule::Leaver;
use super::{Machine, Sink};
use torpor_engine::idle_loop::Pending;
use torpor_engine::model::Verdict;
use torpor_engine::policy::Policy;
use torpor_trace::{EventKind, Function, InterruptCause, Name, PrevState};
use torpor_units::{Instant, StateIdx};

/// Names behind those of the tasks.
pub const TIMER_SYMBOLS: [&str; 3] = ["tick_nohz_handler", "hrtimer_wakeup", "watchdog_timer_fn"];

/// Where the functions and timers would lie in a kernel's memory; any place does.
const FUNCTIONS: u64 = 0xffff_ffff_8110_0000;
const TICK_TIMERS: u64 = 0xffff_8880_0000_0000;
const WATCHDOG_TIMERS: u64 = 0xffff_8880_0000_8000;
const TASK_TIMERS: u64 = 0xffff_c900_0000_0000;

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    fn timer_function(&self, which: usize) -> Function {
        let symbol = Name((self.plan.workload.tasks.len() + which) as u32);
        Function { address: FUNCTIONS + 0x100 * which as u64, symbol: Some(symbol) }
    }

    fn emit(&mut self, cpu: usize, kind: EventKind) {
        self.sink.event(self.now, cpu, kind);
    }

    pub(super) fn record_entry(&mut self, cpu: usize, pending: &Pending) {
        if self.cpus[cpu].idle.stopped_tick(pending) {
            self.emit(cpu, EventKind::HrtimerCancel { timer: tick_timer(cpu) });
            self.emit(cpu, EventKind::TickStop { success: true });
        }
        let state = StateIdx(pending.state() as i32);
        self.emit(cpu, EventKind::CpuIdle { state });
    }

    pub(super) fn record_exit(&mut self, cpu: usize, pending: &Pending) {
        let residency = pending.sleep.resume.since(pending.from);
        let verdict = self.plan.models[cpu].verdict(pending.state(), residency);
        self.emit(cpu, EventKind::CpuIdle { state: StateIdx(-1) });
        if verdict != Verdict::Fit {
            let state = StateIdx(pending.state() as i32);
            let below = verdict == Verdict::Below;
            self.emit(cpu, EventKind::CpuIdleMiss { state, below });
        }
        if pending.sleep.got_tick {
            self.record_tick(cpu);
        }
    }

    pub(super) fn record_first_frequencies(&mut self) {
        (0..self.cpus.len()).for_each(|cpu| self.record_frequency(cpu));
    }

    pub(super) fn record_frequency(&mut self, cpu: usize) {
        let cluster = self.plan.topology.cluster_of[cpu].0;
        if let Some(freq_khz) = self.domains[cluster].freq_khz() {
            self.emit(cpu, EventKind::CpuFrequency { freq_khz });
        }
    }

    /// The tick's handler, and the timer set again.
    pub(super) fn record_tick(&mut self, cpu: usize) {
        let (timer, function) = (tick_timer(cpu), self.timer_function(0));
        let grid = self.plan.models[cpu].tick;
        self.emit(cpu, EventKind::HrtimerExpireEntry { timer, function, now: self.now });
        self.emit(cpu, EventKind::HrtimerExpireExit { timer });
        let expires = grid.next(self.now);
        let start = EventKind::HrtimerStart { timer, function, expires, softexpires: expires };
        self.emit(cpu, start);
    }

    /// The tick is needed again.
    pub(super) fn record_tick_start(&mut self, cpu: usize) {
        let (timer, function) = (tick_timer(cpu), self.timer_function(0));
        let expires = self.cpus[cpu].tick;
        let start = EventKind::HrtimerStart { timer, function, expires, softexpires: expires };
        self.emit(cpu, start);
    }

    pub(super) fn record_timer_start(&mut self, cpu: usize, started: &Timer) {
        let Timer { expires, softexpires, task, .. } = *started;
        let (timer, function) = (self.task_timer(task), self.timer_function(1));
        let start = EventKind::HrtimerStart { timer, function, expires, softexpires };
        self.emit(cpu, start);
    }

    pub(super) fn record_timer_expiry(&mut self, cpu: usize, task: u32) {
        let (timer, function) = (self.task_timer(task), self.timer_function(1));
        self.emit(cpu, EventKind::HrtimerExpireEntry { timer, function, now: self.now });
    }

    pub(super) fn record_timer_handled(&mut self, cpu: usize, task: u32) {
        let timer = self.task_timer(task);
        self.emit(cpu, EventKind::HrtimerExpireExit { timer });
    }

    pub(super) fn record_watchdog(&mut self, cpu: usize, expires: Instant) {
        let (timer, function) = (watchdog_timer(cpu), self.timer_function(2));
        self.emit(cpu, EventKind::HrtimerExpireEntry { timer, function, now: self.now });
        self.emit(cpu, EventKind::HrtimerExpireExit { timer });
        let start = EventKind::HrtimerStart { timer, function, expires, softexpires: expires };
        self.emit(cpu, start);
    }

    fn task_timer(&self, task: u32) -> u64 {
        TASK_TIMERS + 0x100 * self.tasks[task as usize].pid as u64
    }

    pub(super) fn record_waking(&mut self, cpu: usize, task: u32, target: usize) {
        let pid = self.tasks[task as usize].pid;
        let target_cpu = torpor_units::CpuId(target as u32);
        self.emit(cpu, EventKind::SchedWaking { pid, target_cpu });
    }

    pub(super) fn record_ipi(&mut self, cpu: usize, target: usize) {
        let target_cpu = torpor_units::CpuId(target as u32);
        self.emit(cpu, EventKind::IpiSend { target_cpu, cause: InterruptCause::Reschedule });
    }

    pub(super) fn record_irq(&mut self, cpu: usize, irq: u32) {
        self.emit(cpu, EventKind::IrqEntry { irq, name: None });
    }

    pub(super) fn record_irq_handled(&mut self, cpu: usize, irq: u32) {
        self.emit(cpu, EventKind::IrqExit { irq });
    }

    /// From one task to another; `None` is the idle task.
    pub(super) fn record_switch(&mut self, cpu: usize, leaver: Leaver, next: Option<u32>) {
        let (prev_pid, prev_state) = leaver.unwrap_or((0, PrevState::Runnable));
        let (next_pid, next_comm) = match next {
            Some(next) => {
                let task = &self.tasks[next as usize];
                (task.pid, Some(Name(task.kind as u32)))
            }
            None => (0, None),
        };
        let switch = EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm };
        self.emit(cpu, switch);
    }
}

fn watchdog_timer(cpu: usize) -> u64 {
    WATCHDOG_TIMERS + 0x1_0000 * cpu as u64
}

fn tick_timer(cpu: usize) -> u64 {
    TICK_TIMERS + 0x1_0000 * cpu as u64
}
