// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The oracle: the cheapest sequence of decisions that breaks no latency limit, found with the
//! whole recording in view.
//!
//! It lives in the same idle loop as every governor (tick, poll limit, entry and exit latencies,
//! delayed work), so no governor that keeps to enabled states and to the latency limit can cost
//! less. It minimises energy alone; its latencies are those of the states it picks.
//!
//! Dynamic programming over (time, tick stopped). Two facts keep the search small:
//! - Being later at the same place of the recording never costs more from there on: whatever the
//!   earlier one does, the later one can do with the same or shorter sleeps. So of two ways to
//!   get to a place, one that is both earlier and dearer is dropped. Two things can break this:
//!   the later one may be too late to stop the tick in a short span, or to be woken by a tick just
//!   ahead of the event, which hides part of the exit latency. [`Safe`] says when neither can
//!   happen.
//! - Being earlier by `d` costs at most `d` times the highest power, plus one more trip in and
//!   out, where some state is free to enter: the earlier one can rest there until it meets the
//!   later one. So a path is dropped once even its best ending is dearer than a finished path by
//!   more than that.
//!
//! If spans are too short for either, [`dense`] bounds the gain that a path can still have.
//!
//! With a price of delay, each span also costs what its event is late. Being later is then no worse
//! only where both resume alike, so the last span, and what is beyond the next, get no exception.

mod aim;
mod credit;
mod crossing;
mod dense;
mod front;
mod graph;
mod joint;
mod late;
mod relaxed;
mod rounds;
mod sooner;
mod split;
mod stretch;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_credited;
#[cfg(test)]
mod tests_joint;
#[cfg(test)]
mod tests_relaxed;
mod together;
mod unroll;

use crate::decision::Unobserved;
use crate::idle_loop::{CpuRun, gives_up, next_events};
use crate::input::{Span, TickGrid};
use crate::model::{Alarms, CpuModel, Sleep, SleepEnd};
use crate::policy::{Choice, Choices, Script};
pub use aim::{Aim, price_within, too_tight};
pub use credit::Credit;
use crossing::{Crossing, Fronts, Queue};
use front::Front;
pub use joint::{Joint, plan_together};
use late::Late;
use relaxed::Asleep;
pub use relaxed::lower_bound;
pub use split::Members;
use std::cmp::Reverse;
use std::rc::Rc;
use stretch::{Alike, Stretch};
use torpor_machine::platform::PollLoop;
use torpor_machine::units::{Duration, Energy, Instant, Power};
use torpor_result::DeepTimes;

/// Returns the note on an oracle that had more paths than it follows.
pub fn note(crowded_spans: u64) -> Option<String> {
    (crowded_spans > 0).then(|| {
        format!(
            "after {crowded_spans} sleeps the oracle had more paths than it follows and kept the \
             most promising: a cheaper sequence may exist"
        )
    })
}

/// The decisions of one CPU, and what they cost.
#[derive(Clone, Debug)]
pub struct Plan {
    pub choices: Choices,
    /// Without the credited energy.
    pub energy: Energy,
    /// Total delay of all events relative to the recording.
    pub delay: Duration,
    /// Spans after which there were more paths than the search follows: a cheaper plan may exist.
    pub crowded_spans: u64,
}

impl Plan {
    /// Returns choices whose cost is not known yet.
    fn of(choices: Choices) -> Plan {
        Plan { choices, energy: Energy::ZERO, delay: Duration::ZERO, crowded_spans: 0 }
    }

    /// Returns the plan with given choices, whatever they cost.
    fn without_search(
        model: &CpuModel,
        spans: &[Span],
        credit: Option<&Credit>,
        choices: Choices,
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Option<Plan> {
        let mut run = CpuRun::new(model, spans, 0);
        let mut script = Script::of(choices.clone());
        let is_done = run.run_while(&mut script, &mut Unobserved, goes_on);
        is_done.expect("a script does not fail").then(|| {
            let totals = run.close();
            let deep = totals.deep.iter().flat_map(DeepTimes::iter);
            let credited = credit.map(|credit| deep.map(|(a, b)| credit.between(a, b)).sum());
            let energy = totals.energy - credited.unwrap_or(Energy::ZERO);
            let delay = totals.delays.total();
            Plan { choices, energy, delay, crowded_spans: 0 }
        })
    }
}

/// A path to a point of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Path {
    now: Instant,
    /// A relaxed path stands for all paths that are earlier by up to this much.
    spread: Duration,
    tick_stopped: bool,
    /// Includes the price of the delay so far, without the credited energy.
    energy: Energy,
    /// Order of two paths at one place: the energy, plus the credit that a rest up to here would
    /// have earned.
    standing: Energy,
    delay: Duration,
    /// Its last step in the arena of steps.
    step: u32,
}

impl Path {
    #[inline]
    fn earliest(&self) -> Instant {
        self.now - self.spread
    }

    /// Starts the work of an event that was due at `due`.
    #[inline]
    fn resume(&mut self, due: Instant, price: Power) {
        let late = self.earliest().since(due).max(Duration::ZERO);
        self.delay += late;
        self.energy += price.over(late);
    }
}

/// One decision and the step before it.
#[derive(Clone, Copy)]
struct Step {
    before: u32,
    choice: Choice,
}

const NO_STEP: u32 = u32::MAX;

/// Waiting paths that are compared in the time of a decision.
const CROWD_PER_DECISION: u32 = 64;

/// Decisions between two checks for cancellation.
const DECISIONS_PER_CHECK: u32 = 4_096;

/// FIDELITY(oracle-search): most paths that are followed from one span to the next, the most
/// promising ones. If a state takes longer to enter and leave than spans last, each path is late by
/// its own amount, and their number would double with each span.
pub const WAYS_MAX: usize = 16;

/// Stands for the choices of many equal laps.
struct Repeat {
    alike: Rc<Alike>,
    /// Index of the path.
    index: usize,
    laps: i64,
}

/// Marks a step whose `before` is the number of a [`Repeat`].
const REPEAT: u8 = u8::MAX;

/// Cost and credit of decisions in addition to the CPU's own energy.
#[derive(Clone, Copy, Default)]
pub struct Terms<'a> {
    /// Price of delay.
    pub price: Power,
    /// Credit for rests in the deepest state.
    pub credit: Option<&'a Credit>,
}

impl<'a> Terms<'a> {
    /// Returns the terms without a credit that no state of the CPU can earn.
    fn earnable(self, model: &CpuModel) -> Terms<'a> {
        let deepest = &model.states[model.deepest];
        let rests = deepest.is_allowed && !deepest.is_polling;
        let credit = self.credit.filter(|credit| rests && !credit.is_empty());
        Terms { credit, ..self }
    }
}

/// Finds the cheapest decisions for one CPU. `goes_on` is called now and then with the spans done;
/// returns `None` if it returns false.
pub fn plan(
    model: &CpuModel,
    spans: &[Span],
    terms: Terms<'_>,
    goes_on: &mut dyn FnMut(usize) -> bool,
) -> Option<Plan> {
    plan_among((WAYS_MAX, model.allowed()), model, spans, terms, goes_on)
}

/// Finds the cheapest decisions that never poll, unless nothing else is allowed.
fn plan_without_polling(
    model: &CpuModel,
    spans: &[Span],
    terms: Terms<'_>,
    goes_on: &mut dyn FnMut(usize) -> bool,
) -> Option<Plan> {
    let mut allowed = model.allowed();
    if allowed.iter().any(|&state| !model.states[state].is_polling) {
        allowed.retain(|&state| !model.states[state].is_polling);
    }
    plan_among((WAYS_MAX, allowed), model, spans, terms, goes_on)
}

fn plan_among(
    (ways_max, allowed): (usize, Vec<usize>),
    model: &CpuModel,
    spans: &[Span],
    terms: Terms<'_>,
    goes_on: &mut dyn FnMut(usize) -> bool,
) -> Option<Plan> {
    let Terms { price, credit } = terms.earnable(model);
    if model.states.len() <= 1 {
        // The kernel asks no governor.
        return Plan::without_search(model, spans, credit, Choices::default(), goes_on);
    }
    let search = Search { ways_max, price, credit, ..Search::among(model, allowed) };
    if let [only] = search.allowed[..] {
        if model.states[only].is_polling {
            // Polling continues through ticks, so stopping them makes no difference.
            let choice = Choice { state: only as u8, stop_tick: false };
            let mut always = Choices::default();
            always.push(&[choice], u64::MAX);
            return Plan::without_search(model, spans, credit, always, goes_on);
        }
    }
    let mut found = search.plan(spans, goes_on)?;
    if found.crowded_spans == 0 {
        return Some(found);
    }
    let cost = |plan: &Plan| plan.energy + price.over(plan.delay);
    for choices in constants(model) {
        let constant = Plan::without_search(model, spans, credit, choices, goes_on)?;
        if cost(&constant) < cost(&found) {
            found = Plan { crowded_spans: found.crowded_spans, ..constant };
        }
    }
    Some(found)
}

/// Returns the simplest policies, two for each state of the machine: always the deepest allowed state
/// up to it, with the tick or without it. A search that leaves paths out must not cost more.
fn constants(model: &CpuModel) -> impl Iterator<Item = Choices> + use<> {
    let allowed = model.allowed();
    (0..2 * model.states.len()).map(move |number| {
        let (deepest, stop_tick) = (number / 2, number % 2 == 0);
        let state = allowed.iter().rfind(|&&state| state <= deepest).unwrap_or(&allowed[0]);
        let mut always = Choices::default();
        always.push(&[Choice { state: *state as u8, stop_tick }], u64::MAX);
        always
    })
}

/// Returns true if polling takes as much power as any allowed state, or more.
fn is_polling_dear(model: &CpuModel, allowed: &[usize], opp: u16) -> bool {
    let power = |state: usize| model.costs.power(opp, state);
    let polling = allowed.iter().copied().find(|&state| model.states[state].is_polling);
    polling.is_some_and(|polling| {
        model.costs.sleep(opp, polling, Duration::ZERO) >= Energy::ZERO
            && allowed.iter().all(|&state| power(state) <= power(polling))
    })
}

/// Returns the longest time from an event to the end of polling.
fn latest_notice(model: &CpuModel) -> Duration {
    let round = match model.poll_loop {
        Some(PollLoop::PollIdle { relax }) => relax,
        Some(PollLoop::ArmPollIdle { .. }) | None => Duration::ZERO,
    };
    round + model.states.first().map_or(Duration::ZERO, |state| state.exit_latency)
}

/// Condition for a later path to be no worse.
///
/// If rests are credited, the later path must be able to copy the next choice of the earlier one
/// and wake up at the same time: [`Settles`]. It then costs more by at most the credit between
/// them.
#[derive(Clone, Copy)]
struct Safe {
    /// The CPU has settled in any state before the event, so it resumes as the earlier one does.
    until: Instant,
    /// A tick that would start the exit ahead of the event; a path misses it if the tick is between
    /// the two.
    tick: Instant,
    /// Present if rests are credited.
    settles: Option<Settles>,
}

/// No tick comes between two moments that make all choices equally long, nor while the later path
/// enters a state.
#[derive(Clone, Copy)]
struct Settles {
    grid: TickGrid,
    /// The longest entry.
    entry: Duration,
    /// Until the span begins.
    work: Duration,
}

impl Safe {
    const ALWAYS: Safe = Safe { until: Instant::NEVER, tick: Instant::NEVER, settles: None };

    #[inline]
    fn covers(self, earlier: Instant, later: Instant, tick_stopped: bool) -> bool {
        let is_free_of_ticks = match self.settles {
            None => later < self.tick || earlier >= self.tick,
            Some(Settles { grid, entry, work }) => {
                tick_stopped || grid.floor(later + work + entry) <= earlier + work
            }
        };
        later <= self.until && is_free_of_ticks
    }

    /// Returns the condition as seen before `work`, for paths from `first` on.
    fn ahead_of(self, work: Duration, first: Instant) -> Safe {
        let tick = self.tick - work;
        let tick = if tick <= first { Instant::NEVER } else { tick };
        let settles = self.settles.map(|settles| Settles { work, ..settles });
        Safe { until: self.until - work, tick, settles }
    }
}

struct Search<'a> {
    model: &'a CpuModel,
    allowed: Vec<usize>,
    /// Price of delay.
    price: Power,
    /// Credit for rests in the deepest state.
    credit: Option<&'a Credit>,
    steps: Vec<Step>,
    repeats: Vec<Repeat>,
    /// Most paths to follow from one span to the next.
    ways_max: usize,
    /// Spans after which there were more.
    crowded_spans: u64,
    /// Decisions since the last check for cancellation, and the number between two checks.
    decisions: u32,
    decisions_per_check: u32,
    /// Skip the equal ticks of long sleeps.
    leaps: bool,
    /// Skip sleeps that an earlier path has begun more cheaply.
    skips: bool,
    /// Drop paths in dense spans.
    bounds: bool,
    /// Merge paths where there are too many, for a lower bound.
    merges: bool,
    /// Merge rounds of polling, too.
    merges_polls: bool,
    /// Keep paths at different times, which also holds if rests are credited.
    keeps_all: bool,
    /// The last tick before the path that is looked at.
    jiffy: Instant,
    longest_entry: Duration,
    /// By OPP: the least power of any state or tick.
    floor_powers: Vec<Power>,
    /// By OPP: no allowed state takes more power than polling.
    polling_is_dear: Vec<bool>,
    /// Longest delay of a resumption from polling.
    latest_notice: Duration,
    /// Longest delay of a resumption after the event: entry, exit and the handling of a tick.
    latest_ending: Duration,
    /// Upper bound of the cost of being earlier, apart from time; `None` if no state is free to
    /// enter: many short trips then have no common bound.
    trip: Option<Energy>,
    peak_power: Power,
}

impl<'a> Search<'a> {
    fn new(model: &'a CpuModel) -> Search<'a> {
        Search::among(model, model.allowed())
    }

    fn among(model: &'a CpuModel, allowed: Vec<usize>) -> Search<'a> {
        let states = || allowed.iter().map(|&i| &model.states[i]);
        let longest_entry = states().map(|s| s.entry_latency).max().unwrap_or(Duration::ZERO);
        let latest_ending = states().map(|s| s.entry_latency + s.exit_latency).max();
        let latest_ending = latest_ending.unwrap_or(Duration::ZERO) + model.tick_handling;
        let opps = 0..model.costs.opp_count() as u16;
        let overheads: Vec<Energy> = opps
            .clone()
            .flat_map(|opp| allowed.iter().map(move |&i| (opp, i)))
            .map(|(opp, i)| model.costs.sleep(opp, i, Duration::ZERO))
            .collect();
        let peak_power = opps.clone().map(|opp| model.costs.peak_power(opp)).max();
        let peak_power = peak_power.unwrap_or(Power::ZERO);
        let floor_powers = opps.clone().map(|opp| model.costs.floor_power(opp)).collect();
        let polling_is_dear = opps.map(|opp| is_polling_dear(model, &allowed, opp)).collect();
        let trips_can_be_free = model.costs.is_free_to_enter(allowed[0]);
        let trip = trips_can_be_free.then(|| {
            overheads.into_iter().max().unwrap_or(Energy::ZERO)
                + peak_power.over(latest_ending + latest_ending)
        });
        Search {
            model,
            allowed,
            price: Power::ZERO,
            credit: None,
            steps: Vec::new(),
            repeats: Vec::new(),
            ways_max: WAYS_MAX,
            crowded_spans: 0,
            decisions: 0,
            decisions_per_check: DECISIONS_PER_CHECK,
            leaps: true,
            skips: true,
            bounds: true,
            keeps_all: false,
            merges: false,
            merges_polls: false,
            jiffy: model.tick.floor(Instant(0)),
            longest_entry,
            floor_powers,
            polling_is_dear,
            latest_notice: latest_notice(model),
            latest_ending,
            trip,
            peak_power,
        }
    }

    fn plan(mut self, spans: &[Span], goes_on: &mut dyn FnMut(usize) -> bool) -> Option<Plan> {
        let mut ahead = self.safe(spans, 0);
        let all_dense = self.dense(spans);
        let start = spans.first().map_or(Instant(0), |s| s.start);
        let mut late = Late::default();
        late.add(Path {
            now: start,
            spread: Duration::ZERO,
            tick_stopped: false,
            energy: Energy::ZERO,
            standing: Energy::ZERO,
            delay: Duration::ZERO,
            step: NO_STEP,
        });
        let (mut fronts, mut queue, mut paths) = (Fronts::default(), Queue::default(), Vec::new());
        for (k, span) in spans.iter().enumerate() {
            let next = spans.get(k + 1).map(|s| s.start.since(span.resume));
            let work = next.unwrap_or(Duration::ZERO);
            let dense = all_dense.get(k).copied().flatten();
            let here = std::mem::replace(&mut ahead, self.safe(spans, k + 1));
            let beyond = ahead.ahead_of(work, span.wake);
            let until = if self.merges { Instant::NEVER } else { span.wake.max(beyond.until) };
            late.take_until(until, &mut paths);
            late.resume(span.resume, self.price);
            let credit = (self.credit, next);
            fronts.sooner.clear(self.model.states.len());
            let mut crossing = Crossing::new(
                (span, self.price, self.model.tick),
                [here, beyond],
                dense,
                credit,
                &mut fronts,
            );
            if self.merges {
                crossing.waiting_max = self.ways_max;
            }
            if !self.through(crossing, &mut paths, &mut queue, &mut || goes_on(k)) {
                return None;
            }
            fronts.endings.iter().flat_map(Front::iter).for_each(|&path| late.add(path));
            late.pass(span.ends_visit, work);
            let rest = self.model.costs.power(span.opp, self.allowed[0]);
            if self.merges {
                late.merge(self.ways_max, rest);
            } else {
                self.crowded_spans += u64::from(late.keep_best(self.ways_max, rest));
            }
        }
        late.take_until(Instant::NEVER, &mut paths);
        let best = paths.iter().min_by_key(|p| (p.energy, Reverse(p.now))).expect("a path remains");
        let choices = self.choices(best.step);
        let energy = best.energy - self.price.over(best.delay);
        Some(Plan { choices, energy, delay: best.delay, crowded_spans: self.crowded_spans })
    }

    /// Returns the condition for a span, or for the end.
    fn safe(&self, spans: &[Span], k: usize) -> Safe {
        let Some(span) = spans.get(k) else { return Safe::ALWAYS };
        let before = k.checked_sub(1).map(|k| &spans[k]);
        let earliest = before.map_or(span.start, |b| b.wake + span.start.since(b.resume));
        if self.credit_about(span, earliest) > Energy::ZERO {
            return self.safe_with_credit(span);
        }
        let is_last = k + 1 == spans.len() && self.price == Power::ZERO;
        let until = if is_last { Instant::NEVER } else { self.settled_until(span) };
        let tick = self.model.tick.floor(span.wake);
        let helps = span.wake.since(tick) <= self.latest_ending;
        Safe { until, tick: if helps { tick } else { Instant::NEVER }, settles: None }
    }

    fn safe_with_credit(&self, span: &Span) -> Safe {
        let (grid, entry) = (self.model.tick, self.longest_entry);
        // Polling gives up at a time of its own.
        let until = match self.polls() || self.keeps_all {
            true => Instant(i64::MIN),
            false => self.settled_until(span),
        };
        let settles = Some(Settles { grid, entry, work: Duration::ZERO });
        Safe { until, tick: Instant::NEVER, settles }
    }

    /// Returns the latest beginning of a sleep that settles in any state before the event. One that
    /// comes with the event gives up, which an earlier one cannot.
    fn settled_until(&self, span: &Span) -> Instant {
        span.wake - self.longest_entry.max(Duration(i64::from(span.ends_visit)))
    }

    /// Returns an upper bound of the credit of sleeps in a span whose first one begins at
    /// `earliest`.
    fn credit_about(&self, span: &Span, earliest: Instant) -> Energy {
        self.credit.map_or(Energy::ZERO, |credit| {
            credit.between(earliest, span.wake.max(earliest) + self.latest_ending)
        })
    }

    fn polls(&self) -> bool {
        self.allowed.iter().any(|&state| self.model.states[state].is_polling)
    }

    /// Takes every path through one span; those worth keeping end there. Returns false if
    /// cancelled.
    fn through(
        &mut self,
        mut crossing: Crossing<'_>,
        paths: &mut Vec<Path>,
        queue: &mut Queue,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        let span = crossing.span;
        let latest = paths.iter().map(|path| path.now).max().filter(|_| self.leaps);
        let mut stretch = latest.and_then(|latest| Stretch::of(self, span, latest));
        for path in paths.drain(..) {
            crossing.arrive(path, queue);
        }
        while let Some(path) = queue.pop() {
            crossing.forget_before(path.now);
            if crossing.is_superseded(&path) {
                continue;
            }
            self.jiffy = self.jiffy_at(path.now);
            if self.is_hopeless(&path, self.jiffy, &crossing) {
                continue;
            }
            if let Some(stretch) = &mut stretch {
                if stretch.is_due(path.now) {
                    queue.push(path);
                    self.leap(stretch, &mut crossing, queue);
                    continue;
                }
            }
            let polls = stretch.as_ref().is_none_or(|s| s.polls || !s.holds(path.now));
            self.decide(&path, polls, &mut crossing, queue);
            self.decisions += 1 + crossing.crowd() / CROWD_PER_DECISION;
            if self.decisions >= self.decisions_per_check {
                self.decisions = 0;
                if !goes_on() {
                    return false;
                }
            }
        }
        true
    }

    /// Returns the last tick, which is mostly that of the path before or the next one.
    #[inline]
    fn jiffy_at(&self, now: Instant) -> Instant {
        let grid = self.model.tick;
        if now < self.jiffy {
            grid.floor(now)
        } else {
            TickGrid::floor_after(self.jiffy, grid.hz.tick(), now)
        }
    }

    /// Moves paths that wait in the middle of a long sleep over all equal ticks.
    fn leap(&mut self, stretch: &mut Stretch, crossing: &mut Crossing<'_>, queue: &mut Queue) {
        let is_worth = |path: &Path| {
            !crossing.is_superseded(path)
                && !self.is_hopeless(path, self.jiffy_at(path.now), crossing)
        };
        let waiting: Vec<Path> = queue.take().into_iter().filter(is_worth).collect();
        let Some(first) = waiting.first() else { return };
        let Some(leap) = stretch.look(self.model.tick.floor(first.now), &waiting) else {
            return waiting.into_iter().for_each(|path| queue.push(path));
        };
        let alike = Rc::new(leap.alike);
        crossing.waiting.iter_mut().for_each(Front::clear);
        for (index, path) in leap.paths.into_iter().enumerate() {
            let number = self.repeats.len() as u32;
            self.repeats.push(Repeat { alike: Rc::clone(&alike), index, laps: leap.laps });
            let choice = Choice { state: REPEAT, stop_tick: false };
            self.step(number, choice, |step| crossing.arrive(Path { step, ..path }, queue));
        }
    }

    /// Tries every decision that a governor could make here.
    fn decide(&mut self, path: &Path, polls: bool, crossing: &mut Crossing<'_>, queue: &mut Queue) {
        let (model, span) = (self.model, crossing.span);
        let (jiffy, tick) = (self.jiffy, model.tick.hz.tick());
        let next = next_events(span, tick, jiffy, path.now, path.tick_stopped);
        if gives_up(span, path.now) {
            // A decision without effect.
            let choice = Choice { state: self.allowed[0] as u8, stop_tick: false };
            self.step(path.step, choice, |step| crossing.end(Path { step, ..*path }));
            return;
        }
        let can_stop = !path.tick_stopped && !next.must_keep_tick;
        for index in 0..self.allowed.len() {
            let state = self.allowed[index];
            let is_polling = model.states[state].is_polling;
            if is_polling && !polls {
                continue;
            }
            if !is_polling {
                let sleeper = self.sleeper(path, state, jiffy, span);
                if crossing.sooner.beats(&sleeper) {
                    continue;
                }
                crossing.sooner.keep(&sleeper, can_stop);
            }
            for stop_tick in [true, false] {
                if stop_tick && !can_stop {
                    continue;
                }
                let tick_stopped = path.tick_stopped || stop_tick;
                let tick_at = if tick_stopped { Instant::NEVER } else { jiffy + tick };
                let alarms = Alarms::tick(tick_at);
                let choice = Choice { state: state as u8, stop_tick };
                let asleep = Asleep { state, wake: span.wake, alarms };
                let after = Path { tick_stopped, ..*path };
                if is_polling && self.polls_through(span.opp) {
                    self.poll_through(after, choice, tick_at, crossing, queue);
                } else if path.spread > Duration::ZERO {
                    self.follow_spread(after, choice, &asleep, crossing, queue);
                } else if is_polling {
                    self.poll_on(after, choice, &asleep, crossing, queue);
                } else {
                    let sleep = asleep.from(model, path.now);
                    let residency = sleep.resume.since(path.now);
                    self.follow(after, choice, (&sleep, residency), crossing, queue);
                }
                let is_same_with_tick = span.ends_visit && jiffy + tick > span.wake;
                if stop_tick && is_same_with_tick {
                    break;
                }
            }
        }
    }

    /// Adds what a sleep leads to. The sleep costs as if it took `residency`.
    #[inline]
    fn follow(
        &mut self,
        path: Path,
        choice: Choice,
        (sleep, residency): (&Sleep, Duration),
        crossing: &mut Crossing<'_>,
        queue: &mut Queue,
    ) {
        let (model, opp, state) = (self.model, crossing.span.opp, usize::from(choice.state));
        let credit = self.credit.filter(|_| state == model.deepest);
        // A path that waits stands at its credit so far.
        let credited =
            credit.map_or(Energy::ZERO, |c| c.upto(sleep.resume) - (path.standing - path.energy));
        let energy = path.energy + model.costs.sleep(opp, state, residency) - credited;
        let mut after = Path { now: sleep.resume, energy, standing: energy, step: NO_STEP, ..path };
        if matches!(sleep.end, SleepEnd::Tick | SleepEnd::GovernorTimer) {
            // The plan arms no timers: it knows the events.
            after.now += model.tick_handling;
            after.energy += model.costs.awake(opp, model.tick_handling);
        }
        let is_over = sleep.end == SleepEnd::Event;
        self.step(path.step, choice, |step| match (Path { step, ..after }, is_over) {
            (ending, true) => crossing.end(ending),
            (awake, false) => crossing.arrive(awake, queue),
        });
    }

    /// Offers the path that a choice leads to, and keeps the step if the path is kept.
    #[inline]
    fn step(&mut self, before: u32, choice: Choice, offer: impl FnOnce(u32) -> bool) {
        if offer(self.steps.len() as u32) {
            self.steps.push(Step { before, choice });
        }
    }

    /// Returns true if an ending already found beats the best that this path can reach.
    fn is_hopeless(&self, path: &Path, jiffy: Instant, crossing: &Crossing<'_>) -> bool {
        if crossing.endings.iter().all(Front::is_empty) {
            return false;
        }
        if let Some(dense) = &crossing.dense {
            if crossing.endings.iter().flat_map(Front::iter).any(|ending| dense.beats(ending, path))
            {
                return true;
            }
        }
        let wake = crossing.span.wake;
        let left = wake.since(path.now).max(Duration::ZERO);
        let polls = self.only_polls(path, jiffy, crossing);
        let polling = self.model.costs.power(crossing.span.opp, 0).over(polls);
        if polls > Duration::ZERO && polls == left && self.polls_in_vain(path, crossing, polling) {
            return true;
        }
        let floor = self.floor_powers[usize::from(crossing.span.opp)];
        let at_least = path.energy + polling + floor.over(left - polls);
        if let Some(credit) = self.credit {
            return self.is_hopeless_with_credit(path, crossing, credit, at_least);
        }
        let Some(trip) = self.trip else { return false };
        let latest = wake.max(path.now) + self.latest_ending;
        let beaten_by = |ending: &Path| {
            let head_start = latest.since(ending.now).max(Duration::ZERO);
            // Resting also costs delay if the path is late for the next event.
            let last = if self.price == Power::ZERO { ending.now } else { latest.max(ending.now) };
            crossing.beyond.covers(wake, last, false)
                && ending.energy + self.peak_power.over(head_start) + trip <= at_least
        };
        let beaten = |stopped: bool| {
            crossing.endings[usize::from(crossing.ends_stopped(stopped))].iter().any(beaten_by)
        };
        beaten(true) && (path.tick_stopped || beaten(false))
    }

    /// Returns the time for which a path only polls: each sleep is tried by an earlier path that
    /// pays no more, and becomes no better by polling first.
    fn only_polls(&self, path: &Path, jiffy: Instant, crossing: &Crossing<'_>) -> Duration {
        let span = crossing.span;
        let left = span.wake.since(path.now);
        if !self.polling_is_dear[usize::from(span.opp)] || left <= self.longest_entry {
            return Duration::ZERO;
        }
        let mut sleeps = self.allowed.iter().filter(|&&i| !self.model.states[i].is_polling);
        if !sleeps.all(|&i| crossing.sooner.beats(&self.sleeper(path, i, jiffy, span))) {
            return Duration::ZERO;
        }
        let tick = jiffy + self.model.tick.hz.tick();
        let until = if path.tick_stopped { span.wake } else { span.wake.min(tick) };
        until.since(path.now) - self.longest_entry
    }

    /// Returns true if a path that polls up to the event ends before a cheaper one. None of its
    /// endings would be kept.
    fn polls_in_vain(&self, path: &Path, crossing: &Crossing<'_>, polling: Energy) -> bool {
        let wake = crossing.span.wake;
        let stopped = crossing.ends_stopped(path.tick_stopped);
        let standing = path.energy + polling + crossing.credit_ahead(wake);
        crossing.endings[usize::from(stopped)].iter().any(|ending| {
            ending.now >= wake + self.latest_notice
                && ending.standing <= standing
                && crossing.beyond.covers(wake, ending.now, stopped)
        })
    }

    /// Does the same if rests are credited. The path that ends first copies the next choice of the
    /// other one and sleeps longer; if it ends last, it is credited less.
    fn is_hopeless_with_credit(
        &self,
        path: &Path,
        crossing: &Crossing<'_>,
        credit: &Credit,
        at_least: Energy,
    ) -> bool {
        let wake = crossing.span.wake;
        let latest = wake.max(path.now) + self.latest_ending;
        let at_least = at_least - (credit.upto(latest) - (path.standing - path.energy));
        if crossing.work.is_some() && crossing.beyond.until < latest {
            return false;
        }
        let credit_ahead = crossing.credit_ahead(wake);
        let beaten_by = |ending: &Path, stopped: bool| {
            if crossing.work.is_none() {
                return ending.energy <= at_least;
            }
            // If ticks may come between, resting until both meet may take one more trip.
            let trip =
                if crossing.beyond.settles.is_some() { Some(Energy::ZERO) } else { self.trip };
            let Some(trip) = trip else { return false };
            let longer = self.peak_power.over(latest.since(ending.now).max(Duration::ZERO));
            let missed = ending.standing - ending.energy - credit_ahead;
            crossing.beyond.covers(wake, latest.max(ending.now), stopped)
                && ending.energy + longer + missed + trip <= at_least
        };
        let beaten = |stopped: bool| {
            let stopped = crossing.ends_stopped(stopped);
            crossing.endings[usize::from(stopped)].iter().any(|ending| beaten_by(ending, stopped))
        };
        beaten(true) && (path.tick_stopped || beaten(false))
    }
}
