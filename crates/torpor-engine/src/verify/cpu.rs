// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One CPU between events: its place in the idle loop, and what the governor has not seen yet.

use super::recorded::Recorded;
use super::tick::TickTimer;
use torpor_machine::units::{Duration, Instant};

/// Evidence for the time at which `ts->idle_entrytime` was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdleEntry {
    /// Shortly after the switch to the idle task, or after the idle loop's restart.
    LoopBegan(Instant),
    /// At the end of the interrupt whose last event this is.
    InterruptEnded(Instant),
    /// From a probe.
    Probed(Instant),
}

/// Answers of probed functions since the last call of the governor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    pub sleep_length: Option<Duration>,
    pub next_event: Option<i64>,
    pub rcu_needs_cpu: Option<bool>,
    pub util: Option<u64>,
}

/// A sleep that has begun, and its decision if a governor made one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asleep {
    pub decision: usize,
    pub was_interrupted: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Cpu {
    /// Position among the machine's CPUs; `None` for one that never sleeps.
    pub slot: Option<usize>,
    pub is_idle: bool,
    pub idle_entry: IdleEntry,
    /// `local_clock()` when the governor last reflected, or the loop began.
    pub clock: Instant,
    pub tick: TickTimer,
    pub got_tick: bool,
    pub rcu_raised: Option<Instant>,
    pub answers: Answers,
    /// `cpuidle_select()` has returned and the state has not been entered.
    pub selected: Option<Recorded>,
    pub asleep: Option<Asleep>,
    /// The decision whose sleep has ended and that the governor has not reflected.
    pub unreflected: Option<usize>,
}

impl Cpu {
    pub(super) fn new(slot: Option<usize>, start: Instant) -> Cpu {
        Cpu {
            slot,
            is_idle: false,
            idle_entry: IdleEntry::LoopBegan(start),
            clock: start,
            tick: TickTimer::default(),
            got_tick: false,
            rcu_raised: None,
            answers: Answers::default(),
            selected: None,
            asleep: None,
            unreflected: None,
        }
    }

    /// `tick_nohz_idle_enter()`.
    pub(super) fn begin_loop(&mut self, at: Instant) {
        self.is_idle = true;
        self.idle_entry = IdleEntry::LoopBegan(at);
        self.clock = at;
        self.answers = Answers::default();
    }

    /// Notes an event of an interrupt: each interrupt in the idle loop renews `idle_entrytime`.
    pub(super) fn interrupted(&mut self, at: Instant) {
        if !self.is_idle {
            return;
        }
        self.idle_entry = IdleEntry::InterruptEnded(at);
        if let Some(asleep) = &mut self.asleep {
            asleep.was_interrupted = true;
        }
        if self.unreflected.is_some() {
            self.clock = at;
        }
    }
}
