// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The idle loop of one replayed CPU: `do_idle()` and `cpuidle_idle_call()`.
//!
//! A decision has two halves, [`CpuRun::begin`] (select, tick, entry) and [`CpuRun::finish`]
//! (wake-up, accounting, reflect), so that CPUs whose governor shares state can run in the order
//! of time.
//!
//! Work is conserved: the events of the recording keep their times, the work of each takes as long
//! as recorded, and a CPU that resumes late starts its next sleep late, until idle time has
//! absorbed the delay.

use crate::decision::{Decision, Observer};
use crate::input::{OVERDUE, RCU_HOLD, Span, TickGrid, after_idling};
use crate::model::{Alarms, CpuModel, Sleep, SleepEnd, Verdict};
use crate::policy::{Policy, Reflection};
use crate::totals::{CpuTotals, Tally, hardware_parts};
use torpor_governor::{Fault, Inputs};
use torpor_machine::platform::SleepHistory;
use torpor_machine::units::{Duration, Energy, Instant};

/// `NEXT_TIMER_MAX_DELTA`: the timer wheel never answers later than this many ticks ahead.
const MAX_TIMER_TICKS: i64 = (1 << 30) - 1;

/// Time before a CPU's last known span in which no decision is made yet: polling may see several
/// spans. No governor polls that long.
const MARGIN: Duration = Duration(250_000_000);

/// Decisions between two checks for cancellation: some ms of work for slow governors.
pub(crate) const DECISIONS_PER_CHECK: usize = 16_384;

/// A sleep that has begun and whose end is known.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub from: Instant,
    pub sleep: Sleep,
    state: usize,
    stop_tick: bool,
    tick_was_stopped: bool,
    sleep_length: Duration,
    entry: Entry,
}

/// Outcome of entering the selected state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Entered,
    /// The hardware entered state `to` instead; `is_undemoted` if it later entered the requested
    /// one.
    Demoted {
        to: u8,
        is_undemoted: bool,
    },
    /// `need_resched()` after `select`: the state was not entered.
    GaveUp,
}

impl Pending {
    /// Returns the state that the hardware enters first, and the one that it leaves.
    fn hardware_states(&self) -> (usize, usize) {
        match self.entry {
            Entry::Demoted { to, is_undemoted: false } => (to.into(), to.into()),
            Entry::Demoted { to, is_undemoted: true } => (to.into(), self.state),
            _ => (self.state, self.state),
        }
    }
}

/// Answer of `tick_nohz_get_sleep_length()`, and whether the tick must stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextEvents {
    pub sleep_length: Duration,
    pub delta_next: Duration,
    pub must_keep_tick: bool,
}

/// Returns the time to the next events as the kernel computes it, from `idle_entrytime`. `jiffy` is
/// the time of the last tick, stopped or not. A timer that is long overdue did not fire, so it was
/// cancelled without an event and does not count.
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

/// Returns true if the span's event makes a task runnable at the moment of the decision, between
/// `select` and the entry. Because deciding takes no time here, entries are given up only then.
#[inline]
pub fn gives_up(span: &Span, now: Instant) -> bool {
    span.wake == now && span.ends_visit
}

/// One CPU on its way through its recorded spans.
pub struct CpuRun<'a> {
    model: &'a CpuModel,
    spans: &'a [Span],
    at: Halt,
    /// Number of spans, and time, up to which decisions are made.
    end: usize,
    until: Instant,
}

/// A run between two of its decisions: all but the model and the spans.
pub struct Halt {
    /// Index of the current span.
    next: usize,
    /// Its value at the decision: polling passes further spans.
    decided_at: u32,
    slot: usize,
    now: Instant,
    /// `ts->idle_entrytime`: set when the idle loop begins and by every interrupt, but not by a
    /// poll time-out.
    idle_entry: Instant,
    tick_stopped: bool,
    /// The last tick at or before `now`, as if it had never been stopped.
    jiffy: Instant,
    tick: Duration,
    /// The governor had armed a timer of its own when the last sleep began. A timer that it arms in
    /// `reflect` counts from the next sleep on.
    timer_armed: bool,
    /// Timers that the governor had started by then.
    timer_starts: u64,
    alarms: Alarms,
    poll_timeout: Instant,
    /// Sleep history, on hardware that demotes.
    history: SleepHistory,
    tally: Tally,
    /// Delay of the work after the last known span, by which the next one begins late.
    behind: Option<Duration>,
}

impl Halt {
    /// Returns a run before its first decision, which is at `start`.
    pub fn new(model: &CpuModel, start: Instant, slot: usize) -> Halt {
        Halt {
            next: 0,
            decided_at: 0,
            slot,
            now: start,
            idle_entry: start,
            tick_stopped: false,
            jiffy: model.tick.floor(start),
            tick: model.tick.hz.tick(),
            timer_armed: false,
            timer_starts: 0,
            alarms: Alarms::NONE,
            poll_timeout: Instant::NEVER,
            history: SleepHistory::default(),
            tally: Tally::new(model),
            behind: None,
        }
    }

    /// Returns the number of spans that the run needs no more.
    pub fn passed(&self) -> usize {
        self.next
    }

    /// Forgets the first `count` spans.
    pub fn drop_spans(&mut self, count: usize) {
        self.next -= count;
    }

    /// Returns the time of the next decision.
    pub fn now(&self) -> Instant {
        self.now
    }

    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    pub fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// Ends the run; the recorded CPU had resumed for the last time at `end`.
    pub fn close(self, model: &CpuModel, end: Instant) -> CpuTotals {
        let overrun = self.now.since(end).max(Duration::ZERO);
        CpuTotals { overrun, ..self.tally.close(model) }
    }
}

impl<'a> CpuRun<'a> {
    pub fn new(model: &'a CpuModel, spans: &'a [Span], slot: usize) -> CpuRun<'a> {
        let start = spans.first().map_or(Instant(0), |s| s.start);
        CpuRun::resume(model, spans, Halt::new(model, start, slot))
    }

    /// Continues a run. `spans` are the previous ones, without the dropped ones and possibly with
    /// new ones.
    pub fn resume(model: &'a CpuModel, spans: &'a [Span], mut at: Halt) -> CpuRun<'a> {
        if let Some(span) = spans.get(at.next) {
            if let Some(behind) = at.behind.take() {
                at.now = span.start + behind;
                at.idle_entry = at.now;
            }
        }
        CpuRun { model, spans, at, end: spans.len(), until: Instant::NEVER }
    }

    /// Ends the run where later spans can change a decision: [`MARGIN`] before the last known one,
    /// which polling may look ahead for.
    pub fn stop_before_last(&mut self) {
        if let Some(last) = self.spans.last() {
            (self.end, self.until) = (self.spans.len() - 1, last.start - MARGIN);
        }
    }

    pub fn halt(self) -> Halt {
        self.at
    }

    pub fn close(self) -> CpuTotals {
        let end = self.spans.last().map_or(self.at.now, |span| span.resume);
        self.at.close(self.model, end)
    }

    /// Returns the time of the next decision; `None` at the end of the run. Skips spans whose event
    /// came before the CPU had finished its earlier work: it did not sleep.
    #[inline]
    pub fn next_decision(&mut self) -> Option<Instant> {
        while self.at.next < self.end && self.at.now > self.spans[self.at.next].wake {
            self.absorb();
        }
        (self.at.next < self.end && self.at.now <= self.until).then_some(self.at.now)
    }

    /// Runs the CPU to the end of its spans.
    pub fn run<P: Policy, O: Observer>(
        &mut self,
        policy: &mut P,
        observer: &mut O,
    ) -> Result<(), Fault> {
        self.run_while(policy, observer, &mut |_| true).map(|_| ())
    }

    /// Runs the CPU to the end of its spans, or until `goes_on`, called now and then with the
    /// spans done, returns false. Returns true at the end. A span may take any number of decisions.
    pub fn run_while<P: Policy, O: Observer>(
        &mut self,
        policy: &mut P,
        observer: &mut O,
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        loop {
            for _ in 0..DECISIONS_PER_CHECK {
                if self.next_decision().is_none() {
                    return Ok(true);
                }
                let pending = self.begin(policy)?;
                self.finish(pending, policy, observer)?;
            }
            if !goes_on(self.at.next) {
                return Ok(false);
            }
        }
    }

    /// Asks the policy and enters the state, given that there is a next decision.
    #[inline(always)]
    pub fn begin<P: Policy>(&mut self, policy: &mut P) -> Result<Pending, Fault> {
        let span = &self.spans[self.at.next];
        self.at.decided_at = self.at.next as u32;
        let mut pending = self.decide(span, policy)?;
        if P::POLLS_ON && self.model.states[pending.state].is_polling {
            // A copy, so that the current one can stay in registers: byte stores followed by a word
            // load cost more than everything else here.
            let mut polls_on = pending;
            self.pass_interrupts(&mut polls_on);
            pending = polls_on;
        }
        Ok(pending)
    }

    /// Wakes up, accounts for the sleep and calls `reflect`.
    #[inline(always)]
    pub fn finish<P: Policy, O: Observer>(
        &mut self,
        pending: Pending,
        policy: &mut P,
        observer: &mut O,
    ) -> Result<(), Fault> {
        if self.wake_up(&self.spans[self.at.next], pending, policy, observer)? {
            self.leave(self.at.now);
        }
        Ok(())
    }

    #[inline(always)]
    fn decide<P: Policy>(&mut self, span: &Span, policy: &mut P) -> Result<Pending, Fault> {
        self.at.jiffy = TickGrid::floor_after(self.at.jiffy, self.at.tick, self.at.now);
        let mut next = next_events(
            span,
            self.at.tick,
            self.at.jiffy,
            self.at.idle_entry,
            self.at.tick_stopped,
        );
        if self.at.timer_armed {
            if let Some(at) = policy.next_timer(self.at.slot) {
                next = self.meet_timer(at, span, policy)?;
            }
        }
        let (state, stop_tick) = self.select(span, &next, policy)?;
        let tick_was_stopped = self.at.tick_stopped;
        if stop_tick && !next.must_keep_tick {
            self.at.tick_stopped = true;
        }
        let starts = policy.timer_starts(self.at.slot);
        if starts != self.at.timer_starts {
            self.at.tally.timers_started(span.opp, starts - self.at.timer_starts);
            self.at.timer_starts = starts;
        }
        let timer = policy.next_timer(self.at.slot);
        self.at.timer_armed = timer.is_some();
        self.at.alarms = Alarms {
            tick: if self.at.tick_stopped { Instant::NEVER } else { self.at.jiffy + self.at.tick },
            timer: timer.unwrap_or(Instant::NEVER),
        };
        let mut entry = if gives_up(span, self.at.now) { Entry::GaveUp } else { Entry::Entered };
        let sleep = if self.model.states[state].is_polling {
            // By its fields, as whatever has an address does not stay in registers.
            let Sleep { resume, end, got_tick, got_timer } = self.poll(span.wake, policy);
            Sleep { resume, end, got_tick, got_timer }
        } else if !self.model.demotions.is_empty() && entry == Entry::Entered {
            let (sleep, demoted) = self.enter_hardware(state, span.wake);
            entry = demoted;
            sleep
        } else {
            self.model.sleep(state, self.at.now, span.wake, self.at.alarms)
        };
        let (from, sleep_length) = (self.at.now, next.sleep_length);
        Ok(Pending { from, sleep, state, stop_tick, tick_was_stopped, sleep_length, entry })
    }

    /// Returns the policy's state, and whether to stop the tick.
    #[inline(always)]
    fn select<P: Policy>(
        &mut self,
        span: &Span,
        next: &NextEvents,
        policy: &mut P,
    ) -> Result<(usize, bool), Fault> {
        let inputs = Inputs {
            now: self.at.now,
            sleep_length: next.sleep_length,
            delta_next: next.delta_next,
            tick_stopped: self.at.tick_stopped,
            latency_req: self.model.latency_limit,
            nr_iowait: u32::from(span.nr_iowait),
            util: after_idling(span.util, self.at.now.passed_since(span.start)),
            capacity: u64::from(self.model.capacity),
            load_avg: self.load_avg(span),
        };
        // With one state the kernel calls no governor and leaves the tick alone.
        if self.model.states.len() <= 1 {
            return Ok((0, false));
        }
        let selection = policy.select(self.at.slot, &inputs)?;
        self.at.tally.asked(span.source);
        let state = usize::try_from(selection.state).expect("the state is in the table");
        Ok((state, selection.stop_tick))
    }

    /// Runqueue load at the last tick: `this_cpu_load()` for tasks of weight 1024. A tick after the
    /// CPU went idle, stopped or not, finds no load. FIDELITY(load-weight): no event shows how nice
    /// tasks are.
    #[inline]
    fn load_avg(&self, span: &Span) -> u64 {
        if self.at.jiffy > span.start { 0 } else { u64::from(span.nr_running) << 10 }
    }

    /// Handles a policy's timer that is still armed: it expired while the CPU was busy, or is one
    /// of the next events.
    #[cold]
    fn meet_timer<P: Policy>(
        &mut self,
        at: Instant,
        span: &Span,
        policy: &mut P,
    ) -> Result<NextEvents, Fault> {
        let mut armed = Some(at);
        if at <= self.at.now {
            policy.fire_timer(self.at.slot, self.at.now)?;
            armed = policy.next_timer(self.at.slot);
        }
        let next_hrtimer = span.next_hrtimer.min(armed.unwrap_or(Instant::NEVER));
        let span = Span { next_hrtimer, ..*span };
        Ok(next_events(
            &span,
            self.at.tick,
            self.at.jiffy,
            self.at.idle_entry,
            self.at.tick_stopped,
        ))
    }

    #[cold]
    fn poll<P: Policy>(&mut self, wake: Instant, policy: &mut P) -> Sleep {
        let limit = policy.poll_limit(self.at.slot, self.model.default_poll_limit);
        if limit != self.model.default_poll_limit {
            self.at.tally.poll_limit_set();
        }
        self.at.poll_timeout = self.model.poll_timeout(self.at.now, limit);
        self.model.poll(self.at.now, wake, self.at.alarms, self.at.poll_timeout)
    }

    /// Enters `state` on hardware that may demote it.
    #[cold]
    fn enter_hardware(&self, state: usize, wake: Instant) -> (Sleep, Entry) {
        let to = self.at.history.got(state, self.model.demotion(state));
        if to == state {
            return (self.model.sleep(state, self.at.now, wake, self.at.alarms), Entry::Entered);
        }
        let (sleep, is_undemoted) =
            self.model.sleep_demoted((state, to), self.at.now, wake, self.at.alarms);
        (sleep, Entry::Demoted { to: to as u8, is_undemoted })
    }

    /// Handles interrupts that wake no task while the CPU polls; polling continues.
    #[cold]
    fn pass_interrupts(&mut self, pending: &mut Pending) {
        let mut wake = self.spans[self.at.next].wake;
        while wake <= self.at.poll_timeout {
            let span = &self.spans[self.at.next];
            let Some(following) = self.spans.get(self.at.next + 1) else { break };
            if span.ends_visit || span.is_resched {
                break;
            }
            self.at.tally.resumed(wake.since(span.resume));
            self.at.tally.poll_interrupted();
            self.at.tally.woken(0, Duration::ZERO, self.model.states[0].exit_latency);
            let handled = wake + following.start.since(span.resume);
            self.at.next += 1;
            self.at.idle_entry = handled;
            wake = following.wake.max(handled);
            // The loop sees neither the clock nor the next interrupt before this one is handled.
            self.at.poll_timeout = self.at.poll_timeout.max(handled);
            pending.sleep =
                self.model.poll(pending.from, wake, self.at.alarms, self.at.poll_timeout);
        }
    }

    /// Returns true if the span's event has come.
    #[inline(always)]
    fn wake_up<P: Policy, O: Observer>(
        &mut self,
        span: &Span,
        pending: Pending,
        policy: &mut P,
        observer: &mut O,
    ) -> Result<bool, Fault> {
        let Pending { from, sleep, state, .. } = pending;
        if pending.entry == Entry::GaveUp {
            policy.gave_up(self.at.slot);
            self.at.tally.absorbed();
            return Ok(true);
        }
        let residency = sleep.resume.passed_since(from);
        let verdict = self.model.verdict(state, residency);
        if self.model.demotions.is_empty() {
            self.at.tally.slept(span.opp, state, from, sleep.resume, verdict);
        } else {
            self.at.history.slept(state, self.model.demotion(state), residency);
            // A copy, as in `begin`.
            let copy = pending;
            self.count_hardware_sleep(span, &copy, verdict);
        }
        let (now, latency) = self.count_wakeup(span, state, &sleep);
        if observer.wants(self.at.slot) {
            let copy = pending;
            observer.decision(&self.decision(span, &copy, verdict, latency));
        }
        if sleep.got_timer {
            policy.fire_timer(self.at.slot, sleep.resume)?;
        }
        if self.model.states.len() > 1 {
            let is_polling = self.model.states[state].is_polling;
            let reflection = Reflection {
                state: state as i32,
                residency,
                poll_timed_out: is_polling.then_some(sleep.end == SleepEnd::PollTimeout),
                now,
                got_tick: sleep.got_tick,
            };
            policy.reflect(self.at.slot, &reflection)?;
        }
        self.at.now = now;
        match sleep.end {
            SleepEnd::Event => {}
            SleepEnd::Tick | SleepEnd::GovernorTimer => self.at.idle_entry = now,
            SleepEnd::PollTimeout => {
                if sleep.got_tick {
                    // The tick interrupted the polling.
                    let tick = TickGrid::floor_after(self.at.jiffy, self.at.tick, now);
                    self.at.idle_entry = self.at.idle_entry.max(tick);
                }
            }
        }
        Ok(sleep.end == SleepEnd::Event)
    }

    /// Counts the end of a sleep. Returns the time after the tick's interrupt, which is handled
    /// before the governor reflects, and the latency of a wake-up by the event.
    #[inline(always)]
    fn count_wakeup(
        &mut self,
        span: &Span,
        state: usize,
        sleep: &Sleep,
    ) -> (Instant, Option<Duration>) {
        let entered = &self.model.states[state];
        match sleep.end {
            SleepEnd::Event => {
                let latency = sleep.resume.passed_since(span.wake);
                self.at.tally.woken(state, latency, entered.exit_latency);
                if entered.is_polling && span.is_resched {
                    self.at.tally.ipi_saved();
                }
                return (sleep.resume, Some(latency));
            }
            SleepEnd::Tick => self.at.tally.ticked(span.opp),
            SleepEnd::GovernorTimer => self.at.tally.timer_expired(span.opp),
            SleepEnd::PollTimeout => {
                self.at.tally.poll_timed_out();
                return (sleep.resume, None);
            }
        }
        (sleep.resume + self.model.tick_handling, None)
    }

    #[cold]
    fn count_hardware_sleep(&mut self, span: &Span, pending: &Pending, verdict: Verdict) {
        let Pending { from, state, sleep, .. } = *pending;
        if let Entry::Demoted { .. } = pending.entry {
            let parts = self.parts(pending);
            self.at.tally.slept_demoted(span.opp, state, (from, sleep.resume), verdict, parts);
        } else {
            self.at.tally.slept(span.opp, state, from, sleep.resume, verdict);
        }
    }

    /// Returns the states that the hardware was in, in order, and the time in each.
    fn parts(&self, pending: &Pending) -> impl Iterator<Item = (usize, Duration)> + use<> {
        let (first, last) = pending.hardware_states();
        let undemoted_at = self.model.undemoted_at(pending.state, pending.from);
        let then = undemoted_at.filter(|_| first != last).map(|at| (last, at));
        hardware_parts((first, pending.from), then, pending.sleep.resume)
    }

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
            Entry::Demoted { .. } => {
                self.parts(pending).map(|(state, time)| costs.sleep(span.opp, state, time)).sum()
            }
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
            slot: self.at.slot,
            span: self.at.decided_at,
            from,
            resume: sleep.resume,
            state: state as u8,
            got: pending.hardware_states().1 as u8,
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

    #[cold]
    fn absorb(&mut self) {
        self.at.tally.absorbed();
        self.leave(self.at.now);
    }

    /// Starts the work of the current span's event at `resume`, and moves to the next span.
    #[inline(always)]
    fn leave(&mut self, resume: Instant) {
        let span = &self.spans[self.at.next];
        self.at.tally.resumed(resume.passed_since(span.resume));
        self.at.next += 1;
        if let Some(following) = self.spans.get(self.at.next) {
            self.at.now = resume + following.start.passed_since(span.resume);
            self.at.idle_entry = self.at.now;
        } else {
            self.at.behind = Some(resume.since(span.resume));
        }
        if span.ends_visit {
            self.at.tick_stopped = false;
        }
    }
}
