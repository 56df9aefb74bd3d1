// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Single decisions, for those who ask to see them.

use crate::input::{SleepSource, WakeStamp};
use crate::model::{SleepEnd, Verdict};
use torpor_units::{Duration, Energy, Instant};

/// One pass through the idle loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Decision {
    pub slot: usize,
    /// The idleness it is part of: its number among the CPU's. A simulation does not count them.
    pub span: u32,
    pub from: Instant,
    pub resume: Instant,
    pub state: u8,
    /// Of the CPU's clock at the end.
    pub opp: u16,
    pub stop_tick: bool,
    pub tick_was_stopped: bool,
    pub sleep_length: Duration,
    /// To the next tick, if it was running.
    pub to_tick: Option<Duration>,
    pub util: u64,
    pub nr_iowait: u16,
    /// The event that ends the idleness, and how its moment is known.
    pub event: Instant,
    pub stamp: WakeStamp,
    /// The event brought a task of another CPU's.
    pub is_resched: bool,
    /// Of the sleep and of the tick or timer that it ended with; what of the sleep's is more than
    /// the cheapest state for its length would have taken.
    pub energy: Energy,
    pub regret: Energy,
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
