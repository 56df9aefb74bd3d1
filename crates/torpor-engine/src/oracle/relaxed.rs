// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A lower bound where there are more paths than the search follows.
//!
//! Instead of dropping paths, the search merges neighbours: a relaxed decision diagram. A relaxed path
//! stands for paths at all times of an interval, none of them cheaper than it. Its end is `now`. Where
//! times of the interval differ in what they allow (before and after a tick or the event, or in how a
//! sleep ends), it is split. A sleep lasts least from the latest time, so it costs no less from any
//! other; and it resumes no earlier than from the earliest. A credited rest may have begun at the
//! earliest time. So whatever a merged path does, a relaxed one does it for no more, and the cheapest
//! relaxed path is a bound.

use super::crossing::{Crossing, Queue};
use super::{Credit, Late, Path, Search, Terms};
use crate::idle_loop::gives_up;
use crate::input::Span;
use crate::model::{Alarms, CpuModel, Sleep, SleepEnd};
use crate::policy::Choice;
use torpor_machine::units::{Duration, Energy, Instant, Power};

/// Most relaxed paths that are followed from one span to the next.
pub(super) const WAYS_MAX: usize = 64;

/// Budget of a search, in checks for cancellation. FIDELITY(oracle-search): the bound of a search
/// that takes more is the least power at all times.
const WORK_MIN: usize = 16;
const SPANS_PER_WORK: usize = 4;

/// Returns an energy that no decisions of one CPU fall below, with the price of delay and without
/// the credited energy. Returns `None` if `goes_on` returns false.
pub fn lower_bound(
    model: &CpuModel,
    spans: &[Span],
    terms: Terms<'_>,
    goes_on: &mut dyn FnMut(usize) -> bool,
) -> Option<Energy> {
    lower_bound_among(WAYS_MAX, model, spans, terms, goes_on)
}

/// Returns what the times without work cost at least: no state nor tick takes less power.
fn floor(model: &CpuModel, spans: &[Span], credit: Option<&Credit>) -> Energy {
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else { return Energy::ZERO };
    let work: i64 = spans.windows(2).map(|pair| pair[1].start.since(pair[0].resume).0).sum();
    let time = (last.wake.since(first.start) - Duration(work)).max(Duration::ZERO);
    let powers = (0..model.costs.opp_count() as u16).map(|opp| model.costs.floor_power(opp));
    let power = powers.min().unwrap_or(Power::ZERO);
    power.over(time) - credit.map_or(Energy::ZERO, |credit| credit.upto(Instant::NEVER))
}

pub(super) fn lower_bound_among(
    ways_max: usize,
    model: &CpuModel,
    spans: &[Span],
    terms: Terms<'_>,
    goes_on: &mut dyn FnMut(usize) -> bool,
) -> Option<Energy> {
    let Terms { price, credit } = terms.earnable(model);
    let merges_polls = ways_max < usize::MAX && credit.is_some();
    let search =
        Search { ways_max, price, credit, merges: true, merges_polls, ..Search::new(model) };
    let trip = |opp, &state: &usize| model.costs.sleep(opp, state, Duration::ZERO);
    let mut opps = 0..model.costs.opp_count() as u16;
    let is_trip_paid = |opp| search.allowed.iter().all(|state| trip(opp, state) >= Energy::ZERO);
    // If trips save energy, the least power is no bound.
    let work_max = match opps.all(is_trip_paid) && ways_max < usize::MAX {
        true => WORK_MIN + spans.len() / SPANS_PER_WORK,
        false => usize::MAX,
    };
    let mut work = 0;
    let mut counted = |done| {
        work += 1;
        work <= work_max && goes_on(done)
    };
    match search.plan(spans, &mut counted) {
        Some(plan) => Some(plan.energy + price.over(plan.delay)),
        None if work > work_max => Some(floor(model, spans, credit)),
        None => None,
    }
}

/// A sleep or polling that may begin at any time.
pub(super) struct Asleep {
    pub state: usize,
    pub wake: Instant,
    pub alarms: Alarms,
}

impl Asleep {
    #[inline]
    pub(super) fn from(&self, model: &CpuModel, now: Instant) -> Sleep {
        if !model.states[self.state].is_polling {
            return model.sleep(self.state, now, self.wake, self.alarms);
        }
        let timeout = model.poll_timeout(now, model.default_poll_limit);
        model.poll(now, self.wake, self.alarms, timeout)
    }
}

impl Path {
    /// Extends the path so that it also stands for another one of the same end.
    #[inline]
    pub(super) fn include(&mut self, other: &Path) {
        // No two exact paths become a relaxed one here.
        if self.spread > Duration::ZERO || other.spread > Duration::ZERO {
            self.spread = self.spread.max(other.spread);
            self.energy = self.energy.min(other.energy);
            self.standing = self.standing.min(other.standing);
        }
    }

    /// Subtracts what a rest from the earliest time on earns more than one from the latest.
    #[inline]
    pub(super) fn credit_spread(&mut self, credit: Option<&Credit>) {
        if self.spread > Duration::ZERO {
            let more = credit.map_or(Energy::ZERO, |c| c.between(self.earliest(), self.now));
            self.energy -= more;
        }
    }

    /// Takes the times from `first` on off the path. The rest is before them, and may be empty.
    fn split_off(&mut self, first: Instant) -> Path {
        let first = first.max(self.earliest());
        let taken = Path { spread: self.now.since(first), ..*self };
        self.spread = first.since(self.earliest()) - Duration(1);
        self.now = first - Duration(1);
        taken
    }
}

impl Crossing<'_> {
    /// Merges a path before the event with one that waits in the same tick.
    pub(super) fn join_neighbour(&mut self, path: &mut Path) {
        // Later times than those of the path that decides come to an end.
        if gives_up(self.span, path.now) || path.earliest() <= self.now {
            return;
        }
        let front = &mut self.waiting[usize::from(path.tick_stopped)];
        let last = self.tick.floor(path.now).max(self.now + Duration(1));
        let next = self.tick.next(path.now);
        let Some(other) = front.take_nearest(path.now, last..next) else { return };
        let (first, last) = (path.earliest().min(other.earliest()), path.now.max(other.now));
        let standing = path.standing.min(other.standing);
        let credit = self.credit.map_or(Energy::ZERO, |credit| credit.upto(last));
        *path = Path {
            now: last,
            spread: last.since(first),
            standing,
            energy: standing - credit,
            ..*path
        };
    }

    /// Adds a relaxed path, split where its times differ. Returns true if any part was kept.
    pub(super) fn arrive_spread(&mut self, path: Path, queue: &mut Queue) -> bool {
        let (mut left, mut is_kept) = (path, false);
        while left.spread >= Duration::ZERO {
            let first = if left.now > self.span.wake {
                self.span.wake + Duration(1)
            } else if gives_up(self.span, left.now) {
                left.now
            } else {
                self.tick.floor(left.now)
            };
            is_kept |= self.arrive_alike(left.split_off(first), queue);
        }
        is_kept
    }
}

impl Search<'_> {
    /// Returns true if relaxed paths poll [through](Search::poll_through) the ticks.
    pub(super) fn polls_through(&self, opp: u16) -> bool {
        let dear = self.polling_is_dear[usize::from(opp)];
        self.merges_polls && dear && self.longest_entry == Duration::ZERO
    }

    /// Adds polling to the next tick or to the event.
    ///
    /// If no state takes more power or has an entry latency, a sleep after some rounds of polling
    /// costs no less than the same sleep at once, unless a tick comes between. A path that polls
    /// past the tick by some time does not cost less than one that sleeps at the tick.
    pub(super) fn poll_through(
        &mut self,
        path: Path,
        choice: Choice,
        tick_at: Instant,
        crossing: &mut Crossing<'_>,
        queue: &mut Queue,
    ) {
        let wake = crossing.span.wake;
        let power = self.model.costs.power(crossing.span.opp, usize::from(choice.state));
        let polled = |upto: Instant, spread: Duration| {
            let energy = path.energy + power.over(upto.since(path.now).max(Duration::ZERO));
            Path { now: upto + spread, spread, energy, standing: energy, ..path }
        };
        let notice = self.latest_notice;
        self.step(path.step, choice, |step| match tick_at <= wake {
            true => crossing.arrive(Path { step, ..polled(tick_at, Duration::ZERO) }, queue),
            // Polling that gives up at the event has no exit.
            false => crossing.end(Path { step, ..polled(wake, notice) }),
        });
    }

    /// Adds what a sleep of a relaxed path leads to, for each way in which it may end.
    pub(super) fn follow_spread(
        &mut self,
        path: Path,
        choice: Choice,
        asleep: &Asleep,
        crossing: &mut Crossing<'_>,
        queue: &mut Queue,
    ) {
        let model = self.model;
        let mut left = path;
        while left.spread >= Duration::ZERO {
            let last = asleep.from(model, left.now);
            let (mut first, mut like_last) = (left.earliest(), left.now);
            while first < like_last {
                let middle = first + Duration(like_last.since(first).0 / 2);
                if asleep.from(model, middle).end == last.end {
                    like_last = middle;
                } else {
                    first = middle + Duration(1);
                }
            }
            let mut part = left.split_off(first);
            let mut sleep = last;
            let mut earliest = asleep.from(model, first).resume;
            let mut residency = sleep.resume.since(part.now);
            if model.states[asleep.state].is_polling {
                let exit = model.states[asleep.state].exit_latency;
                let noticed = asleep.wake + exit;
                if sleep.end == SleepEnd::Event {
                    // Each time notices the event in a round of its own.
                    earliest = noticed;
                    sleep.resume = asleep.wake + self.latest_notice;
                    residency = noticed.since(part.now);
                } else {
                    residency = residency.min(model.default_poll_limit + exit);
                }
            }
            part.spread = sleep.resume.since(earliest);
            self.follow(part, choice, (&sleep, residency), crossing, queue);
        }
    }
}

impl Late {
    /// Merges neighbours until there are at most so many: first those that promise least.
    pub(super) fn merge(&mut self, most: usize, rest: Power) {
        loop {
            let count: usize = self.paths.iter().map(Vec::len).sum();
            if count <= most {
                return;
            }
            let promise =
                |(moment, energy): (Instant, Energy)| energy - rest.over(moment.since(Instant(0)));
            let pairs = |stopped: usize| {
                let pairs = self.paths[stopped].windows(2).enumerate();
                pairs.map(move |(at, pair)| {
                    let energy = pair[0].1.energy.min(pair[1].1.energy);
                    (promise((pair[1].0, energy)), stopped, at)
                })
            };
            let mut ways: Vec<(Energy, usize, usize)> = pairs(0).chain(pairs(1)).collect();
            if ways.is_empty() {
                return;
            }
            ways.sort_unstable();
            let mut is_merged =
                [vec![false; self.paths[0].len()], vec![false; self.paths[1].len()]];
            let mut left = count - most;
            while let Some((_, stopped, at)) = ways.pop().filter(|_| left > 0) {
                let taken = &mut is_merged[stopped];
                // The earlier one goes into the later one.
                let is_free = !taken[at] && !taken[at + 1] && (at == 0 || !taken[at - 1]);
                if is_free {
                    taken[at] = true;
                    left -= 1;
                    let (moment, earlier) = self.paths[stopped][at];
                    let (to, later) = &mut self.paths[stopped][at + 1];
                    later.spread = later.spread.max(to.since(moment) + earlier.spread);
                    later.energy = later.energy.min(earlier.energy);
                }
            }
            for (paths, merged) in self.paths.iter_mut().zip(&is_merged) {
                let mut merged = merged.iter();
                paths.retain(|_| !merged.next().expect("each path has a mark"));
            }
        }
    }
}
