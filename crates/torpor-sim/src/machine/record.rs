// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What the kernel's tracepoints would have reported of a run. Only a sink that records gets here.

use super::cpu::Timer;
use super::schedule::Leaver;
use super::{Machine, Sink, trace};
use torpor_engine::idle_loop::Pending;
use torpor_engine::model::Verdict;
use torpor_engine::policy::Policy;
use torpor_trace::{EventKind, Function, InterruptCause, PrevState};
use torpor_units::Instant;

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    fn timer_function(&self, which: usize) -> Function {
        trace::function(self.world.plan.workload.tasks.len(), which)
    }

    fn emit(&mut self, cpu: usize, kind: EventKind) {
        self.sink.event(self.world.now, cpu, kind);
    }

    pub(super) fn record_entry(&mut self, cpu: usize, pending: &Pending) {
        if self.cpus[cpu].idle.stopped_tick(pending) {
            self.emit(cpu, EventKind::HrtimerCancel { timer: trace::tick_timer(cpu) });
            self.emit(cpu, EventKind::TickStop { success: true });
        }
        let state = trace::state(pending.state());
        self.emit(cpu, EventKind::CpuIdle { state });
    }

    pub(super) fn record_exit(&mut self, cpu: usize, pending: &Pending) {
        let residency = pending.sleep.resume.since(pending.from);
        let verdict = self.world.plan.models[cpu].verdict(pending.state(), residency);
        self.emit(cpu, EventKind::CpuIdle { state: trace::state_none() });
        if verdict != Verdict::Fit && !pending.is_rejected() {
            let state = trace::state(pending.state());
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
        let cluster = self.world.plan.topology.cluster_of[cpu].0;
        if let Some(freq_khz) = self.domains[cluster].freq_khz() {
            self.emit(cpu, EventKind::CpuFrequency { freq_khz });
        }
    }

    /// The tick's handler, and the timer set again.
    pub(super) fn record_tick(&mut self, cpu: usize) {
        let symbols = self.world.plan.workload.tasks.len();
        let next = self.world.plan.models[cpu].tick.next(self.world.now);
        for kind in trace::tick(symbols, cpu, self.world.now, next) {
            self.emit(cpu, kind);
        }
    }

    /// The tick is needed again.
    pub(super) fn record_tick_start(&mut self, cpu: usize) {
        let (timer, function) = (trace::tick_timer(cpu), self.timer_function(0));
        let expires = self.cpus[cpu].tick;
        let start = EventKind::HrtimerStart { timer, function, expires, softexpires: expires };
        self.emit(cpu, start);
    }

    pub(super) fn record_timer_start(&mut self, cpu: usize, started: &Timer) {
        let Timer { expires, softexpires, task, .. } = *started;
        let pid = self.world.tasks[task as usize].pid;
        let symbols = self.world.plan.workload.tasks.len();
        self.emit(cpu, trace::timer_start(symbols, pid, expires, softexpires));
    }

    pub(super) fn record_timer_expiry(&mut self, cpu: usize, task: u32) {
        let (timer, function) = (self.task_timer(task), self.timer_function(1));
        self.emit(cpu, EventKind::HrtimerExpireEntry { timer, function, now: self.world.now });
    }

    pub(super) fn record_timer_handled(&mut self, cpu: usize, task: u32) {
        let timer = self.task_timer(task);
        self.emit(cpu, EventKind::HrtimerExpireExit { timer });
    }

    pub(super) fn record_watchdog(&mut self, cpu: usize, expires: Instant) {
        let (timer, function) = (trace::watchdog_timer(cpu), self.timer_function(2));
        self.emit(cpu, EventKind::HrtimerExpireEntry { timer, function, now: self.world.now });
        self.emit(cpu, EventKind::HrtimerExpireExit { timer });
        let start = EventKind::HrtimerStart { timer, function, expires, softexpires: expires };
        self.emit(cpu, start);
    }

    fn task_timer(&self, task: u32) -> u64 {
        trace::task_timer(self.world.tasks[task as usize].pid)
    }

    /// The kernel writes `sched_waking` before it selects a CPU: it names the task's last one.
    pub(super) fn record_waking(&mut self, by: usize, task: u32) {
        let task = &self.world.tasks[task as usize];
        let (pid, target_cpu) = (task.pid, torpor_units::CpuId(task.cpu as u32));
        self.emit(by, EventKind::SchedWaking { pid, target_cpu });
    }

    pub(super) fn record_wakeup(&mut self, by: usize, task: u32, target: usize) {
        let pid = self.world.tasks[task as usize].pid;
        let target_cpu = torpor_units::CpuId(target as u32);
        self.emit(by, EventKind::SchedWakeup { pid, target_cpu });
    }

    pub(super) fn record_wakeup_new(&mut self, by: usize, task: u32, target: usize) {
        let pid = self.world.tasks[task as usize].pid;
        let target_cpu = torpor_units::CpuId(target as u32);
        self.emit(by, EventKind::SchedWakeupNew { pid, target_cpu });
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
                let task = &self.world.tasks[next as usize];
                (task.pid, Some(trace::name_of(task.kind)))
            }
            None => (0, None),
        };
        let switch = EventKind::SchedSwitch { prev_pid, prev_state, next_pid, next_comm };
        self.emit(cpu, switch);
    }
}
