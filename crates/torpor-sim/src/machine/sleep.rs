// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Sleeps of CPUs: from the state that the kernel enters to the wake-up, as they are counted,
//! recorded and given to the oracle.

use super::cpu::Cpu;
use super::{Event, Machine, Sink, trace};
use crate::kernel::abi::{self, NEVER};
use torpor_engine::decision::Decision;
use torpor_engine::input::{SleepSource, Span, WakeStamp};
use torpor_engine::model::{SleepEnd, Verdict};
use torpor_engine::totals::hardware_parts;
use torpor_machine::units::{Duration, Energy, Instant};
use torpor_trace::EventKind;

/// A sleep, from the kernel's decision on.
#[derive(Clone, Copy)]
pub(super) struct Sleep {
    /// Number of sleeps that the kernel has entered on this CPU, including this one.
    pub(super) number: u32,
    pub(super) state: usize,
    /// When the kernel entered the state, and when the hardware does: it may have an interrupt's
    /// work to do first.
    pub(super) entered: Instant,
    pub(super) since: Instant,
    /// The hardware has entered it.
    pub(super) is_entered: bool,
    /// `since`, or the end of the warm-up.
    pub(super) counts_from: Instant,
    /// The state that the hardware has entered, and when a demoted one has gone on to `state`.
    pub(super) got: usize,
    pub(super) undemoted: Option<Instant>,
    pub(super) poll_until_ns: u64,
    /// Expiry that its clock event device was set to when it began.
    pub(super) timer: Instant,
    pub(super) tick_stopped: bool,
    /// Time of the event for which the CPU leaves the state.
    pub(super) event: Option<Instant>,
    /// Another CPU gave it something to run.
    pub(super) is_resched: bool,
    /// Entry latency saved because others are in the state.
    pub(super) entry_saved: Duration,
    /// The driver has refused the state: the CPU is awake, with interrupts off until `poll_until_ns`.
    pub(super) is_rejected: bool,
    /// Timers that the governor has started since the last sleep.
    pub(super) timer_starts: u32,
    /// Its end has been recorded.
    pub(super) is_recorded: bool,
}

/// How a sleep ended.
pub(super) struct Wake {
    /// Time of the event.
    pub(super) event: Instant,
    pub(super) end: SleepEnd,
    /// The CPU has something to run.
    pub(super) has_task: bool,
}

impl Sleep {
    /// The state that the hardware is in, and since when.
    pub(super) fn in_hardware(&self) -> (usize, Instant) {
        self.undemoted.map_or((self.got, self.since), |at| (self.state, at))
    }

    pub(super) fn polls(&self) -> bool {
        self.poll_until_ns != 0 && !self.is_rejected
    }

    /// The state that the hardware was in when counting began.
    fn first(&self) -> usize {
        match self.undemoted {
            Some(at) if at < self.counts_from => self.state,
            _ => self.got,
        }
    }

    /// The states that it has been in up to now, since counting began.
    pub(super) fn parts(&self, now: Instant) -> impl Iterator<Item = (usize, Duration)> + use<> {
        let then = self.undemoted.filter(|at| *at >= self.counts_from).map(|at| (self.state, at));
        hardware_parts((self.first(), self.counts_from), then, now)
    }
}

impl Cpu<'_> {
    fn count_sleep(&mut self, sleep: &Sleep, now: Instant, verdict: Verdict) {
        let Sleep { state, counts_from, .. } = *sleep;
        if sleep.first() == state {
            self.tally.slept(self.opp, state, counts_from, now, verdict);
        } else {
            let times = (counts_from, now);
            self.tally.slept_demoted(self.opp, state, times, verdict, sleep.parts(now));
        }
    }
}

impl<S: Sink> Machine<'_, S> {
    /// Puts a CPU into the state that the kernel has entered.
    pub(super) fn begin_sleep(&mut self, cpu: usize) {
        let abi::Cpu {
            timer_ns,
            idle_state,
            poll_until_ns,
            tick_stopped,
            entered_ns,
            sleeps,
            is_rejected,
            ..
        } = *self.instance.cpu(cpu);
        let now = self.world.now;
        let state = idle_state as usize;
        let states = &self.hardware.clusters[self.cpus[cpu].cluster].states;
        let demotion = states.get(state).and_then(|s| s.demotion).filter(|_| is_rejected == 0);
        let got = self.cpus[cpu].history.got(state, demotion);
        let last_man = &mut self.last_man;
        let last_man = last_man.as_mut().filter(|_| is_rejected == 0);
        let entry_saved = last_man.map(|all| all.enter(cpu, got));
        let since = now.max(self.cpus[cpu].from);
        let sleep = Sleep {
            number: sleeps,
            state,
            entered: Instant(entered_ns as i64),
            since,
            is_entered: false,
            counts_from: since,
            got,
            undemoted: None,
            poll_until_ns,
            timer: if timer_ns == NEVER { Instant::NEVER } else { Instant(timer_ns as i64) },
            tick_stopped: tick_stopped != 0,
            event: None,
            is_resched: false,
            entry_saved: entry_saved.unwrap_or(Duration::ZERO),
            is_rejected: is_rejected != 0,
            timer_starts: std::mem::take(&mut self.instance.cpu_mut(cpu).governor_starts),
            is_recorded: false,
        };
        self.cpus[cpu].asleep = Some(sleep);
        if sleep.polls() {
            self.polling.push(cpu);
        }
        if let Some(time) = demotion.and_then(|rule| rule.undemote).filter(|_| got != state) {
            self.world.queue.push(since + time, cpu, Event::Undemotes(sleeps));
        }
        if poll_until_ns != 0 {
            self.world.queue.push(
                Instant(poll_until_ns as i64),
                cpu,
                Event::PollEnd(poll_until_ns),
            );
        }
        match since > now {
            true => self.world.queue.push(since, cpu, Event::Sleeps),
            false => self.enter_state(cpu),
        }
    }

    /// The hardware enters the state.
    pub(super) fn enter_state(&mut self, number: usize) {
        let now = self.world.now;
        let cpu = &mut self.cpus[number];
        let is_due = |sleep: &&mut Sleep| sleep.since == now && !sleep.is_entered;
        let Some(sleep) = cpu.asleep.as_mut().filter(is_due) else { return };
        sleep.is_entered = true;
        cpu.idle_since.get_or_insert(now);
        let Sleep { state, got, is_rejected, .. } = *sleep;
        if !is_rejected {
            self.enters(number, got);
        }
        if S::RECORDS {
            self.emit(number, EventKind::CpuIdle { state: trace::state(state) });
        }
    }

    /// A CPU's hardware is in a state now.
    fn enters(&mut self, cpu: usize, state: usize) {
        self.rest.entered(cpu, state, self.world.now);
        if let Some(limits) = &mut self.limits {
            limits.change(cpu, state, self.world.now, true);
        }
    }

    /// A CPU's hardware has left a state.
    fn leaves(&mut self, cpu: usize, state: usize) {
        self.rest.left(cpu, state, self.world.now);
        if let Some(limits) = &mut self.limits {
            limits.change(cpu, state, self.world.now, false);
        }
    }

    /// The hardware takes a demoted CPU to the requested state, unless the sleep is over, or nearly.
    pub(super) fn undemote(&mut self, cpu: usize, number: u32) {
        let now = self.world.now;
        let is_that = |sleep: &&mut Sleep| sleep.number == number && sleep.event.is_none();
        let Some(sleep) = self.cpus[cpu].asleep.as_mut().filter(is_that) else { return };
        sleep.undemoted = Some(now);
        if let Some(last_man) = &mut self.last_man {
            sleep.entry_saved = last_man.deepen(cpu, sleep.state);
        }
        let (got, state) = (sleep.got, sleep.state);
        self.leaves(cpu, got);
        self.enters(cpu, state);
    }

    /// Ends a sleep that another CPU's call has ended; the CPU may already be asleep again.
    pub(super) fn end_sleep(&mut self, cpu: usize, sleep: &Sleep, has_task: bool) {
        let now = self.world.now;
        if sleep.is_entered {
            let event = sleep.event.unwrap_or(now);
            return self.wakes(cpu, sleep, &Wake { event, end: SleepEnd::Event, has_task });
        }
        self.polling.retain(|other| *other != cpu);
        if let Some(last_man) = &mut self.last_man {
            last_man.leave(cpu, now);
        }
    }

    /// A CPU is out of its state.
    pub(super) fn wakes(&mut self, cpu: usize, sleep: &Sleep, wake: &Wake) {
        assert!(sleep.is_entered, "the CPU was asleep");
        let now = self.world.now;
        self.polling.retain(|other| *other != cpu);
        if let Some(last_man) = &mut self.last_man {
            last_man.leave(cpu, now);
        }
        if sleep.is_rejected {
            self.count_rejected(cpu, sleep);
        } else {
            self.count_slept(cpu, sleep, wake);
        }
        if wake.end == SleepEnd::Event {
            self.end_span(cpu, sleep, wake);
        }
    }

    fn count_slept(&mut self, number: usize, sleep: &Sleep, wake: &Wake) {
        let now = self.world.now;
        let Sleep { state, entered, since, .. } = *sleep;
        let (last, _) = sleep.in_hardware();
        let cpu = &mut self.cpus[number];
        let states = &self.hardware.clusters[cpu.cluster].states;
        cpu.cold = states.get(last).map_or(cpu.cold, |state| cpu.cold.max(state.refill));
        if let Some(of_state) = states.get(state) {
            cpu.history.slept(state, of_state.demotion, now.since(since));
        }
        // Their time has passed as the kernel's work.
        cpu.tally.totals.governor_timer_starts += u64::from(sleep.timer_starts);
        self.leaves(number, last);
        let cpu = &mut self.cpus[number];
        let (exit_latency, is_polling) =
            (cpu.model.states[state].exit_latency, cpu.model.states[state].is_polling);
        let verdict = match self.hardware.has_idle_driver {
            true => cpu.model.verdict(state, now.since(entered)),
            false => Verdict::Fit,
        };
        if cpu.model.states.len() > 1 {
            cpu.tally.asked(SleepSource::TimerEvents);
        }
        cpu.count_sleep(sleep, now, verdict);
        match wake.end {
            SleepEnd::Event => {
                cpu.tally.woken(state, now.since(wake.event), exit_latency);
                if is_polling && sleep.is_resched {
                    cpu.tally.ipi_saved();
                }
            }
            SleepEnd::Tick => cpu.tally.ticked(cpu.opp),
            SleepEnd::GovernorTimer => cpu.tally.timer_expired(cpu.opp),
            SleepEnd::PollTimeout => cpu.tally.poll_timed_out(),
        }
        if self.sink.wants(number) {
            let decision = self.decision(number, sleep, wake, verdict);
            self.sink.decision(&decision);
        }
        if S::RECORDS && !sleep.is_recorded {
            self.record_exit(number, state, verdict);
        }
    }

    /// Counts a state that the driver refused.
    fn count_rejected(&mut self, number: usize, sleep: &Sleep) {
        let now = self.world.now;
        let cpu = &mut self.cpus[number];
        if cpu.model.states.len() > 1 {
            cpu.tally.asked(SleepSource::TimerEvents);
        }
        cpu.tally.rejected(cpu.opp, sleep.state, now.since(sleep.counts_from));
        if S::RECORDS && !sleep.is_recorded {
            self.record_exit(number, sleep.state, Verdict::Fit);
        }
    }

    fn record_exit(&mut self, number: usize, state: usize, verdict: Verdict) {
        self.emit(number, EventKind::CpuIdle { state: trace::state_none() });
        if verdict != Verdict::Fit {
            let below = verdict == Verdict::Below;
            self.emit(number, EventKind::CpuIdleMiss { state: trace::state(state), below });
        }
    }

    /// Records the end of a sleep before the interrupt that ends it.
    pub(super) fn record_exit_first(&mut self, number: usize) {
        let cpu = &mut self.cpus[number];
        let is_open = |sleep: &&mut Sleep| {
            sleep.is_entered && !sleep.is_recorded && !cpu.model.states[sleep.state].is_polling
        };
        let Some(sleep) = cpu.asleep.as_mut().filter(is_open) else { return };
        sleep.is_recorded = true;
        let Sleep { state, entered, is_rejected, .. } = *sleep;
        let verdict = match is_rejected || !self.hardware.has_idle_driver {
            true => Verdict::Fit,
            false => cpu.model.verdict(state, self.world.now.since(entered)),
        };
        self.record_exit(number, state, verdict);
    }

    fn decision(&self, number: usize, sleep: &Sleep, wake: &Wake, verdict: Verdict) -> Decision {
        let Sleep { state, counts_from: since, is_resched, timer, tick_stopped, .. } = *sleep;
        let Wake { event, end, .. } = *wake;
        let (cpu, now) = (&self.cpus[number], self.world.now);
        let (costs, length) = (&cpu.model.costs, now.since(since));
        let cost = |state| costs.sleep(cpu.opp, state, length);
        let energy = sleep.parts(now).map(|(state, time)| costs.sleep(cpu.opp, state, time));
        let energy = energy.fold(Energy::ZERO, |sum, part| sum + part);
        let cheapest = cpu.model.allowed().into_iter().map(cost).min().unwrap_or(Energy::ZERO);
        let handled = match end {
            SleepEnd::Tick | SleepEnd::GovernorTimer => {
                costs.awake(cpu.opp, cpu.model.tick_handling)
            }
            _ => Energy::ZERO,
        };
        Decision {
            slot: number,
            span: 0,
            from: since,
            resume: now,
            state: state as u8,
            got: sleep.in_hardware().0 as u8,
            opp: cpu.opp,
            stop_tick: tick_stopped,
            tick_was_stopped: false,
            sleep_length: timer.since(since).max(Duration::ZERO),
            to_tick: (!tick_stopped).then(|| cpu.model.tick.next(since).since(since)),
            util: 0,
            nr_iowait: 0,
            event,
            stamp: WakeStamp::WakingEvent,
            is_resched,
            energy: energy + handled,
            regret: energy - cheapest,
            source: SleepSource::TimerEvents,
            verdict,
            end,
            latency: (end == SleepEnd::Event).then(|| now.since(event)),
        }
    }

    /// Ends the idle span of a CPU.
    fn end_span(&mut self, number: usize, sleep: &Sleep, wake: &Wake) {
        let now = self.world.now;
        let cpu = &mut self.cpus[number];
        let Some(start) = cpu.idle_since.take().filter(|_| S::TAKES_SPANS) else { return };
        let event = wake.event.max(start);
        let span = Span {
            start,
            wake: event,
            resume: now.max(event),
            next_hrtimer: sleep.timer,
            next_wheel: Instant::NEVER,
            freq_khz: 0,
            opp: cpu.opp,
            util: 0,
            source: SleepSource::TimerEvents,
            stamp: WakeStamp::WakingEvent,
            ends_visit: wake.has_task,
            is_resched: sleep.is_resched,
            nr_iowait: 0,
            nr_running: 0,
            rcu_holds_tick: false,
        };
        self.sink.span(number, span);
    }

    /// Whether a polling CPU still polls after an interrupt; the kernel is back in its loop then.
    pub(super) fn polls_on(&mut self, number: usize, sleep: &Sleep) -> bool {
        let now = self.world.now;
        let &abi::Cpu { idle_state, poll_until_ns, sleeps, .. } = self.instance.cpu(number);
        let is_same = idle_state == sleep.state as i32 && poll_until_ns == sleep.poll_until_ns;
        let polls = sleep.polls() && sleep.poll_until_ns > now.0 as u64;
        if !polls || !is_same || self.instance.needs_resched(number) {
            return false;
        }
        let cpu = &mut self.cpus[number];
        cpu.asleep = Some(Sleep { number: sleeps, event: None, is_resched: false, ..*sleep });
        cpu.tally.poll_interrupted();
        cpu.tally.woken(0, Duration::ZERO, cpu.model.states[0].exit_latency);
        cpu.idle_since = Some(now);
        true
    }

    /// Ends the sleep of a CPU at the end of the run.
    pub(super) fn cut(&mut self, number: usize) {
        let now = self.world.now;
        let cpu = &mut self.cpus[number];
        let Some(sleep) = cpu.asleep.take() else { return };
        let (opp, time) = (cpu.opp, now.since(sleep.counts_from));
        if sleep.is_entered && sleep.is_rejected {
            cpu.tally.rejected_for(opp, time);
        } else if sleep.is_entered {
            cpu.count_sleep(&sleep, now, Verdict::Fit);
            self.leaves(number, sleep.in_hardware().0);
            self.sink.cut(number, sleep.state, opp, time);
        }
        let wake = Wake { event: now, end: SleepEnd::Event, has_task: false };
        self.end_span(number, &sleep, &wake);
    }

    /// Counts the time of the current sleep up to now, before its end.
    pub(super) fn count_sleep_so_far(&mut self, number: usize) {
        let now = self.world.now;
        let cpu = &mut self.cpus[number];
        let Some(sleep) = cpu.asleep.as_ref().filter(|sleep| sleep.is_entered) else { return };
        if sleep.is_rejected {
            return cpu.tally.rejected_for(cpu.opp, now.since(sleep.counts_from));
        }
        for (state, time) in sleep.parts(now) {
            cpu.tally.sleeps_for(cpu.opp, state, time);
        }
    }

    /// Counts the current sleep of a CPU whose clock is about to change at the OPP it has had.
    pub(super) fn split_sleep(&mut self, number: usize, opp: u16) {
        let now = self.world.now;
        let cpu = &mut self.cpus[number];
        let is_counted = |sleep: &&Sleep| sleep.is_entered && !sleep.is_rejected;
        for (state, time) in cpu.asleep.iter().filter(is_counted).flat_map(|s| s.parts(now)) {
            cpu.tally.slept_before(cpu.opp, opp, state, time);
        }
    }
}
