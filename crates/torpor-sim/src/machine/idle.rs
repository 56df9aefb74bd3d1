// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! CPUs without tasks: into the engine's idle loop, out of it, and the interrupts after it.

use super::Sink;
use super::cpu::{Cpus, Irq, Line, Mode, Timer, WATCHDOG, WATCHDOG_PERIOD};
use super::effects::Effects;
use super::events::{EventSource, Listed};
use super::world::Host;
use super::{Machine, Plan};
use crate::error::Halt;
use std::cmp::Reverse;
use torpor_engine::idle_loop::{Pending, Spared};
use torpor_engine::input::Span;
use torpor_engine::model::SleepEnd;
use torpor_engine::policy::Policy;
use torpor_units::{Duration, Instant};

impl<P: Policy, S: Sink> EventSource<Machine<'_, P, S>> for Cpus {
    fn count(plan: &Plan<'_>) -> usize {
        plan.topology.cpus
    }

    fn start(machine: &mut Machine<'_, P, S>, number: usize) -> Result<(), Halt> {
        let topology = machine.world.plan.topology;
        let Some(rank) = topology.online.iter().position(|cpu| cpu == number) else {
            // It has gone to its deepest state on its way out (`play_dead()`).
            let deepest = machine.world.plan.models[number].deepest;
            machine.rest.entered(number, deepest, machine.world.now);
            if let Some(last_man) = &mut machine.last_man {
                last_man.enter(number, deepest);
            }
            return Ok(());
        };
        // FIDELITY(sim-timers): the kernel's own timers are one a CPU, each at its own time.
        let at = WATCHDOG_PERIOD.0 * (rank as i64 + 1) / topology.online_count as i64;
        machine.cpus[number].timers.push(Reverse(Timer::of_watchdog(Instant(at))));
        machine.go_idle(number)
    }

    #[inline]
    fn happen(machine: &mut Machine<'_, P, S>, number: usize) -> Result<(), Halt> {
        match machine.cpus[number].mode {
            Mode::Asleep => machine.resume(number),
            Mode::Interrupted => machine.handled(number),
            Mode::Running => machine.running(number),
        }
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// The last task has left the CPU.
    pub(super) fn go_idle(&mut self, number: usize) -> Result<(), Halt> {
        let now = self.world.now;
        self.idle_cpus.insert(number);
        let cpu = &mut self.cpus[number];
        cpu.idle.enter(now, true);
        cpu.span.start = now;
        cpu.span.util = cpu.load.util();
        cpu.mode = Mode::Interrupted;
        self.share_core(number);
        let from = self.cpus[number].from;
        if from > now {
            // Interrupts are still being handled.
            self.world.agenda.set(Cpus::nth(number), from);
            return Ok(());
        }
        self.sleep(number)
    }

    /// One decision of the idle loop, by a CPU that nothing holds up.
    fn sleep(&mut self, number: usize) -> Result<(), Halt> {
        let cpu = &mut self.cpus[number];
        cpu.mode = Mode::Asleep;
        cpu.idle_since.get_or_insert(cpu.idle.now());
        let timer = cpu.next_timer();
        cpu.span.next_hrtimer = timer;
        cpu.span.wake = timer;
        cpu.span.is_resched = false;
        cpu.span.nr_iowait = cpu.iowait;
        let mut pending = cpu.idle.begin(&cpu.span, &mut self.policy)?;
        cpu.idle_calls += u64::from(pending.stops_tick());
        assert_eq!(pending.from, self.world.now, "power is counted from now on");
        let state = pending.state();
        if let Some(time) = self.driver.rejects(number, state) {
            cpu.idle.reject(&mut pending, time);
        } else {
            let (got, _) = pending.got();
            if let Some(last_man) = &mut self.last_man {
                let (entry, exit) = (last_man.enter(number, got), last_man.spared(number, got));
                cpu.idle.spare(&mut pending, timer, Spared { entry, exit });
            }
            cpu.rests_in = got;
            self.rest.entered(number, got, pending.from);
        }
        self.world.agenda.set(Cpus::nth(number), cpu.due(&pending));
        cpu.pending = Some(pending);
        if S::RECORDS {
            self.record_entry(number, &pending);
        }
        Ok(())
    }

    /// Something wakes the sleeping CPU at `at`.
    pub(super) fn rouse(&mut self, number: usize, at: Instant) {
        let cpu = &mut self.cpus[number];
        if at < cpu.span.wake {
            let pending = cpu.pending.as_mut().expect("a CPU asleep is in a state");
            cpu.span.wake = at;
            cpu.idle.interrupt(pending, at);
            let pending = *pending;
            self.world.agenda.set(Cpus::nth(number), cpu.due(&pending));
        }
    }

    /// A demoted CPU goes on to the state that was requested. Whether that was due.
    fn undemotes(&mut self, number: usize, pending: &mut Pending) -> bool {
        let (now, cpu) = (self.world.now, &mut self.cpus[number]);
        let state = pending.state();
        if now >= pending.sleep.resume || cpu.due(pending) == pending.sleep.resume {
            return false;
        }
        self.rest.left(number, cpu.rests_in, now);
        cpu.rests_in = state;
        self.rest.entered(number, state, now);
        if let Some(last_man) = &mut self.last_man {
            let (entry, exit) = (last_man.deepen(number, state), last_man.spared(number, state));
            cpu.idle.spare(pending, cpu.span.wake, Spared { entry, exit });
        }
        self.world.agenda.set(Cpus::nth(number), cpu.due(pending));
        cpu.pending = Some(*pending);
        true
    }

    /// The CPU has left its state. FIDELITY(sim-irq-order): interrupts are handled only now.
    pub(super) fn resume(&mut self, number: usize) -> Result<(), Halt> {
        let now = self.world.now;
        let cpu = &mut self.cpus[number];
        let mut pending = cpu.pending.take().expect("a CPU asleep is in a state");
        if self.undemotes(number, &mut pending) || self.waits_for_others(number, &mut pending) {
            return Ok(());
        }
        let cpu = &mut self.cpus[number];
        cpu.mode = Mode::Interrupted;
        cpu.from = now;
        let polls = self.world.plan.models[number].states[pending.state()].is_polling;
        if polls && pending.sleep.end == SleepEnd::Event && self.polls_on(number, &mut pending)? {
            return Ok(());
        }
        if S::RECORDS {
            self.record_exit(number, &pending);
        }
        let cpu = &mut self.cpus[number];
        let wake = cpu.span.wake;
        let is_event = cpu.idle.finish(&cpu.span, &pending, &mut self.policy, &mut self.sink)?;
        if !pending.is_rejected() {
            cpu.cold = cpu.cold.max(self.driver.refill(number, pending.got().1));
            self.rest.left(number, cpu.rests_in, now);
        }
        if is_event {
            self.end_span(number, wake, now);
        }
        // The tick takes along timers that need not come yet; those that must, come by themselves.
        if pending.sleep.got_tick && self.cpus[number].next_timer() > now {
            self.expire_timers(number, true);
        }
        let cpu = &mut self.cpus[number];
        // Of what came while the driver refused a state, nothing has been seen yet.
        let is_quiet = !pending.is_rejected()
            || cpu.irqs.is_empty() && cpu.next_timer() > now && cpu.idle.now() <= now;
        let is_over = pending.sleep.end == SleepEnd::PollTimeout && cpu.from <= now;
        if is_over && is_quiet && cpu.queue.count() == 0 {
            return self.sleep(number);
        }
        // A tick that ended the sleep has been handled by then.
        cpu.from = cpu.from.max(cpu.idle.now());
        if cpu.span.is_resched && !polls {
            cpu.hold_up(now, self.world.plan.overheads.ipi_handling);
        }
        self.handled(number)
    }

    /// The CPU has taken its own part of a shared state's exit latency: the first one out takes the
    /// rest as well, and who comes meanwhile waits for it.
    fn waits_for_others(&mut self, number: usize, pending: &mut Pending) -> bool {
        let Some(last_man) = &mut self.last_man else { return false };
        let longer = last_man.leave(number, self.world.now);
        if longer == Duration::ZERO {
            return false;
        }
        let cpu = &mut self.cpus[number];
        let Spared { entry, exit } = pending.spared();
        cpu.idle.spare(pending, cpu.span.wake, Spared { entry, exit: exit - longer });
        cpu.pending = Some(*pending);
        self.world.agenda.set(Cpus::nth(number), pending.sleep.resume);
        true
    }

    /// Handles what interrupted the polling CPU. If that brought no task, polling goes on: the
    /// time it took is then part of the sleep.
    fn polls_on(&mut self, number: usize, pending: &mut Pending) -> Result<bool, Halt> {
        let overhead = self.cpus[number].overhead;
        self.take_interrupts(number)?;
        let cpu = &mut self.cpus[number];
        if cpu.queue.count() > 0 {
            return Ok(false);
        }
        cpu.overhead = overhead;
        let (wake, resume, handled) = (cpu.span.wake, pending.sleep.resume, cpu.from);
        self.end_span(number, wake, resume);
        self.leave_span(number, false);
        let cpu = &mut self.cpus[number];
        cpu.idle_since = Some(handled);
        cpu.mode = Mode::Asleep;
        cpu.span.wake = cpu.next_timer();
        cpu.idle.poll_on(pending, cpu.from, cpu.span.wake);
        cpu.pending = Some(*pending);
        self.world.agenda.set(Cpus::nth(number), pending.sleep.resume);
        Ok(true)
    }

    /// The CPU is awake without a task, and done with the interrupts it knows of.
    pub(super) fn handled(&mut self, number: usize) -> Result<(), Halt> {
        if self.cpus[number].from <= self.world.now {
            let came = self.take_interrupts(number)?;
            if came || self.cpus[number].queue.count() > 0 {
                // Unless an event ended the sleep, it came while the CPU was awake for a tick.
                self.end_span(
                    number,
                    self.cpus[number].span.wake.min(self.world.now),
                    self.world.now,
                );
            }
        }
        let cpu = &mut self.cpus[number];
        if cpu.from > self.world.now {
            self.world.agenda.set(Cpus::nth(number), cpu.from);
            return Ok(());
        }
        let has_task = cpu.queue.count() > 0;
        self.leave_span(number, has_task);
        let cpu = &mut self.cpus[number];
        if !has_task {
            cpu.idle.enter(self.world.now, false);
            return self.sleep(number);
        }
        cpu.mode = Mode::Running;
        self.share_core(number);
        let cpu = &mut self.cpus[number];
        let grid = &self.world.plan.models[number].tick;
        cpu.tick = grid.next(self.world.now);
        if grid.floor(self.world.now) > cpu.span.start {
            // The last tick, stopped or not, saw an idle CPU.
            cpu.span.nr_running = 0;
        }
        if S::RECORDS {
            self.record_tick_start(number);
        }
        self.pick_next(number, None)?;
        let cpu = &mut self.cpus[number];
        let cold = std::mem::take(&mut cpu.cold);
        if cold > Duration::ZERO {
            cpu.hold_up(self.world.now, cold);
        }
        self.go_on(number)
    }

    /// An event at `wake` has ended the idleness; the CPU is awake at `resume`.
    #[inline]
    pub(super) fn end_span(&mut self, number: usize, wake: Instant, resume: Instant) {
        let cpu = &mut self.cpus[number];
        if let Some(start) = cpu.idle_since.take().filter(|_| S::TAKES_SPANS) {
            let wake = wake.max(start);
            cpu.ended = Some(Span { start, wake, resume: resume.max(wake), ..cpu.span });
        }
    }

    /// What the event brought is known.
    #[inline]
    pub(super) fn leave_span(&mut self, number: usize, has_task: bool) {
        if let Some(span) = self.cpus[number].ended.take() {
            self.sink.span(number, Span { ends_visit: has_task, ..span });
        }
    }

    /// Handles timers that have expired and interrupts that have come, if any.
    pub(super) fn take_interrupts(&mut self, number: usize) -> Result<bool, Halt> {
        let mut came = self.expire_timers(number, false);
        while let Some(irq) = self.cpus[number].irqs.pop_front() {
            self.recorded_interrupt(number, irq)?;
            came = true;
        }
        Ok(came)
    }

    /// One interrupt for all timers that are due, the tick's where it `has_ticked`; as in
    /// `hrtimer_interrupt()`, up to the first whose time has not come even with its slack. Whether
    /// there was one.
    pub(super) fn expire_timers(&mut self, number: usize, has_ticked: bool) -> bool {
        let now = self.world.now;
        if self.cpus[number].next_timer() <= now {
            let time = self.world.plan.overheads.interrupt;
            self.cpus[number].hold_up(now, time);
        } else if !has_ticked {
            return false;
        }
        while let Some(&Reverse(timer)) = self.cpus[number].timers.peek() {
            if timer.softexpires > now {
                break;
            }
            let Timer { softexpires, task, .. } = timer;
            self.cpus[number].timers.pop();
            if task == WATCHDOG {
                let next = softexpires + WATCHDOG_PERIOD;
                self.cpus[number].timers.push(Reverse(Timer::of_watchdog(next)));
                if S::RECORDS {
                    self.record_watchdog(number, next);
                }
                continue;
            }
            if S::RECORDS {
                self.record_timer_expiry(number, task);
            }
            self.wake(task, Some(number), softexpires, false);
            if S::RECORDS {
                self.record_timer_handled(number, task);
            }
        }
        true
    }

    fn recorded_interrupt(&mut self, number: usize, irq: Irq) -> Result<(), Halt> {
        if S::RECORDS {
            self.record_irq(number, irq.line.number());
        }
        self.take_interrupt(number, irq)?;
        if S::RECORDS {
            self.record_irq_handled(number, irq.line.number());
        }
        Ok(())
    }

    /// An interrupt reaches the CPU.
    pub(super) fn raise(&mut self, number: usize, line: Line) -> Result<(), Halt> {
        let now = self.world.now;
        let irq = Irq { at: now, line };
        match self.cpus[number].mode {
            Mode::Asleep => {
                self.cpus[number].irqs.push_back(irq);
                self.rouse(number, now);
                Ok(())
            }
            Mode::Interrupted => {
                self.cpus[number].irqs.push_back(irq);
                Ok(())
            }
            Mode::Running => {
                self.account(number);
                self.recorded_interrupt(number, irq)?;
                self.go_on(number)
            }
        }
    }
}
