// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Recorded facts about one decision: the governor's inputs and the outcome.

use crate::input::SleepClass;
use crate::model::Verdict;
use torpor_governor::Inputs;
use torpor_machine::units::{CpuId, Duration, Instant};

/// Whether `tick_nohz_next_event()` was bound to the next tick regardless of timers, as by RCU and
/// pending softirqs, and the evidence for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// A probe saw `rcu_needs_cpu()`, or `tick_nohz_next_event()` itself.
    Probed(bool),
    /// The tick was stopped after the decision, so nothing held it.
    Stopped,
    /// The RCU softirq was raised recently, or not.
    StandIn(bool),
}

/// Source of a decision's sleep length.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub(super) enum LengthSource {
    /// A return probe on `tick_nohz_get_sleep_length()`.
    Probe,
    /// Events of the armed timers.
    Timers,
    /// Time to the tick: a wheel timer was due within it, or a probe showed that RCU kept it.
    Tick,
    /// Time to the tick: RCU is assumed to have kept it.
    Rcu,
    /// Time to the tick: the governor asked to stop it, but it continued.
    TickWentOn,
    /// The value that the stopped tick's timer was set to after the decision.
    StoppedTick,
}

impl LengthSource {
    pub(super) const ALL: [LengthSource; 6] = [
        LengthSource::Probe,
        LengthSource::Timers,
        LengthSource::Tick,
        LengthSource::Rcu,
        LengthSource::TickWentOn,
        LengthSource::StoppedTick,
    ];

    pub(super) const fn key(self) -> &'static str {
        match self {
            LengthSource::Probe => "probe",
            LengthSource::Timers => "timers",
            LengthSource::Tick => "tick",
            LengthSource::Rcu => "rcu_stand_in",
            LengthSource::TickWentOn => "tick_went_on",
            LengthSource::StoppedTick => "stopped_tick",
        }
    }

    /// Returns the class of the source. The tick's timer is recorded, but that RCU kept the tick, or
    /// that it continued, is inferred.
    pub(super) const fn class(self) -> SleepClass {
        match self {
            LengthSource::Probe
            | LengthSource::Timers
            | LengthSource::Tick
            | LengthSource::StoppedTick => SleepClass::Recorded,
            LengthSource::Rcu | LengthSource::TickWentOn => SleepClass::Guessed,
        }
    }
}

/// The kernel's state at the select call, rebuilt from events up to the idle entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// `local_clock()`.
    pub clock: Instant,
    /// `ts->idle_entrytime`.
    pub idle_entry: Instant,
    /// The earliest hrtimer, without the tick's.
    pub next_hrtimer: Instant,
    /// The timer wheel's next event. If the tick was stopped after the decision, the value of the
    /// tick's timer, which includes everything that held the tick.
    pub next_wheel: Instant,
    /// The tick's own timer.
    pub tick: Instant,
    /// The last tick before.
    pub jiffy: Instant,
    pub tick_period: Duration,
    pub tick_was_stopped: bool,
    /// The tick was stopped when the CPU went to sleep.
    pub tick_is_stopped: bool,
    pub hold: Hold,
    /// Return value of `tick_nohz_get_sleep_length()`, from a probe.
    pub probed: Option<Duration>,
    /// Return value of `sched_cpu_util()`, from a probe.
    pub probed_util: Option<u64>,
    pub util: u64,
    pub nr_iowait: u32,
}

/// Largest error of an estimated `idle_entrytime`, from a host that stalls between two events.
const ENTRY_ERROR_MAX: Duration = Duration::from_us(100);

impl Asked {
    /// Returns the answer of `tick_nohz_get_sleep_length()` and its source. `went_on`: something
    /// must have kept the tick, because the governor asked to stop it in vain.
    pub(super) fn sleep_length(&self, went_on: bool) -> (Duration, LengthSource) {
        let now = self.idle_entry;
        if let Some(probed) = self.probed {
            return (probed, LengthSource::Probe);
        }
        if self.tick_was_stopped || self.tick_is_stopped {
            let timer = self.next_wheel.min(self.next_hrtimer);
            return (timer.since(now), LengthSource::StoppedTick);
        }
        let held = match self.hold {
            Hold::Probed(held) => held.then_some(LengthSource::Tick),
            Hold::StandIn(held) => held.then_some(LengthSource::Rcu),
            Hold::Stopped => None,
        };
        let near = self.next_wheel <= self.jiffy + self.tick_period;
        let source = held
            .or(near.then_some(LengthSource::Tick))
            .or(went_on.then_some(LengthSource::TickWentOn));
        match source {
            Some(source) => (self.delta_next(), source),
            None => (self.next_wheel.min(self.next_hrtimer).since(now), LengthSource::Timers),
        }
    }

    /// Returns the time to the timer that the CPU's clock event device was programmed for.
    pub(super) fn delta_next(&self) -> Duration {
        self.tick.min(self.next_hrtimer).since(self.idle_entry)
    }

    /// Corrects `idle_entry`: the probe's answer is the time from it to a timer whose expiry is
    /// known, which gives it to the nanosecond.
    pub(super) fn refined(mut self) -> Asked {
        let Some(probed) = self.probed else { return self };
        let guess = self.idle_entry;
        let timers = [self.next_wheel, self.next_hrtimer, self.tick];
        let moments = timers.into_iter().filter(|t| *t != Instant::NEVER).map(|t| t - probed);
        let off = |moment: &Instant| moment.0.saturating_sub(guess.0).saturating_abs();
        if let Some(moment) = moments.min_by_key(off).filter(|m| off(m) <= ENTRY_ERROR_MAX.0) {
            self.idle_entry = moment;
        }
        self
    }

    /// Returns true if it is unknown what sleep length a governor saw that asked in vain to stop
    /// the tick.
    pub(super) fn is_undecided(&self) -> bool {
        self.probed.is_none()
            && !self.tick_was_stopped
            && self.hold == Hold::StandIn(false)
            && self.next_wheel > self.jiffy + self.tick_period
    }

    pub(super) fn inputs(&self, sleep_length: Duration, limit: Duration, capacity: u32) -> Inputs {
        Inputs {
            now: self.clock,
            sleep_length,
            delta_next: self.delta_next(),
            tick_stopped: self.tick_was_stopped,
            latency_req: limit,
            nr_iowait: self.nr_iowait,
            util: self.util,
            capacity: u64::from(capacity),
            // Kernels that can be recorded have no `this_cpu_load()`; a governor that calls it gets
            // the utilization.
            load_avg: self.util,
        }
    }
}

/// Arguments that `cpuidle_reflect()` passed to the governor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reflected {
    /// The state that was entered.
    pub state: usize,
    /// `dev->last_residency_ns`.
    pub residency: Duration,
    pub got_tick: bool,
    /// Time between the events.
    pub between: Duration,
    pub is_polling: bool,
    /// The CPU went from this sleep to a task, without asking the governor again.
    pub ran_task: bool,
    /// `local_clock()`.
    pub clock: Instant,
    pub verdict: Verdict,
}

/// One decision of the recorded governor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recorded {
    pub cpu: CpuId,
    /// Position of the CPU among those that the recording shows idle.
    pub slot: usize,
    /// Time of the entry; if the state was not entered, time at which `cpuidle_select()` returned.
    pub at: Instant,
    /// The governor's answer.
    pub state: usize,
    /// The state that was entered: the answer, or a shallower one if that entry failed. `None` for
    /// a hidden select: the CPU had something to run by then.
    pub entered: Option<usize>,
    pub asked: Asked,
    /// `None` if the recording ends first or an event is missing.
    pub reflected: Option<Reflected>,
}

/// Events of the recorded governor, in order, with indices of decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Ask(usize),
    Reflect(usize),
    /// The governor was enabled again and has lost what it learned.
    Reset,
}

/// A recording as its governor's calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    pub decisions: Vec<Recorded>,
    pub steps: Vec<Step>,
    /// First decision of a governor whose history is known; 0 without a reset.
    pub known_from: usize,
    pub resets: u64,
}
