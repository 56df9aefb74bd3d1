// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Delivery and handling of interrupts.

use super::cpu::Sleep;
use super::work::{End, Ipi, Seen, Slept, TaskId, Work};
use super::{Event, Sim};
use crate::kernel::Trouble;
use crate::kernel::abi::{self, IRQ_CALL, IRQ_DEVICE, IRQ_RESCHEDULE, IRQ_TIMER};
use torpor_machine::units::{Duration, Instant};

impl<W: Work> Sim<W> {
    /// Raises an interrupt, which an idle CPU handles after it has left its state.
    pub(super) fn raise(&mut self, cpu: usize, bits: u32) -> Result<(), Trouble> {
        let now = self.now;
        // A device's handler runs with interrupts off, and the next one waits for its end.
        let handles_until = self.cpus[cpu].handles_until;
        if bits == IRQ_DEVICE && handles_until > now {
            self.queue.push(handles_until, cpu, Event::Ipi(bits));
            return Ok(());
        }
        self.instance.cpu_mut(cpu).raised |= bits;
        let Some(sleep) = &mut self.cpus[cpu].asleep else { return self.interrupt(cpu) };
        if sleep.event.is_some() {
            return Ok(());
        }
        sleep.event = Some(now);
        sleep.is_resched = bits & IRQ_RESCHEDULE != 0;
        let polls = sleep.polls();
        let Sleep { number, poll_until_ns, entry_saved, is_rejected, .. } = *sleep;
        let (index, since) = sleep.in_hardware();
        let states = &self.machine.clusters[self.cpus[cpu].cluster].states;
        let at = match states.get(index) {
            _ if is_rejected => now.max(since).max(Instant(poll_until_ns as i64)),
            Some(state) if !polls => {
                let mean = (state.entry_latency, state.exit_latency);
                let latencies = self.machine.latencies.as_mut();
                let (entry, exit) = latencies.map_or(mean, |all| all.draw(cpu, index, mean));
                let leaves = now.max(since + entry - entry_saved);
                let shared = match &mut self.machine.last_man {
                    Some(all) => all.leave(cpu, leaves) - all.shared_exit(cpu, index),
                    None => Duration::ZERO,
                };
                leaves + (exit + shared).max(Duration::ZERO)
            }
            _ => now.max(since),
        };
        self.queue.push(at, cpu, Event::Awake(number));
        Ok(())
    }

    /// Has the kernel handle the raised interrupts of a CPU.
    pub(super) fn interrupt(&mut self, cpu: usize) -> Result<(), Trouble> {
        self.account(cpu);
        let asleep = self.cpus[cpu].asleep.take();
        let raised = self.instance.cpu(cpu).raised;
        let has_device = raised & IRQ_DEVICE != 0;
        let mut held = if has_device { self.handle_devices(cpu)? } else { Duration::ZERO };
        let overheads = self.machine.overheads;
        if raised & IRQ_TIMER != 0 {
            held += overheads.interrupt;
        }
        if raised & (IRQ_RESCHEDULE | IRQ_CALL) != 0 {
            held += overheads.ipi_handling;
        }
        let mut held_ns = self.cpus[cpu].time_for(held).0 as u64;
        if raised & IRQ_DEVICE != 0 {
            self.cpus[cpu].handles_until = self.now + Duration(held_ns as i64);
        }
        let polls = asleep.is_some_and(|sleep| sleep.polls());
        let it = self.instance.cpu_mut(cpu);
        // A polling CPU looks at them and polls on, unless it finds something to do.
        it.irq_ns = if polls { 0 } else { held_ns as u32 };
        it.governor_timers = 0;
        let before = it.switches;
        if asleep.is_some() && !polls {
            self.work.watch(cpu, self.now, Seen::Wakes);
        }
        if let Some(ipi) = Ipi::of(raised) {
            self.work.watch(cpu, self.now, Seen::TakesIpi(ipi));
        }
        self.instance.interrupt(cpu)?;
        let has_task = self.instance.cpu(cpu).switches != before;
        if let Some(sleep) = asleep {
            if !has_task && self.polls_on(cpu, sleep) {
                held_ns = 0;
            } else {
                let is_timer = raised == IRQ_TIMER && !has_task;
                let is_governors = is_timer && self.instance.cpu(cpu).governor_timers > 0;
                let is_tick = is_timer && !is_governors && !sleep.tick_stopped;
                let mut slept = sleep.slept(self.now);
                slept.has_task = has_task;
                if is_tick || is_governors {
                    slept.end = if is_governors { End::GovernorTimer } else { End::Tick };
                    // After a sleep that is counted.
                    if !slept.is_rejected {
                        self.cpus[cpu].of_sleep = self.machine.overheads.interrupt;
                    }
                } else if raised == 0 && sleep.event.is_none() && !has_task {
                    slept.end = End::PollTimeout;
                }
                self.left(cpu, slept);
            }
        }
        if polls {
            self.instance.cpu_mut(cpu).figured_ns += held_ns;
        }
        if has_device { self.take_outside() } else { Ok(()) }
    }

    /// Applies the events that device handlers caused elsewhere.
    fn take_outside(&mut self) -> Result<(), Trouble> {
        let mut outside = std::mem::take(&mut self.handled.outside);
        for what in outside.drain(..) {
            self.takes(what)?;
        }
        self.handled.outside = outside;
        Ok(())
    }

    /// Handles the devices' interrupts of this CPU; returns the time that this takes.
    fn handle_devices(&mut self, cpu: usize) -> Result<Duration, Trouble> {
        let mut handled = std::mem::take(&mut self.handled);
        handled.time = Duration::ZERO;
        handled.woken.clear();
        for task in std::mem::take(&mut self.cpus[cpu].completed) {
            self.instance.completes(self.tasks[task].as_ref().expect("it asked").handle, cpu)?;
            handled.time = self.machine.overheads.interrupt;
        }
        self.work.handle(cpu, self.now, &mut handled);
        for TaskId(task) in handled.woken.drain(..) {
            let now = self.now;
            let it = self.task(task);
            if !std::mem::take(&mut it.is_waiting) {
                it.woken_before += 1;
                continue;
            }
            it.woken_at = Some(now);
            let handle = it.handle;
            self.instance.completes(handle, cpu)?;
        }
        let time = handled.time;
        self.handled = handled;
        Ok(time)
    }

    /// Whether a polling CPU still polls after an interrupt; the kernel is back in its loop then.
    fn polls_on(&mut self, cpu: usize, sleep: Sleep) -> bool {
        let &abi::Cpu { idle_state, poll_until_ns, sleeps, .. } = self.instance.cpu(cpu);
        let is_same = idle_state == sleep.state as i32 && poll_until_ns == sleep.poll_until_ns;
        let polls = sleep.polls() && sleep.poll_until_ns > self.now.0 as u64;
        if !polls || !is_same || self.instance.needs_resched(cpu) {
            return false;
        }
        self.cpus[cpu].asleep =
            Some(Sleep { number: sleeps, event: None, is_resched: false, ..sleep });
        self.work.watch(cpu, self.now, Seen::PollsOn);
        true
    }

    pub(super) fn left(&mut self, cpu: usize, slept: Slept) {
        if !slept.is_rejected {
            let stats = &mut self.stats.cpus[cpu];
            stats.asleep[slept.state] += self.now.since(slept.since);
            stats.entries[slept.state] += 1;
            let it = &mut self.cpus[cpu];
            let states = &self.machine.clusters[it.cluster].states;
            let last = slept.undemoted.map_or(slept.got, |_| slept.state);
            it.cold = states.get(last).map_or(it.cold, |state| it.cold.max(state.refill));
            if let Some(state) = states.get(slept.state) {
                it.history.slept(slept.state, state.demotion, self.now.since(slept.since));
            }
        }
        self.polling.retain(|other| *other != cpu);
        if let Some(last_man) = &mut self.machine.last_man {
            last_man.leave(cpu, self.now);
        }
        self.work.watch(cpu, self.now, Seen::Slept(slept));
    }
}
