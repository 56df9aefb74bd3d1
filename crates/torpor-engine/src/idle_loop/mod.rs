// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The idle loop: `do_idle()` and `cpuidle_idle_call()`.
//!
//! A decision has two halves, [`IdleCpu::begin`] (select, tick, entry) and [`IdleCpu::finish`]
//! (wake-up, accounting, reflect), so that many CPUs can be driven in the order of time. A replay
//! ([`CpuRun`]) knows what ends a sleep when it begins; a simulation learns it meanwhile, and says
//! so with [`IdleCpu::interrupt`].

mod hardware;
mod run;

pub use run::CpuRun;

use crate::decision::{Decision, Observer};
use crate::input::{OVERDUE, RCU_HOLD, Span, TickGrid, after_idling};
use crate::model::{Alarms, CpuModel, Sleep, SleepEnd, Verdict};
use crate::policy::{Policy, Reflection};
use crate::totals::{CpuTotals, Tally};
use torpor_governor::{Fault, Inputs};
use torpor_machine::platform::SleepHistory;
use torpor_machine::units::{Duration, Energy, Instant};

/// `NEXT_TIMER_MAX_DELTA`: the timer wheel never answers later than this many ticks ahead.
const MAX_TIMER_TICKS: i64 = (1 << 30) - 1;

/// Decisions made between two looks at whether to go on: some ms of work for slow governors.
pub(crate) const DECISIONS_A_LOOK: usize = 16_384;

/// A sleep that was begun and whose end is known.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub from: Instant,
    pub sleep: Sleep,
    state: usize,
    stop_tick: bool,
    tick_was_stopped: bool,
    sleep_length: Duration,
    entry: Entry,
    /// Latency saved because another CPU already is in the state.
    spared: Spared,
}

/// Outcome of a selected state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Entered,
    /// The hardware entered another state, and may have gone on to the requested one.
    Demoted {
        to: u8,
        is_undemoted: bool,
    },
    /// `need_resched()` after `select`: nobody tried to enter it.
    GaveUp,
    /// The driver returned an error.
    Rejected,
}

/// A part of a state's latencies, which is not to be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spared {
    pub entry: Duration,
    pub exit: Duration,
}

impl Pending {
    pub fn state(&self) -> usize {
        self.state
    }

    /// The state that the hardware has entered, and the one that it leaves at the end as it is known
    /// now. A kernel knows neither.
    pub fn got(&self) -> (usize, usize) {
        match self.entry {
            Entry::Demoted { to, is_undemoted: false } => (to.into(), to.into()),
            Entry::Demoted { to, is_undemoted: true } => (to.into(), self.state),
            _ => (self.state, self.state),
        }
    }

    pub fn spared(&self) -> Spared {
        self.spared
    }

    pub fn is_rejected(&self) -> bool {
        self.entry == Entry::Rejected
    }

    /// The governor let the tick be stopped: `tick_nohz_idle_stop_tick()`, which counts as an idle
    /// call.
    pub fn stops_tick(&self) -> bool {
        self.stop_tick
    }
}

/// Answer of `tick_nohz_get_sleep_length()`, and whether the tick must stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextEvents {
    pub sleep_length: Duration,
    pub delta_next: Duration,
    pub must_keep_tick: bool,
}

/// The time to the next events as the kernel computes it: from `idle_entrytime`, not from now.
/// `jiffy` is the last tick's time, stopped or not. A timer that is long overdue did not fire, so
/// it was not there any more: nobody waits for it.
#[inline]
pub fn next_events(
    span: &Span,
    tick: Duration,
    jiffy: Instant,
    idle_entry: Instant,
    tick_stopped: bool,
) -> NextEvents {
    let pending = |at: Instant| if at + OVERDUE < jiffy { Instant::NEVER } else { at };
    let hrtimer = pending(span.next_hrtimer);
    let wheel = pending(span.next_wheel).min(jiffy + Duration(tick.0 * MAX_TIMER_TICKS));
    let timer = wheel.min(hrtimer);
    let programmed = if tick_stopped { timer } else { (jiffy + tick).min(hrtimer) };
    let delta_next = programmed.since(idle_entry);
    let rcu_needs_cpu = span.rcu_holds_tick && jiffy < span.start + RCU_HOLD;
    let must_keep_tick = !tick_stopped && (rcu_needs_cpu || wheel <= jiffy + tick);
    let sleep_length = if must_keep_tick { delta_next } else { timer.since(idle_entry) };
    NextEvents { sleep_length, delta_next, must_keep_tick }
}

/// The event of `span` makes a task runnable at the very moment of a decision, between `select` and
/// the entry: the only way to give up an entry where deciding takes no time.
#[inline]
pub fn gives_up(span: &Span, now: Instant) -> bool {
    span.wake == now && span.ends_visit
}

/// One CPU's idle loop. The [`Span`] of a call is the idleness that the CPU is in.
pub struct IdleCpu<'a> {
    model: &'a CpuModel,
    slot: usize,
    now: Instant,
    /// `ts->idle_entrytime`: renewed when the idle loop begins and by every interrupt, but not by
    /// a poll time-out.
    idle_entry: Instant,
    tick_stopped: bool,
    /// The last tick at or before `now`, were it running.
    jiffy: Instant,
    tick: Duration,
    /// A timer of the governor's own was armed when the last sleep began. One that it arms while
    /// it reflects is met in the next sleep.
    timer_armed: bool,
    /// The number of the idleness, for those who watch.
    span: u32,
    /// Alarms of the current sleep, and the end of polling.
    alarms: Alarms,
    give_up: Instant,
    /// Sleep history, on hardware that demotes.
    history: SleepHistory,
    tally: Tally,
}

impl<'a> IdleCpu<'a> {
    pub fn new(model: &'a CpuModel, slot: usize, start: Instant) -> IdleCpu<'a> {
        IdleCpu {
            model,
            slot,
            now: start,
            idle_entry: start,
            tick_stopped: false,
            jiffy: model.tick.floor(start),
            tick: model.tick.hz.tick(),
            timer_armed: false,
            span: 0,
            alarms: Alarms::NONE,
            give_up: Instant::NEVER,
            history: SleepHistory::default(),
            tally: Tally::new(model),
        }
    }

    /// When the next decision is due, or the CPU has been awake since.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The CPU comes to the idle loop after work. The tick has been restarted if that was a
    /// task's, and is as it was after an interrupt's.
    #[inline]
    pub fn enter(&mut self, now: Instant, after_task: bool) {
        self.now = now;
        self.idle_entry = now;
        if after_task {
            self.tick_stopped = false;
        }
    }

    /// Asks the policy and enters the state.
    #[inline(always)]
    pub fn begin<P: Policy>(&mut self, span: &Span, policy: &mut P) -> Result<Pending, Fault> {
        self.jiffy = TickGrid::floor_after(self.jiffy, self.tick, self.now);
        let mut next = next_events(span, self.tick, self.jiffy, self.idle_entry, self.tick_stopped);
        if self.timer_armed {
            if let Some(at) = policy.next_timer(self.slot) {
                next = self.meet_timer(at, span, policy)?;
            }
        }
        let inputs = Inputs {
            now: self.now,
            sleep_length: next.sleep_length,
            delta_next: next.delta_next,
            tick_stopped: self.tick_stopped,
            latency_req: self.model.latency_limit,
            nr_iowait: u32::from(span.nr_iowait),
            util: after_idling(span.util, self.now.passed_since(span.start)),
            capacity: u64::from(self.model.capacity),
            load_avg: self.load_avg(span),
        };
        // With one state the kernel asks no governor and leaves the tick alone.
        let (choice, stop_tick) = if self.model.states.len() > 1 {
            let selection = policy.select(self.slot, &inputs)?;
            self.tally.asked(span.source);
            (selection.state, selection.stop_tick)
        } else {
            (0, false)
        };
        let state = usize::try_from(choice).expect("a policy answers with a state of the table");
        let tick_was_stopped = self.tick_stopped;
        if stop_tick && !next.must_keep_tick {
            self.tick_stopped = true;
        }
        let timer = policy.next_timer(self.slot);
        self.timer_armed = timer.is_some();
        self.alarms = Alarms {
            tick: if self.tick_stopped { Instant::NEVER } else { self.jiffy + self.tick },
            timer: timer.unwrap_or(Instant::NEVER),
        };
        let mut entry = if gives_up(span, self.now) { Entry::GaveUp } else { Entry::Entered };
        let sleep = if self.model.states[state].is_polling {
            // By its fields, as whatever has an address does not stay in registers.
            let Sleep { resume, end, got_tick, got_timer } = self.poll(span.wake, policy);
            Sleep { resume, end, got_tick, got_timer }
        } else if !self.model.demotions.is_empty() && entry == Entry::Entered {
            let (sleep, demoted) = self.enter_hardware(state, span.wake);
            entry = demoted;
            sleep
        } else {
            self.model.sleep(state, self.now, span.wake, self.alarms)
        };
        Ok(Pending {
            from: self.now,
            sleep,
            state,
            stop_tick,
            tick_was_stopped,
            sleep_length: next.sleep_length,
            entry,
            spared: Spared::default(),
        })
    }

    #[cold]
    fn poll<P: Policy>(&mut self, wake: Instant, policy: &mut P) -> Sleep {
        let limit = policy.poll_limit(self.slot, self.model.default_poll_limit);
        self.give_up = self.model.poll_timeout(self.now, limit);
        self.model.poll(self.now, wake, self.alarms, self.give_up)
    }

    /// The sleep began with the tick's end.
    pub fn stopped_tick(&self, pending: &Pending) -> bool {
        self.tick_stopped && !pending.tick_was_stopped
    }

    /// An interrupt that came while the CPU polled was handled by `handled`, and brought no task:
    /// polling goes on, until `wake` or until its time is up.
    pub fn poll_on(&mut self, pending: &mut Pending, handled: Instant, wake: Instant) {
        self.tally.poll_interrupted();
        self.tally.woken(0, Duration::ZERO, self.model.states[0].exit_latency);
        self.idle_entry = handled;
        // Nobody looks at the clock, or at the next interrupt, before this one is handled.
        self.give_up = self.give_up.max(handled);
        self.interrupt(pending, wake.max(handled));
    }

    /// Runqueue load at the last tick: `this_cpu_load()` for tasks of weight 1024. A tick since the
    /// CPU went idle, stopped or not, saw nothing. FIDELITY(load-weight): how nice tasks are, no
    /// event tells.
    #[inline]
    fn load_avg(&self, span: &Span) -> u64 {
        if self.jiffy > span.start { 0 } else { u64::from(span.nr_running) << 10 }
    }

    /// Wakes up, accounts for the sleep and tells the policy. True if the span's event has come.
    #[inline(always)]
    pub fn finish<P: Policy, O: Observer>(
        &mut self,
        span: &Span,
        pending: &Pending,
        policy: &mut P,
        observer: &mut O,
    ) -> Result<bool, Fault> {
        let Pending { from, sleep, state, .. } = *pending;
        match pending.entry {
            Entry::Entered | Entry::Demoted { .. } => {}
            Entry::GaveUp => {
                policy.gave_up(self.slot);
                self.tally.absorbed();
                return Ok(true);
            }
            Entry::Rejected => {
                self.rejected(span, pending, policy)?;
                return Ok(false);
            }
        }
        let residency = sleep.resume.passed_since(from);
        let verdict = self.model.verdict(state, residency);
        if self.model.demotions.is_empty() {
            self.tally.slept(span.opp, state, from, sleep.resume, verdict);
        } else {
            self.history.slept(state, self.model.demotion(state), residency);
            self.slept_in_hardware(span, pending, sleep.resume, verdict);
        }

        // The tick's interrupt is handled before the governor reflects.
        let mut now = sleep.resume;
        let mut latency = None;
        let is_polling = self.model.states[state].is_polling;
        match sleep.end {
            SleepEnd::Event => {
                let waited = sleep.resume.passed_since(span.wake);
                latency = Some(waited);
                self.tally.woken(state, waited, self.model.states[state].exit_latency);
                if is_polling && span.is_resched {
                    self.tally.ipi_saved();
                }
            }
            SleepEnd::Tick => {
                now += self.model.tick_handling;
                self.tally.ticked(span.opp);
            }
            SleepEnd::GovernorTimer => {
                now += self.model.tick_handling;
                self.tally.timer_expired(span.opp);
            }
            SleepEnd::PollTimeout => self.tally.poll_timed_out(),
        }
        if observer.wants(self.slot) {
            observer.decision(&self.decision(span, pending, verdict, latency));
        }
        if sleep.got_timer {
            policy.fire_timer(self.slot, sleep.resume)?;
        }
        if self.model.states.len() > 1 {
            let reflection = Reflection {
                state: state as i32,
                residency,
                poll_timed_out: is_polling.then_some(sleep.end == SleepEnd::PollTimeout),
                now,
                got_tick: sleep.got_tick,
            };
            policy.reflect(self.slot, &reflection)?;
        }
        match sleep.end {
            SleepEnd::Event => self.now = now,
            SleepEnd::Tick | SleepEnd::GovernorTimer => {
                self.now = now;
                self.idle_entry = now;
            }
            SleepEnd::PollTimeout => {
                self.now = now;
                if sleep.got_tick {
                    // The tick's interrupt came while polling went on.
                    let tick = TickGrid::floor_after(self.jiffy, self.tick, now);
                    self.idle_entry = self.idle_entry.max(tick);
                }
            }
        }
        Ok(sleep.end == SleepEnd::Event)
    }

    /// `cpuidle_enter_state()` after an error: a residency of 0, `rejected` counted, and no
    /// reflection. The idle loop starts again, and `idle_entrytime` is unless the tick came.
    #[cold]
    fn rejected<P: Policy>(
        &mut self,
        span: &Span,
        pending: &Pending,
        policy: &mut P,
    ) -> Result<(), Fault> {
        let Pending { from, sleep, state, .. } = *pending;
        policy.gave_up(self.slot);
        self.now = sleep.resume;
        if sleep.got_timer {
            policy.fire_timer(self.slot, sleep.resume)?;
        }
        if sleep.got_tick || sleep.got_timer {
            self.now += self.model.tick_handling;
            self.idle_entry = self.now;
        }
        self.tally.rejected(span.opp, state, self.now.since(from));
        Ok(())
    }

    /// All there is to tell of a decision, when the CPU has woken up again.
    fn decision(
        &self,
        span: &Span,
        pending: &Pending,
        verdict: Verdict,
        latency: Option<Duration>,
    ) -> Decision {
        let Pending { from, sleep, state, .. } = *pending;
        let (costs, length) = (&self.model.costs, sleep.resume.since(from));
        let cost = |state| costs.sleep(span.opp, state, length);
        let energy = match pending.entry {
            Entry::Demoted { .. } => self
                .parts(pending, sleep.resume)
                .map(|(state, time)| costs.sleep(span.opp, state, time))
                .fold(Energy::ZERO, |sum, part| sum + part),
            _ => cost(state),
        };
        let states = 0..self.model.states.len();
        let allowed = states.filter(|&state| self.model.states[state].is_allowed);
        let cheapest = allowed.map(cost).min().unwrap_or(Energy::ZERO);
        let handled = match sleep.end {
            SleepEnd::Tick | SleepEnd::GovernorTimer => {
                costs.awake(span.opp, self.model.tick_handling)
            }
            SleepEnd::Event | SleepEnd::PollTimeout => Energy::ZERO,
        };
        let next_tick = self.model.tick.next(from);
        Decision {
            slot: self.slot,
            span: self.span,
            from,
            resume: sleep.resume,
            state: state as u8,
            got: pending.got().1 as u8,
            opp: span.opp,
            stop_tick: pending.stop_tick,
            tick_was_stopped: pending.tick_was_stopped,
            sleep_length: pending.sleep_length,
            to_tick: (!pending.tick_was_stopped).then(|| next_tick.since(from)),
            util: after_idling(span.util, from.since(span.start)),
            nr_iowait: span.nr_iowait,
            event: span.wake,
            stamp: span.stamp,
            is_resched: span.is_resched,
            energy: energy + handled,
            regret: energy - cheapest,
            source: span.source,
            verdict,
            end: sleep.end,
            latency,
        }
    }

    /// A timer of the policy's that was left armed: it has expired while the CPU was busy, or is
    /// one of the events that follow.
    #[cold]
    fn meet_timer<P: Policy>(
        &mut self,
        at: Instant,
        span: &Span,
        policy: &mut P,
    ) -> Result<NextEvents, Fault> {
        let mut armed = Some(at);
        if at <= self.now {
            policy.fire_timer(self.slot, self.now)?;
            armed = policy.next_timer(self.slot);
        }
        let next_hrtimer = span.next_hrtimer.min(armed.unwrap_or(Instant::NEVER));
        let span = Span { next_hrtimer, ..*span };
        Ok(next_events(&span, self.tick, self.jiffy, self.idle_entry, self.tick_stopped))
    }

    /// Energy of finished sleeps.
    pub fn energy(&self) -> Energy {
        self.tally.energy(self.model)
    }

    /// Sums up.
    pub fn close(self) -> CpuTotals {
        self.tally.close(self.model)
    }
}
