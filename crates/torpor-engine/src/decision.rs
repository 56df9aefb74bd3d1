// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Single decisions, for observers.

use crate::input::{SleepSource, WakeStamp};
use crate::model::{SleepEnd, Verdict};
use torpor_governor::SharedCount;
use torpor_machine::units::{Duration, Energy, Instant};

/// One pass through the idle loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Decision {
    pub slot: usize,
    /// Index of the CPU's span at the decision; 0 in a simulation.
    pub span: u32,
    pub from: Instant,
    pub resume: Instant,
    pub state: u8,
    /// The state that the hardware was in at the end; it may have demoted the request.
    pub got: u8,
    /// OPP of the CPU at the end of the sleep.
    pub opp: u16,
    pub stop_tick: bool,
    pub tick_was_stopped: bool,
    pub sleep_length: Duration,
    /// Time to the next tick, if it was running.
    pub to_tick: Option<Duration>,
    pub util: u64,
    pub nr_iowait: u16,
    /// The event that ends the idle span, and the source of its time.
    pub event: Instant,
    pub stamp: WakeStamp,
    /// The event brought a task from another CPU.
    pub is_resched: bool,
    /// Energy of the sleep and of the tick or timer that ended it, and the part of the sleep's
    /// energy that the cheapest state for its length would have saved.
    pub energy: Energy,
    pub regret: Energy,
    pub source: SleepSource,
    pub verdict: Verdict,
    pub end: SleepEnd,
    /// Time from the event until the CPU runs; only for sleeps that an event ended.
    pub latency: Option<Duration>,
}

/// Receives decisions as they are made.
pub trait Observer {
    fn wants(&self, slot: usize) -> bool;
    fn decision(&mut self, decision: &Decision);
}

/// Observes nothing, at no cost.
pub struct Unobserved;

impl Observer for Unobserved {
    #[inline(always)]
    fn wants(&self, _: usize) -> bool {
        false
    }
    fn decision(&mut self, _: &Decision) {}
}

/// Most decisions that a replay keeps, of all governors together.
pub const DECISIONS_MAX: u64 = if cfg!(test) { 100_000 } else { 10_000_000 };

/// Decisions kept so far, counted across all threads and processes of a replay.
pub struct Room {
    /// Absent where none are kept.
    kept: Option<SharedCount>,
}

/// Decisions that are counted at once.
const LOT: u64 = 256;

/// Excess over the limit that ends a run early: more than all unused lots.
const SLACK: u64 = if cfg!(test) { 40 } else { 4_096 } * LOT;

impl Room {
    pub fn new(keeps: bool) -> std::io::Result<Room> {
        Ok(Room { kept: keeps.then(SharedCount::new).transpose()? })
    }

    fn add(&self, decisions: u64) {
        if let Some(kept) = &self.kept {
            kept.add(decisions);
        }
    }

    /// Returns decisions that were kept and are now dropped.
    pub fn give_back(&self, decisions: usize) {
        self.add((decisions as u64).wrapping_neg());
    }

    /// Returns true if the limit is certainly exceeded, so that runs may stop.
    pub fn is_over(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.get() > DECISIONS_MAX + SLACK)
    }
}

/// Keeps the first decisions of each slot.
pub struct Keep<'a> {
    /// Decisions still to keep in each slot; later slots have none.
    most: Vec<usize>,
    room: Option<&'a Room>,
    /// Rest of the current lot.
    left: u64,
    /// By slot.
    pub decisions: Vec<Vec<Decision>>,
}

impl<'a> Keep<'a> {
    pub fn new(most: Vec<usize>, room: Option<&'a Room>) -> Keep<'a> {
        let decisions = vec![Vec::new(); most.len()];
        Keep { most, room, left: 0, decisions }
    }

    /// Returns true if there is room for one more decision.
    fn counts(&mut self) -> bool {
        let Some(room) = self.room else { return true };
        if self.left == 0 {
            if room.is_over() {
                return false;
            }
            room.add(LOT);
            self.left = LOT;
        }
        self.left -= 1;
        true
    }
}

impl Observer for Keep<'_> {
    fn wants(&self, slot: usize) -> bool {
        self.most.get(slot).is_some_and(|most| *most > 0)
    }
    fn decision(&mut self, decision: &Decision) {
        self.most[decision.slot] -= 1;
        if self.counts() {
            self.decisions[decision.slot].push(*decision);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DECISIONS_MAX;
    use crate::{EngineError, Options, Request, Unwatched, run};
    use std::path::Path;
    use torpor_governor::{Catalog, CatalogOptions, Isolation};

    /// Replays the demo under several governors, and returns the number of decisions kept.
    fn kept(governors: usize, isolation: Isolation) -> Result<u64, EngineError> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let options = Options { decisions: true, threads: Some(1), ..Options::default() };
        let request = Request {
            traces: vec![root.join("demo/web-server.perf.data")],
            platform: torpor_machine::platform::resolve("i5-10600k").unwrap(),
            governors: vec!["shallowest".parse().unwrap(); governors],
            options,
        };
        let catalog = Catalog::new(CatalogOptions { isolation, ..CatalogOptions::default() });
        let outcome = run(&request, &catalog, &Unwatched)?;
        Ok(outcome.traces[0].decisions.iter().map(|of_one| of_one.len() as u64).sum())
    }

    #[test]
    fn more_decisions_than_can_be_kept_are_refused() {
        for isolation in [Isolation::None, Isolation::All] {
            let alone = kept(1, isolation).unwrap();
            assert!((1..DECISIONS_MAX).contains(&alone), "{alone}");
            let enough = (DECISIONS_MAX / alone) as usize;
            assert_eq!(kept(enough, isolation).unwrap(), enough as u64 * alone);
            // The excess shows at the end, or earlier.
            for governors in [enough + 1, 2 * enough] {
                let error = kept(governors, isolation).unwrap_err();
                let is_refused = matches!(error, EngineError::TooManyDecisions { .. });
                assert!(
                    is_refused && error.to_string().contains("web-server.perf.data"),
                    "{error}"
                );
            }
        }
    }
}
