// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Policies: a hosted governor, or a script of decisions.

use torpor_governor::{Fault, Inputs, Instance, Selection};
use torpor_machine::units::{Duration, Instant};

/// Outcome of a sleep, as `cpuidle_reflect()` and the device structure report it to a governor.
#[derive(Clone, Copy, Debug)]
pub struct Reflection {
    pub state: i32,
    pub residency: Duration,
    /// For a polling state: whether it reached its limit (`dev->poll_time_limit`).
    pub poll_timed_out: Option<bool>,
    /// `local_clock()` when the governor reflects.
    pub now: Instant,
    pub got_tick: bool,
}

/// Picks idle states for the CPU in a given slot.
pub trait Policy {
    fn select(&mut self, slot: usize, inputs: &Inputs) -> Result<Selection, Fault>;

    fn reflect(&mut self, _slot: usize, _reflection: &Reflection) -> Result<(), Fault> {
        Ok(())
    }

    /// An interrupt that wakes no task leaves a polling CPU polling, as in the kernel.
    const POLLS_ON: bool = true;

    /// Returns the polling limit: `dev->poll_limit_ns`, which `cpuidle_poll_time()` sets to
    /// `default` if the governor has not set it.
    fn poll_limit(&mut self, _slot: usize, default: Duration) -> Duration {
        default
    }

    /// Returns the expiry of the first timer that the policy itself has armed on the CPU.
    #[inline]
    fn next_timer(&self, _slot: usize) -> Option<Instant> {
        None
    }

    /// Returns the number of timers that the policy has started on the CPU so far.
    #[inline]
    fn timer_starts(&self, _slot: usize) -> u64 {
        0
    }

    /// Expires the CPU's timers that are due at `now`.
    fn fire_timer(&mut self, _slot: usize, _now: Instant) -> Result<(), Fault> {
        Ok(())
    }

    /// Reports that the CPU had something to run after `select`, so the state was not entered. As
    /// in the kernel, the residency is 0 and there is no reflection; the governor can see it at its
    /// next `select`.
    fn gave_up(&mut self, _slot: usize) {}
}

impl Policy for Instance {
    #[inline(always)]
    fn select(&mut self, slot: usize, inputs: &Inputs) -> Result<Selection, Fault> {
        Instance::select(self, slot, inputs)
    }

    #[inline(always)]
    fn reflect(&mut self, slot: usize, reflection: &Reflection) -> Result<(), Fault> {
        self.set_last_residency(slot, reflection.residency);
        // Only the polling state sets this flag.
        if let Some(timed_out) = reflection.poll_timed_out {
            self.set_poll_time_limit(slot, timed_out);
        }
        Instance::reflect(self, slot, reflection.state, reflection.now, reflection.got_tick)
    }

    #[inline]
    fn poll_limit(&mut self, slot: usize, default: Duration) -> Duration {
        match self.poll_limit_ns(slot) {
            0 => {
                self.set_poll_limit_ns(slot, default.0 as u64);
                default
            }
            set => Duration(i64::try_from(set).unwrap_or(i64::MAX)),
        }
    }

    #[inline]
    fn next_timer(&self, slot: usize) -> Option<Instant> {
        Instance::next_timer(self, slot)
    }

    #[inline]
    fn timer_starts(&self, slot: usize) -> u64 {
        Instance::timer_starts(self, slot)
    }

    #[cold]
    fn fire_timer(&mut self, slot: usize, now: Instant) -> Result<(), Fault> {
        Instance::fire_timer(self, slot, now)
    }

    fn gave_up(&mut self, slot: usize) {
        self.set_last_residency(slot, Duration::ZERO);
    }
}

/// Decisions made beforehand for a single CPU, one per call.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub choices: Choices,
    /// The current part, the next choice in it, and the laps done.
    part: usize,
    next: u32,
    laps: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub state: u8,
    pub stop_tick: bool,
}

/// Choices in order. A sleep of days takes millions of choices, which repeat the same few: a
/// part is such a repetition.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    pool: Vec<Choice>,
    parts: Vec<Part>,
}

/// Consecutive choices of the pool, repeated `times` times.
#[derive(Clone, Copy, Debug)]
struct Part {
    at: u32,
    len: u32,
    times: u64,
}

impl Choices {
    pub fn push(&mut self, choices: &[Choice], times: u64) {
        let &[first, ..] = choices else { return };
        if choices.iter().any(|&choice| choice != first) {
            return self.part(choices, times);
        }
        let times = times * choices.len() as u64;
        let last = self.parts.last_mut().filter(|last| last.len == 1);
        match last.filter(|last| self.pool[last.at as usize] == first) {
            Some(last) => last.times += times,
            None => self.part(&[first], times),
        }
    }

    fn part(&mut self, choices: &[Choice], times: u64) {
        let (at, len) = (self.pool.len() as u32, choices.len() as u32);
        self.pool.extend(choices);
        self.parts.push(Part { at, len, times });
    }

    /// Reverses the parts, for choices that were found from the end.
    pub fn reverse(&mut self) {
        self.parts.reverse();
    }

    /// Returns each part with its number of repetitions.
    pub fn parts(&self) -> impl Iterator<Item = (&[Choice], u64)> {
        let of = |part: &Part| &self.pool[part.at as usize..][..part.len as usize];
        self.parts.iter().map(move |part| (of(part), part.times))
    }
}

impl Script {
    pub fn of(choices: Choices) -> Script {
        Script { choices, part: 0, next: 0, laps: 0 }
    }
}

/// A script for each CPU.
impl Policy for Vec<Script> {
    const POLLS_ON: bool = Script::POLLS_ON;

    #[inline]
    fn select(&mut self, slot: usize, inputs: &Inputs) -> Result<Selection, Fault> {
        self[slot].select(slot, inputs)
    }
}

impl Policy for Script {
    /// The oracle decides again after each interrupt, polling or not.
    const POLLS_ON: bool = false;

    fn select(&mut self, _: usize, _: &Inputs) -> Result<Selection, Fault> {
        let Part { at, len, times } = self.choices.parts[self.part];
        let choice = self.choices.pool[(at + self.next) as usize];
        self.next += 1;
        if self.next == len {
            (self.next, self.laps) = (0, self.laps + 1);
            if self.laps >= times {
                (self.part, self.laps) = (self.part + 1, 0);
            }
        }
        Ok(Selection {
            state: i32::from(choice.state),
            stop_tick: choice.stop_tick,
            asked_sleep_length: true,
        })
    }
}
