// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Finds the context in which a CPU woke a task: a task, a timer or an interrupt.

use torpor_engine::input::CpuInput;
use torpor_engine::timeline::Run;
use torpor_machine::units::{CpuId, Instant};
use torpor_trace::{Carries, Event, EventKind, InterruptCause, UNKNOWN_PID};

/// `TIMER_SOFTIRQ` and `HRTIMER_SOFTIRQ` (`include/linux/interrupt.h`).
const TIMER_SOFTIRQS: [u32; 2] = [1, 8];

/// Context of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waker {
    Task(i32),
    Timer,
    Interrupt,
    /// An unknown interrupt.
    AnyInterrupt,
}

#[derive(Clone, Default)]
struct CpuContext {
    irqs: u32,
    hrtimers: u32,
    timer_interrupts: u32,
    softirq: Option<u32>,
}

/// Follows the interrupts of every CPU.
pub(super) struct Contexts {
    cpus: Vec<CpuContext>,
    tells_timers: bool,
}

impl Contexts {
    pub(super) fn new(cpus: usize, carries: Carries) -> Contexts {
        Contexts { cpus: vec![CpuContext::default(); cpus], tells_timers: carries.hrtimers }
    }

    pub(super) fn observe(&mut self, event: &Event) {
        let Some(cpu) = self.cpus.get_mut(event.cpu.index()) else { return };
        let leave = |depth: &mut u32| *depth = depth.saturating_sub(1);
        match event.kind {
            // Interrupts end before tasks switch and the CPU idles: remaining exits were lost.
            EventKind::SchedSwitch { .. } | EventKind::CpuIdle { .. } => {
                *cpu = CpuContext::default();
            }
            EventKind::IrqEntry { .. } => cpu.irqs += 1,
            EventKind::IrqExit { .. } => leave(&mut cpu.irqs),
            EventKind::InterruptEntry { cause: InterruptCause::LocalTimer } => {
                cpu.timer_interrupts += 1;
            }
            EventKind::InterruptExit { cause: InterruptCause::LocalTimer } => {
                leave(&mut cpu.timer_interrupts);
            }
            EventKind::InterruptEntry { .. } => cpu.irqs += 1,
            EventKind::InterruptExit { .. } => leave(&mut cpu.irqs),
            EventKind::HrtimerExpireEntry { .. } => cpu.hrtimers += 1,
            EventKind::HrtimerExpireExit { .. } => leave(&mut cpu.hrtimers),
            EventKind::SoftirqEntry { vec } => cpu.softirq = Some(vec),
            EventKind::SoftirqExit { .. } => cpu.softirq = None,
            _ => {}
        }
    }

    /// Returns what wakes a task on a CPU that runs this task, interrupted or not.
    pub(super) fn waker(&self, cpu: CpuId, running: Option<Run>) -> Waker {
        let Some(cpu) = self.cpus.get(cpu.index()) else { return Waker::Interrupt };
        let in_timer_softirq = cpu.softirq.is_some_and(|vec| TIMER_SOFTIRQS.contains(&vec));
        if cpu.hrtimers > 0 || cpu.timer_interrupts > 0 || in_timer_softirq {
            return Waker::Timer;
        }
        if cpu.irqs > 0 || cpu.softirq.is_some() {
            return Waker::Interrupt;
        }
        match running.map(|run| run.pid) {
            Some(pid) if pid != 0 && pid != UNKNOWN_PID => Waker::Task(pid),
            _ if self.tells_timers => Waker::Interrupt,
            _ => Waker::AnyInterrupt,
        }
    }
}

/// Returns the time of the event behind an interrupt that an idle CPU handled at `time`: that of
/// the reconstructed wake-up, which is earlier by the exit latency.
pub(super) fn event_time(input: Option<&CpuInput>, time: Instant) -> Instant {
    let Some(input) = input else { return time };
    let behind = input.spans.partition_point(|span| span.start <= time);
    match behind.checked_sub(1).map(|index| input.spans[index]) {
        Some(span) if span.wake <= time => span.wake,
        _ => time,
    }
}
