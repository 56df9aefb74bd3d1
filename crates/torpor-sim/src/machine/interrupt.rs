// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Delivery and handling of interrupts.

use super::irq::cause_of;
use super::sleep::{Sleep, Wake};
use super::{Acting, Event, Machine, Sink};
use crate::kernel::Trouble;
use crate::kernel::abi::{IRQ_CALL, IRQ_DEVICE, IRQ_RESCHEDULE, IRQ_TIMER};
use torpor_engine::model::SleepEnd;
use torpor_machine::units::{Duration, Instant};
use torpor_trace::EventKind;

/// Bound of the time that a CPU spends in handlers at once, in ns: about four seconds.
const MOST_HELD_NS: u64 = u32::MAX as u64;

/// What the handlers of devices' interrupts on a CPU have done so far.
#[derive(Default)]
pub(super) struct Handled {
    /// Tasks to wake.
    pub woken: Vec<u32>,
    /// The time that this requires on the biggest CPU at its highest frequency.
    pub time: Duration,
}

impl<S: Sink> Machine<'_, S> {
    /// Raises an interrupt, which an idle CPU handles after it has left its state.
    pub(super) fn raise(&mut self, cpu: usize, bits: u32) -> Result<(), Trouble> {
        let now = self.world.now;
        // A device's handler runs with interrupts off: all others wait for its end. A timer that did
        // not would expire, by this CPU's clock, what is due until then, and wake it too early.
        let handles_until = self.cpus[cpu].handles_until;
        if handles_until > now {
            self.world.queue.push(handles_until, cpu, Event::Ipi(bits));
            return Ok(());
        }
        self.instance.cpu_mut(cpu).raised |= bits;
        let Some(sleep) = &mut self.cpus[cpu].asleep else { return self.handle_raised(cpu) };
        if sleep.event.is_some() {
            return Ok(());
        }
        sleep.event = Some(now);
        sleep.is_resched = bits & IRQ_RESCHEDULE != 0;
        let sleep = *sleep;
        let at = self.awake_at(cpu, &sleep);
        self.world.queue.push(at, cpu, Event::Awake(sleep.number));
        Ok(())
    }

    /// Returns when a CPU that is interrupted now is out of its state.
    fn awake_at(&mut self, cpu: usize, sleep: &Sleep) -> Instant {
        let now = self.world.now;
        let (state, since) = sleep.in_hardware();
        let states = &self.hardware.clusters[self.cpus[cpu].cluster].states;
        match states.get(state) {
            _ if sleep.is_rejected => now.max(since).max(Instant(sleep.poll_until_ns as i64)),
            Some(of_state) if !sleep.polls() => {
                let mean = (of_state.entry_latency, of_state.exit_latency);
                let latencies = self.latencies.as_mut();
                let (entry, exit) = latencies.map_or(mean, |all| all.draw(cpu, state, mean));
                let leaves = now.max(since + entry - sleep.entry_saved);
                let shared = match &mut self.last_man {
                    Some(all) => all.leave(cpu, leaves) - all.shared_exit(cpu, state),
                    None => Duration::ZERO,
                };
                leaves + (exit + shared).max(Duration::ZERO)
            }
            _ => now.max(since),
        }
    }

    /// Has the kernel handle the raised interrupts of a CPU.
    pub(super) fn handle_raised(&mut self, cpu: usize) -> Result<(), Trouble> {
        self.account(cpu);
        let event = self.cpus[cpu].asleep.as_ref().and_then(|sleep| sleep.event);
        self.cpus[cpu].interrupted = event.unwrap_or(self.world.now);
        let raised = self.instance.cpu(cpu).raised;
        let has_device = raised & IRQ_DEVICE != 0;
        let mut held = if has_device { self.handle_devices(cpu)? } else { Duration::ZERO };
        let overheads = self.hardware.overheads;
        if raised & IRQ_TIMER != 0 {
            held += overheads.interrupt;
        }
        if raised & (IRQ_RESCHEDULE | IRQ_CALL) != 0 {
            held += overheads.ipi_handling;
        }
        let mut held_ns = (self.cpus[cpu].time_for(held).0 as u64).min(MOST_HELD_NS);
        if has_device {
            self.cpus[cpu].handles_until = self.world.now + Duration(held_ns as i64);
        }
        let polls = self.cpus[cpu].asleep.as_ref().is_some_and(Sleep::polls);
        let it = self.instance.cpu_mut(cpu);
        // A polling CPU looks at them and polls on, unless it finds something to do.
        it.irq_ns = if polls { 0 } else { u32::try_from(held_ns).expect("below the bound") };
        it.governor_timers = 0;
        let before = it.switches;
        if S::RECORDS && !polls {
            self.record_exit_first(cpu);
        }
        if let Some(cause) = cause_of(raised) {
            self.emit(cpu, EventKind::InterruptEntry { cause });
            self.emit(cpu, EventKind::InterruptExit { cause });
        }
        self.instance.interrupt(cpu)?;
        let has_task = self.instance.cpu(cpu).switches != before;
        if let Some(sleep) = self.cpus[cpu].asleep.take() {
            if !has_task && self.polls_on(cpu, &sleep) {
                held_ns = 0;
            } else {
                let end = self.end_of(cpu, &sleep, raised, has_task);
                let event = sleep.event.unwrap_or(self.world.now);
                self.wakes(cpu, &sleep, &Wake { event, end, has_task });
            }
        }
        if polls {
            self.instance.cpu_mut(cpu).figured_ns += held_ns;
        }
        if has_device { self.take_outside() } else { Ok(()) }
    }

    /// Returns how the interrupts that the kernel has handled have ended a sleep.
    fn end_of(&mut self, cpu: usize, sleep: &Sleep, raised: u32, has_task: bool) -> SleepEnd {
        let is_timer = raised == IRQ_TIMER && !has_task;
        let is_governors = is_timer && self.instance.cpu(cpu).governor_timers > 0;
        if is_governors || (is_timer && !sleep.tick_stopped) {
            // After a sleep that is counted.
            if !sleep.is_rejected {
                self.cpus[cpu].of_sleep = self.hardware.overheads.interrupt;
            }
            return if is_governors { SleepEnd::GovernorTimer } else { SleepEnd::Tick };
        }
        match raised == 0 && sleep.event.is_none() && !has_task {
            true => SleepEnd::PollTimeout,
            false => SleepEnd::Event,
        }
    }

    /// Handles the devices' interrupts of this CPU; returns the time that this takes.
    fn handle_devices(&mut self, cpu: usize) -> Result<Duration, Trouble> {
        if S::RECORDS {
            self.record_exit_first(cpu);
        }
        self.handled.time = Duration::ZERO;
        self.acting = Acting::Handler(cpu);
        while let Some(irq) = self.cpus[cpu].irqs.pop_front() {
            self.emit(cpu, EventKind::IrqEntry { irq: irq.line.number(), name: None });
            self.cpus[cpu].handles = Some(irq.line);
            if let Err(halt) = self.take_interrupt(cpu, irq) {
                self.fail(halt);
                break;
            }
        }
        self.acting = Acting::Nobody;
        let mut woken = std::mem::take(&mut self.handled.woken);
        for id in woken.drain(..) {
            if let Some(handle) = self.world.tasks[id as usize].take_wake() {
                self.instance.completes(handle, cpu)?;
            }
        }
        self.handled.woken = woken;
        Ok(self.handled.time)
    }
}
