// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Sleeps of CPUs, as they are counted, recorded and given to the oracle.

use super::{Asleep, Cpu, Machine, Sink, trace};
use crate::hardware::{End, Slept, TimerFunction, TimerId, Traced};
use torpor_engine::decision::Decision;
use torpor_engine::input::{SleepSource, Span, WakeStamp};
use torpor_engine::model::{SleepEnd, Verdict};
use torpor_engine::totals::hardware_parts;
use torpor_machine::units::{Duration, Energy, Instant};
use torpor_trace::EventKind;

impl Asleep {
    pub(super) fn in_hardware(&self) -> usize {
        self.undemoted.map_or(self.got, |_| self.state)
    }

    /// The states that it has been in up to now.
    fn parts(&self, now: Instant) -> impl Iterator<Item = (usize, Duration)> + use<> {
        hardware_parts((self.got, self.since), self.undemoted.map(|at| (self.state, at)), now)
    }
}

impl Cpu<'_> {
    fn count(&mut self, asleep: &Asleep, now: Instant, verdict: Verdict) {
        let Asleep { state, since, got, .. } = *asleep;
        if got == state {
            self.tally.slept(self.opp, state, since, now, verdict);
        } else {
            self.tally.slept_demoted(self.opp, state, (since, now), verdict, asleep.parts(now));
        }
    }
}

impl<S: Sink> Machine<'_, S> {
    pub(super) fn sleeps(
        &mut self,
        number: usize,
        (state, got): (usize, usize),
        entered: Instant,
        is_rejected: bool,
    ) {
        let now = self.world.now;
        if !is_rejected {
            self.rest.entered(number, got, now);
        }
        let cpu = &mut self.cpus[number];
        let undemoted = None;
        let (since, is_recorded) = (now, false);
        cpu.asleep =
            Some(Asleep { state, entered, since, got, undemoted, is_recorded, is_rejected });
        cpu.idle_since.get_or_insert(now);
        if S::RECORDS {
            self.emit(number, EventKind::CpuIdle { state: trace::state(state) });
        }
    }

    /// The hardware takes a demoted CPU to the requested state.
    pub(super) fn undemotes(&mut self, number: usize) {
        let now = self.world.now;
        let Some(asleep) = &mut self.cpus[number].asleep else { return };
        asleep.undemoted = Some(now);
        let Asleep { state, got, .. } = *asleep;
        self.rest.left(number, got, now);
        self.rest.entered(number, state, now);
    }

    pub(super) fn slept(&mut self, number: usize, slept: &Slept) {
        let now = self.world.now;
        let Slept { state, entered, event, end, is_resched, is_rejected, .. } = *slept;
        if is_rejected {
            return self.was_rejected(number, slept);
        }
        let cpu = &mut self.cpus[number];
        // Their time has passed as the kernel's work.
        cpu.tally.totals.governor_timer_starts += u64::from(slept.timer_starts);
        let asleep = cpu.asleep.take().expect("the CPU was asleep");
        let is_recorded = asleep.is_recorded;
        self.rest.left(number, asleep.in_hardware(), now);
        let model = &cpu.model.states[state];
        let verdict = cpu.model.verdict(state, now.since(entered));
        if cpu.model.states.len() > 1 {
            cpu.tally.asked(SleepSource::TimerEvents);
        }
        cpu.count(&asleep, now, verdict);
        let latency = now.since(event);
        match end {
            End::Event => {
                cpu.tally.woken(state, latency, model.exit_latency);
                if model.is_polling && is_resched {
                    cpu.tally.ipi_saved();
                }
            }
            End::Tick => cpu.tally.ticked(cpu.opp),
            End::GovernorTimer => cpu.tally.timer_expired(cpu.opp),
            End::PollTimeout => cpu.tally.poll_timed_out(),
        }
        if self.sink.wants(number) {
            let decision = self.decision(number, slept, &asleep, verdict);
            self.sink.decision(&decision);
        }
        if S::RECORDS && !is_recorded {
            self.record_exit(number, state, verdict);
        }
        if end == End::Event {
            self.end_span(number, slept);
        }
    }

    /// Counts a state that the driver refused.
    fn was_rejected(&mut self, number: usize, slept: &Slept) {
        let now = self.world.now;
        let cpu = &mut self.cpus[number];
        let Asleep { since, is_recorded, .. } = cpu.asleep.take().expect("the CPU tried to sleep");
        if cpu.model.states.len() > 1 {
            cpu.tally.asked(SleepSource::TimerEvents);
        }
        cpu.tally.rejected(cpu.opp, slept.state, now.since(since));
        if S::RECORDS && !is_recorded {
            self.record_exit(number, slept.state, Verdict::Fit);
        }
        if slept.end == End::Event {
            self.end_span(number, slept);
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
        let Some(asleep) =
            cpu.asleep.as_mut().filter(|a| !a.is_recorded && !cpu.model.states[a.state].is_polling)
        else {
            return;
        };
        asleep.is_recorded = true;
        let Asleep { state, entered, is_rejected, .. } = *asleep;
        let verdict = match is_rejected {
            true => Verdict::Fit,
            false => cpu.model.verdict(state, self.world.now.since(entered)),
        };
        self.record_exit(number, state, verdict);
    }

    /// Records a change of one of the kernel's timers.
    pub(super) fn record_traced(&mut self, number: usize, event: Traced) {
        let timer_of = |TimerId(id)| trace::kernel_timer(id);
        let function_of = |function| match function {
            TimerFunction::Tick => trace::function(0),
            TimerFunction::Wakeup => trace::function(1),
            TimerFunction::Other(id) => trace::other_function(id),
        };
        let kind = match event {
            Traced::Start { timer, function, expires, softexpires } => {
                let (timer, function) = (timer_of(timer), function_of(function));
                let (expires, softexpires) = (expires.into(), softexpires.into());
                EventKind::HrtimerStart { timer, function, expires, softexpires }
            }
            Traced::Cancel { timer } => EventKind::HrtimerCancel { timer: timer_of(timer) },
            Traced::ExpireEntry { timer, function, now } => {
                let (timer, function) = (timer_of(timer), function_of(function));
                EventKind::HrtimerExpireEntry { timer, function, now: now.into() }
            }
            Traced::ExpireExit { timer } => EventKind::HrtimerExpireExit { timer: timer_of(timer) },
            Traced::TickStop { success } => EventKind::TickStop { success },
            Traced::Waking { task, target: target_cpu } => match self.pid_of(task) {
                Some(pid) => EventKind::SchedWaking { pid, target_cpu },
                None => return,
            },
            Traced::Wakeup { task, target: target_cpu, is_new } => match self.pid_of(task) {
                Some(pid) if is_new => EventKind::SchedWakeupNew { pid, target_cpu },
                Some(pid) => EventKind::SchedWakeup { pid, target_cpu },
                None => return,
            },
        };
        self.emit(number, kind);
    }

    fn decision(
        &self,
        number: usize,
        slept: &Slept,
        asleep: &Asleep,
        verdict: Verdict,
    ) -> Decision {
        let since = asleep.since;
        let Slept { state, event, end, is_resched, timer, tick_stopped, .. } = *slept;
        let (cpu, now) = (&self.cpus[number], self.world.now);
        let (costs, length) = (&cpu.model.costs, now.since(since));
        let cost = |state| costs.sleep(cpu.opp, state, length);
        let energy = asleep.parts(now).map(|(state, time)| costs.sleep(cpu.opp, state, time));
        let energy = energy.fold(Energy::ZERO, |sum, part| sum + part);
        let cheapest = cpu.model.allowed().into_iter().map(cost).min().unwrap_or(Energy::ZERO);
        let handled = match end {
            End::Tick | End::GovernorTimer => costs.awake(cpu.opp, cpu.model.tick_handling),
            _ => Energy::ZERO,
        };
        Decision {
            slot: number,
            span: 0,
            from: since,
            resume: now,
            state: state as u8,
            got: asleep.in_hardware() as u8,
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
            end: match end {
                End::Event => SleepEnd::Event,
                End::Tick => SleepEnd::Tick,
                End::GovernorTimer => SleepEnd::GovernorTimer,
                End::PollTimeout => SleepEnd::PollTimeout,
            },
            latency: (end == End::Event).then(|| now.since(event)),
        }
    }

    /// Ends the idle span of a CPU.
    fn end_span(&mut self, number: usize, slept: &Slept) {
        let now = self.world.now;
        let cpu = &mut self.cpus[number];
        let Some(start) = cpu.idle_since.take().filter(|_| S::TAKES_SPANS) else { return };
        let wake = slept.event.max(start);
        let span = Span {
            start,
            wake,
            resume: now.max(wake),
            next_hrtimer: slept.timer,
            next_wheel: Instant::NEVER,
            freq_khz: 0,
            opp: cpu.opp,
            util: 0,
            source: SleepSource::TimerEvents,
            stamp: WakeStamp::WakingEvent,
            ends_visit: slept.has_task,
            is_resched: slept.is_resched,
            nr_iowait: 0,
            nr_running: 0,
            rcu_holds_tick: false,
        };
        self.sink.span(number, span);
    }

    /// An interrupt came while the CPU polled.
    pub(super) fn polls_on(&mut self, number: usize) {
        let now = self.world.now;
        let cpu = &mut self.cpus[number];
        cpu.tally.poll_interrupted();
        cpu.tally.woken(0, Duration::ZERO, cpu.model.states[0].exit_latency);
        cpu.idle_since = Some(now);
    }

    pub(super) fn changes_frequency(&mut self, number: usize, khz: u32) {
        let now = self.world.now;
        let cluster = self.cpus[number].cluster;
        let opp = self.domains[cluster].opp_of(khz);
        if self.domains[cluster].change(opp, now) {
            self.rest.set_opp(cluster, opp, now);
        }
        let cpu = &mut self.cpus[number];
        for (state, time) in cpu.asleep.iter().filter(|a| !a.is_rejected).flat_map(|a| a.parts(now))
        {
            cpu.tally.slept_before(cpu.opp, opp, state, time);
        }
        let changes = std::mem::replace(&mut cpu.opp, opp) != opp;
        if S::RECORDS && changes {
            self.record_frequency(number);
        }
    }

    /// Ends the sleep of a CPU at the end of the run.
    pub(super) fn cut(&mut self, number: usize, slept: Option<Slept>) {
        let now = self.world.now;
        let cpu = &mut self.cpus[number];
        match cpu.asleep.take() {
            Some(Asleep { since, is_rejected: true, .. }) => {
                cpu.tally.rejected_for(cpu.opp, now.since(since));
            }
            Some(asleep @ Asleep { state, since, .. }) => {
                cpu.count(&asleep, now, Verdict::Fit);
                let opp = cpu.opp;
                self.rest.left(number, asleep.in_hardware(), now);
                self.sink.cut(number, state, opp, now.since(since));
            }
            None => {}
        }
        if let Some(slept) = slept {
            self.end_span(number, &Slept { event: now, has_task: false, ..slept });
        }
    }
}
