// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Single decisions, for those who ask to see them.

use crate::input::SleepSource;
use crate::model::{SleepEnd, Verdict};
use torpor_units::{Duration, Instant};

/// One pass through the idle loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub slot: usize,
    pub from: Instant,
    pub resume: Instant,
    pub state: u8,
    /// Of the CPU's clock at the end.
    pub opp: u16,
    pub stop_tick: bool,
    pub tick_was_stopped: bool,
    pub sleep_length: Duration,
    pub source: SleepSource,
    pub verdict: Verdict,
    pub end: SleepEnd,
    /// From the event to the CPU running; only for sleeps an event ended.
    pub latency: Option<Duration>,
}

/// Watches decisions as they are made.
pub trait Observer {
    fn wants(&self, slot: usize) -> bool;
    fn decision(&mut self, decision: &Decision);
}

/// Watches nothing, and costs nothing.
pub struct Unobserved;

impl Observer for Unobserved {
    #[inline(always)]
    fn wants(&self, _: usize) -> bool {
        false
    }
    fn decision(&mut self, _: &Decision) {}
}

/// Whose decisions are kept.
#[derive(Clone, Copy)]
pub enum Kept {
    None,
    /// Of one seat.
    One(usize),
    All,
}

impl Kept {
    pub fn keeps(self, seat: usize) -> bool {
        match self {
            Kept::None => false,
            Kept::One(one) => one == seat,
            Kept::All => true,
        }
    }
}

/// Keeps the decisions that are wanted, in one list.
pub struct Keep {
    kept: Kept,
    pub decisions: Vec<Decision>,
}

impl Keep {
    pub fn new(kept: Kept) -> Keep {
        Keep { kept, decisions: Vec::new() }
    }
}

impl Observer for Keep {
    fn wants(&self, slot: usize) -> bool {
        self.kept.keeps(slot)
    }
    fn decision(&mut self, decision: &Decision) {
        self.decisions.push(*decision);
    }
}
