// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Single decisions, for those who ask to see them.

use crate::input::{SleepSource, WakeStamp};
use crate::model::{SleepEnd, Verdict};
use torpor_governor::SharedCount;
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

/// So many decisions of a recording are kept at most, of all governors together.
pub const DECISIONS_MAX: u64 = 10_000_000;

/// What of decisions is wanted beside their sums.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub kept: Kept,
    /// What the policy takes for them.
    pub times: bool,
}

/// Which decisions are kept.
#[derive(Clone, Copy)]
pub enum Kept {
    None,
    /// The first of one seat.
    First {
        seat: usize,
        most: usize,
    },
    All,
}

impl Kept {
    pub fn keeps(self, seat: usize) -> bool {
        match self {
            Kept::None => false,
            Kept::First { seat: one, .. } => one == seat,
            Kept::All => true,
        }
    }

    /// The same of a seat that runs in this slot.
    pub fn in_slot(self, slot: usize) -> Kept {
        match self {
            Kept::First { most, .. } => Kept::First { seat: slot, most },
            Kept::None | Kept::All => self,
        }
    }

    fn most(self) -> usize {
        match self {
            Kept::First { most, .. } => most,
            Kept::None | Kept::All => usize::MAX,
        }
    }
}

/// What is left of [`DECISIONS_MAX`], for all threads and processes of a replay.
pub struct Room {
    kept: SharedCount,
}

/// Decisions that are counted at once.
const LOT: u64 = 256;

/// So much too much ends the run before its end: more than all lots that are not used up.
const SLACK: u64 = 4_096 * LOT;

impl Room {
    pub fn new() -> std::io::Result<Room> {
        Ok(Room { kept: SharedCount::new()? })
    }

    /// Kept decisions are dropped.
    pub fn give_back(&self, decisions: usize) {
        self.kept.add((decisions as u64).wrapping_neg());
    }

    /// It is over for sure: whoever runs may stop.
    pub fn is_over(&self) -> bool {
        self.kept.get() > DECISIONS_MAX + SLACK
    }
}

/// Keeps the decisions that are wanted, in one list.
pub struct Keep<'a> {
    kept: Kept,
    room: Option<&'a Room>,
    /// Of the last lot.
    left: u64,
    pub decisions: Vec<Decision>,
}

impl<'a> Keep<'a> {
    pub fn new(kept: Kept, room: Option<&'a Room>) -> Keep<'a> {
        Keep { kept, room, left: 0, decisions: Vec::new() }
    }

    /// Whether there is room for one more.
    fn counts(&mut self) -> bool {
        let Some(room) = self.room else { return true };
        if self.left == 0 {
            if room.is_over() {
                return false;
            }
            room.kept.add(LOT);
            self.left = LOT;
        }
        self.left -= 1;
        true
    }
}

impl Observer for Keep<'_> {
    fn wants(&self, slot: usize) -> bool {
        self.kept.keeps(slot) && self.decisions.len() < self.kept.most()
    }
    fn decision(&mut self, decision: &Decision) {
        if self.counts() {
            self.decisions.push(*decision);
        }
    }
}
