// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The recorded kernel's tick: rate, phase and timer.

use std::collections::{BTreeMap, BTreeSet};
use torpor_machine::units::{Duration, Hz, Instant, NSEC_PER_SEC};
use torpor_trace::{Event, EventKind, FunctionId, SoFar, Timer};

/// Ticks happen at `phase + n·TICK_NSEC`, on every CPU alike (no `skew_tick`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickGrid {
    pub hz: Hz,
    pub phase: Duration,
}

impl TickGrid {
    pub fn new(hz: Hz, phase: Duration) -> TickGrid {
        TickGrid { hz, phase: Duration(phase.0.rem_euclid(hz.tick().0)) }
    }

    /// Returns the last tick at or before `time`.
    #[inline]
    pub fn floor(self, time: Instant) -> Instant {
        let tick = self.hz.tick().0;
        Instant(time.0 - (time.0 - self.phase.0).rem_euclid(tick))
    }

    /// Returns the last tick at or before `time`; `before` is an earlier tick. Saves the division
    /// if `time` is near, as it often is from sleep to sleep.
    #[inline]
    pub fn floor_after(before: Instant, tick: Duration, time: Instant) -> Instant {
        let (behind, tick) = ((time.0 - before.0) as u64, tick.0 as u64);
        if behind < tick {
            before
        } else if behind - tick < tick {
            Instant(before.0 + tick as i64)
        } else {
            Instant(time.0 - (behind % tick) as i64)
        }
    }

    /// Returns the first tick after `time`.
    #[inline]
    pub fn next(self, time: Instant) -> Instant {
        self.floor(time) + self.hz.tick()
    }
}

/// The tick's hrtimer function, and the grid of its expiry times.
#[derive(Clone, Debug)]
pub(crate) struct TickFunction {
    id: FunctionId,
    pub grid: TickGrid,
}

impl TickFunction {
    #[cfg(test)]
    pub(crate) fn new(id: FunctionId, grid: TickGrid) -> TickFunction {
        TickFunction { id, grid }
    }

    pub(crate) fn is(&self, function: FunctionId) -> bool {
        function == self.id
    }
}

/// Names of the tick's handler: before and since Linux 6.8.
const TICK_SYMBOLS: [&str; 2] = ["tick_sched_timer", "tick_nohz_handler"];

/// Finds the tick among the hrtimers: by symbol, else as the busiest function that has at most
/// one timer a CPU and whose expiry times all lie on the grid of one tick rate.
pub(crate) fn tick_function(events: &[Event], so_far: &SoFar<'_>) -> Option<TickFunction> {
    struct Seen {
        id: FunctionId,
        timers: BTreeSet<Timer>,
        starts: usize,
        expiries: Vec<i64>,
        named: bool,
    }
    let mut functions: BTreeMap<u64, Seen> = BTreeMap::new();
    for event in events {
        if let EventKind::HrtimerStart { timer, function, expires, .. } = event.kind {
            let address = so_far.names.function_of(function).address;
            let seen = functions.entry(address).or_insert_with(|| Seen {
                id: function,
                timers: BTreeSet::new(),
                starts: 0,
                expiries: Vec::new(),
                named: so_far.names.symbol(function).is_some_and(|s| TICK_SYMBOLS.contains(&s)),
            });
            seen.timers.insert(timer);
            seen.starts += 1;
            let expires = expires.get();
            if expires.since(event.time) <= NEAR {
                seen.expiries.push(expires.0);
            }
        }
    }
    functions
        .into_values()
        .filter(|s| s.expiries.len() >= 2 && s.timers.len() <= so_far.cpu_count as usize)
        .filter_map(|s| {
            let grid = common_grid(&s.expiries)?;
            Some((s.named, s.starts, TickFunction { id: s.id, grid }))
        })
        .max_by_key(|(named, count, _)| (*named, *count))
        .map(|(_, _, function)| function)
}

/// A stopped tick without a next timer is armed as far ahead as the clock allows, minutes ahead and
/// off the grid: only expiry times this near show the grid.
const NEAR: Duration = Duration(NSEC_PER_SEC);

/// Share of a function's near expiry times that must lie on one grid.
const MIN_ON_GRID: f64 = 0.98;

/// Returns the slowest tick rate on whose grid nearly all `times` lie.
fn common_grid(times: &[i64]) -> Option<TickGrid> {
    Hz::ALL.into_iter().find_map(|hz| {
        let mut phases: BTreeMap<i64, usize> = BTreeMap::new();
        for time in times {
            *phases.entry(time.rem_euclid(hz.tick().0)).or_default() += 1;
        }
        let (phase, count) = phases.into_iter().max_by_key(|(_, count)| *count)?;
        let share = count as f64 / times.len() as f64;
        (share >= MIN_ON_GRID).then(|| TickGrid::new(hz, Duration(phase)))
    })
}

/// The timer softirq's number (include/linux/interrupt.h). Only the tick raises it.
const TIMER_SOFTIRQ: u32 = 1;

/// Share of the timer softirqs that must come in the window after the tick.
const MIN_IN_WINDOW: f64 = 0.9;

/// Finds the tick by the softirq that it raises for expired timers: the slowest rate whose ticks
/// precede nearly all of them.
///
/// FIDELITY(tick-rate): timers of minutes expire on multiples of several ticks.
pub(crate) fn grid_from_softirqs(events: &[Event]) -> Option<TickGrid> {
    let is_raised = |event: &&Event| event.kind == EventKind::SoftirqRaise { vec: TIMER_SOFTIRQ };
    let raised: Vec<i64> = events.iter().filter(is_raised).map(|event| event.time.0).collect();
    if raised.len() < MIN_WAKEUPS {
        return None;
    }
    let rates = Hz::ALL.into_iter().filter_map(|hz| concentration(&raised, hz));
    let mut rates = rates.filter(|(ratio, grid)| {
        ratio * TICK_WAKE_WINDOW.0 as f64 >= MIN_IN_WINDOW * grid.hz.tick().0 as f64
    });
    rates.next().map(|(_, grid)| grid)
}

/// Window after a tick for its wake-ups: exit latency and interrupt handling of a phone's deep
/// state, with a margin.
pub(super) const TICK_WAKE_WINDOW: Duration = Duration::from_us(500);

const BIN: Duration = Duration::from_us(50);
/// Least density of the fullest window, relative to an even spread, for a grid to be accepted.
const MIN_CONCENTRATION: f64 = 3.0;
const MIN_WAKEUPS: usize = 20;
/// Highest probability of such a window by chance. Windows overlap, so about one in a hundred
/// recordings without a grid appears to have one.
const MAX_CHANCE: f64 = 1e-4;

/// Returns the probability that an even spread of `count` wake-ups has `ratio` times its mean or
/// more in one window: the tail of a Poisson distribution.
fn chance(ratio: f64, count: usize, hz: Hz) -> f64 {
    let mean = count as f64 * TICK_WAKE_WINDOW.0 as f64 / hz.tick().0 as f64;
    let inside = (ratio * mean).round() as u32;
    let mut term = (-mean).exp();
    let mut below = 0.0;
    for n in 0..inside {
        below += term;
        term *= mean / f64::from(n + 1);
    }
    1.0 - below
}

/// Finds the tick without timer events: exits from idle after which no task ran crowd after the
/// tick.
pub(super) fn grid_from_wakeups(exits: impl Iterator<Item = Instant>) -> Option<TickGrid> {
    let exits: Vec<i64> = exits.map(|exit| exit.0).collect();
    if exits.len() < MIN_WAKEUPS {
        return None;
    }
    Hz::ALL
        .into_iter()
        .filter_map(|hz| concentration(&exits, hz))
        .filter(|(ratio, grid)| {
            *ratio >= MIN_CONCENTRATION && chance(*ratio, exits.len(), grid.hz) <= MAX_CHANCE
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, grid)| grid)
}

/// Returns the density of the fullest window of one tick period relative to an even spread, and its
/// start.
fn concentration(exits: &[i64], hz: Hz) -> Option<(f64, TickGrid)> {
    let tick = hz.tick().0;
    let bins = (tick / BIN.0) as usize;
    let window = (TICK_WAKE_WINDOW.0 / BIN.0) as usize;
    let mut counts = vec![0u32; bins];
    for exit in exits {
        let bin = (exit.rem_euclid(tick) / BIN.0) as usize;
        counts[bin.min(bins - 1)] += 1;
    }
    let inside = |from: usize| -> u32 { (0..window).map(|k| counts[(from + k) % bins]).sum() };
    let best = (0..bins).max_by_key(|&from| (inside(from), std::cmp::Reverse(from)))?;
    let expected = exits.len() as f64 * window as f64 / bins as f64;
    // The tick is at the front of the crowd: skip nearly empty bins of the window.
    let crowd = inside(best) / window as u32;
    let lead = (0..window).find(|k| counts[(best + k) % bins] > crowd / 2).unwrap_or(0);
    let phase = Duration((best + lead) as i64 * BIN.0);
    Some((inside(best) as f64 / expected, TickGrid::new(hz, phase)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_lie_on_the_grid() {
        let grid = TickGrid::new(Hz::H250, Duration(1_000_000));
        assert_eq!(grid.next(Instant(1_000_000)), Instant(5_000_000));
        assert_eq!(grid.next(Instant(999_999)), Instant(1_000_000));
        assert_eq!(grid.floor(Instant(999_999)), Instant(-3_000_000));
        for near_or_far in [1_000_000, 1_999_999, 5_000_000, 16_999_999, 400_000_001] {
            let time = Instant(near_or_far);
            assert_eq!(
                TickGrid::floor_after(Instant(1_000_000), grid.hz.tick(), time),
                grid.floor(time)
            );
        }
    }

    #[test]
    fn the_slowest_rate_that_fits_is_the_rate() {
        let at_250 = [4_000_000, 8_000_000, 20_000_000, 24_000_000];
        assert_eq!(common_grid(&at_250).unwrap().hz, Hz::H250);
        let nowhere = [4_000_000, 8_000_001];
        assert_eq!(common_grid(&nowhere), None);
        let mut one_stray: Vec<i64> = (0..100).map(|n| n * 4_000_000).collect();
        one_stray.push(i64::MAX);
        assert_eq!(common_grid(&one_stray).unwrap().hz, Hz::H250);
    }

    #[test]
    fn a_random_crowd_is_no_grid() {
        // The tails of Poisson distributions with means 5 and 1.
        assert!((chance(3.2, 100, Hz::H100) - 6.9e-5).abs() < 1e-6);
        assert!((chance(4.0, 20, Hz::H100) - 0.018_988).abs() < 1e-6);
    }

    #[test]
    fn timer_softirqs_come_after_the_tick() {
        // 1000 Hz, timers on every third to seventh tick, handled up to 300 us late.
        let mut at = 0;
        let mut events = Vec::new();
        for n in 0..200i64 {
            at += (3 + n % 5) * 1_000_000;
            let (cpu, kind) = (torpor_machine::units::CpuId(0), EventKind::SoftirqRaise { vec: 1 });
            events.push(Event { time: Instant(at + (n % 7) * 50_000), cpu, kind });
        }
        assert_eq!(grid_from_softirqs(&events).unwrap().hz, Hz::H1000);
        assert_eq!(grid_from_softirqs(&events[..19]), None);
        // A third of them lie on no grid: no rate is found.
        events.iter_mut().step_by(3).for_each(|event| event.time.0 += 613_000);
        assert_eq!(grid_from_softirqs(&events), None);
    }

    #[test]
    fn wakeups_clustered_after_ticks_give_their_rate() {
        // 250 Hz ticks at 1 ms phase, woken 0 to 200 us late, over a thin even spread.
        let mut exits = Vec::new();
        for n in 0..100i64 {
            exits.push(n * 4_000_000 + 1_000_000 + (n % 5) * 40_000);
            if n % 4 == 0 {
                exits.push(n * 4_000_000 + n * 37_000);
            }
        }
        let (ratio, grid) = concentration(&exits, Hz::H250).unwrap();
        assert!(ratio > MIN_CONCENTRATION);
        assert_eq!(grid, TickGrid::new(Hz::H250, Duration(1_000_000)));
    }
}
