// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! All decisions of one CPU that may pay, whatever it is credited with.
//!
//! If CPUs share a cluster's power, a rest saves it only while all others rest, and their decisions
//! are not known yet. So a decision is dropped only if another one costs no more, however little or
//! much of a rest is credited: up to the whole power, and only where all CPUs may rest.
//!
//! A node is a moment at which the CPU decides, an edge one decision. Paths that decide at the same
//! moment share a node, so there are few to a span: states that have settled before an event end
//! when their exit latency is over, whenever they were entered. If spans are too short for that,
//! paths multiply, and the graph keeps the most promising; it is then not complete.

use super::credit::Credit;
use super::{Plan, Safe, Search};
use crate::idle_loop::{gives_up, next_events};
use crate::input::{CpuInput, Span};
use crate::model::{Alarms, CpuModel, SleepEnd};
use crate::policy::{Choice, Choices};
use std::ops::Range;
use torpor_machine::units::{Duration, Energy, Instant, Power};

/// Most moments at which a CPU may begin a span, and most at which it may decide again in it.
const BEGINNINGS_MAX: usize = 256;
const AGAIN_MAX: usize = 1_024;

/// Nodes in all and for each span from which on the graph is kept small.
const NODES_FREE: usize = 1_024;
const NODES_PER_SPAN: usize = 7;

/// FIDELITY(oracle-clusters): beginnings of a span that a small graph keeps.
const BEGINNINGS_KEPT: usize = 24;

/// A moment at which the CPU decides.
pub(super) struct Node {
    pub at: Instant,
    /// Number of the span.
    pub span: u32,
    tick_stopped: bool,
    pub edges: Range<u32>,
    /// The first way to get here.
    pub way: u32,
    /// The next node of the same span.
    next: u32,
    reached: Reached,
}

/// The least cost up to a node.
#[derive(Clone, Copy, Default)]
struct Reached {
    /// If nothing is credited.
    bare: Energy,
    /// If all rests are.
    credited: Energy,
}

impl Reached {
    fn min(self, other: Reached) -> Reached {
        let (bare, credited) = (self.bare.min(other.bare), self.credited.min(other.credited));
        Reached { bare, credited }
    }
}

/// A way to get to a node: a rest ends on it, or none does.
pub(super) struct Way {
    pub node: u32,
    /// End of the rest; before all times if there was none.
    pub rest_until: Instant,
    /// The next way to the same node.
    next: u32,
}

/// A decision.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    pub way: u32,
    /// Energy and the price of its delay.
    pub cost: Energy,
    pub delay: Duration,
    pub rests: bool,
    /// `None` for what follows the last span.
    pub choice: Option<Choice>,
}

pub(super) struct Graph {
    pub nodes: Vec<Node>,
    pub ways: Vec<Way>,
    pub edges: Vec<Edge>,
    /// The way to the first node: the CPU may have been asleep before.
    pub first: u32,
    /// No decision that may pay is missing.
    pub is_complete: bool,
}

impl Graph {
    /// Returns the ways to a node, by their index.
    pub(super) fn ways_to(&self, node: u32) -> impl Iterator<Item = (u32, &Way)> {
        let mut at = self.nodes[node as usize].way;
        std::iter::from_fn(move || {
            let way = self.ways.get(at as usize)?;
            Some((std::mem::replace(&mut at, way.next), way))
        })
    }

    /// Returns the plan that takes these edges, last first.
    pub(super) fn plan(&self, edges: &[u32], price: Power) -> Plan {
        let edges = || edges.iter().map(|&edge| &self.edges[edge as usize]);
        let mut choices = Choices::default();
        edges().filter_map(|edge| edge.choice).for_each(|choice| choices.push(&[choice], 1));
        choices.reverse();
        let delay: Duration = edges().fold(Duration::ZERO, |sum, edge| sum + edge.delay);
        let cost: Energy = edges().map(|edge| edge.cost).sum();
        Plan { choices, energy: cost - price.over(delay), delay, crowded_spans: 0 }
    }
}

pub(super) const NONE: u32 = u32::MAX;
pub(super) const NO_REST: Instant = Instant(i64::MIN);

/// An outcome of a decision: the CPU is past the event, or awake before it.
#[derive(Clone, Copy)]
struct Outcome {
    choice: Choice,
    energy: Energy,
    resume: Instant,
    /// After the tick's handling.
    now: Instant,
    tick_stopped: bool,
    rests: bool,
    is_over: bool,
}

/// Cost of a sleep in the deepest state from an earlier node up to the event.
#[derive(Clone, Copy)]
struct Reference {
    /// Cheapest way from that node to this one, minus the sleep.
    dearer: Energy,
    end: Instant,
}

/// A node of the current span that is not done yet.
#[derive(Clone, Copy)]
struct Waiting {
    node: u32,
    at: Instant,
    /// The first of several, and absent if there is none for one of the paths to here.
    reference: Option<Reference>,
}

/// A span, and what is known of the next one.
struct Place<'s> {
    k: usize,
    span: &'s Span,
    work: Option<Duration>,
    beyond: Safe,
    /// Highest power of a state in the next span.
    next_power: Power,
}

impl Place<'_> {
    /// Returns true if a path that ends the span later can do what an earlier one does.
    fn covers(&self, earlier: Instant, later: Instant, stopped: bool) -> bool {
        earlier == later || self.beyond.covers(earlier, later, stopped)
    }
}

/// A node whose decisions are tried.
struct Here {
    now: Instant,
    reached: Reached,
    reference: Option<Reference>,
    /// Index of the outcome that is the reference.
    own: Option<usize>,
}

pub(super) struct Builder<'a> {
    search: Search<'a>,
    spans: &'a [Span],
    price: Power,
    /// Power that a rest saves at most.
    most: &'a Credit,
    cut: [(Instant, Instant); 2],
    /// First node of each span.
    heads: Vec<u32>,
    graph: Graph,
    last: u32,
    waiting: Vec<Waiting>,
    outcomes: Vec<Outcome>,
    dropped: Vec<bool>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        model: &'a CpuModel,
        input: &'a CpuInput,
        span: (Instant, Instant),
        price: Power,
        most: &'a Credit,
    ) -> Builder<'a> {
        let spans = &input.spans;
        let graph = Graph {
            nodes: Vec::with_capacity(3 * spans.len()),
            ways: Vec::with_capacity(4 * spans.len()),
            edges: Vec::with_capacity(8 * spans.len()),
            first: NONE,
            is_complete: true,
        };
        Builder {
            search: Search::new(model),
            spans,
            price,
            most,
            cut: input.cut.within(span),
            heads: vec![NONE; spans.len()],
            graph,
            last: NONE,
            waiting: Vec::new(),
            outcomes: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// Returns the graph, or `None` if `goes_on` returns false.
    pub(super) fn build(mut self, goes_on: &mut dyn FnMut() -> bool) -> Option<Graph> {
        let (before, after) = (self.cut[0], self.cut[1]);
        let rest = if before.1 > before.0 { before.1 } else { NO_REST };
        let start = self.spans.first().map_or(before.1, |span| span.start);
        self.graph.first = self.arrive(0, start, false, rest, Reached::default(), before.0).0;
        for k in 0..self.spans.len() {
            if k % 1024 == 1023 && !goes_on() {
                return None;
            }
            self.cross(k);
        }
        let end = self.node(self.spans.len() + 1, Instant::NEVER, false, Reached::default());
        let awake = self.way(end, NO_REST);
        // Ends of the last decisions differ, and so do the rests that follow.
        let mut at = self.last;
        while at != NONE {
            let from = self.graph.nodes[at as usize].at;
            let rests = after.1 > from;
            let way = if rests { self.way(end, after.1) } else { awake };
            let first = self.graph.edges.len() as u32;
            let choice = None;
            let cost = Energy::ZERO;
            self.graph.edges.push(Edge { way, cost, delay: Duration::ZERO, rests, choice });
            let node = &mut self.graph.nodes[at as usize];
            (node.edges, at) = (first..first + 1, node.next);
        }
        Some(self.graph)
    }

    fn node(&mut self, k: usize, at: Instant, tick_stopped: bool, reached: Reached) -> u32 {
        let (edges, way, next, span) = (0..0, NONE, NONE, k as u32);
        self.graph.nodes.push(Node { at, span, tick_stopped, edges, way, next, reached });
        self.graph.nodes.len() as u32 - 1
    }

    fn way(&mut self, node: u32, rest_until: Instant) -> u32 {
        let mut at = self.graph.nodes[node as usize].way;
        let mut last = NONE;
        while at != NONE {
            let way = &self.graph.ways[at as usize];
            if way.rest_until == rest_until {
                return at;
            }
            (last, at) = (at, way.next);
        }
        let new = self.graph.ways.len() as u32;
        self.graph.ways.push(Way { node, rest_until, next: NONE });
        match last {
            NONE => self.graph.nodes[node as usize].way = new,
            last => self.graph.ways[last as usize].next = new,
        }
        new
    }

    /// Goes to the first span, from `k` on, whose event has not happened `now`. Returns the way
    /// there, and the delay of the events before it.
    fn arrive(
        &mut self,
        mut k: usize,
        mut now: Instant,
        mut tick_stopped: bool,
        rest_until: Instant,
        reached: Reached,
        begun: Instant,
    ) -> (u32, Duration) {
        let mut delay = Duration::ZERO;
        while let Some(span) = self.spans.get(k) {
            if now <= span.wake {
                let node = self.node_of(k, now, tick_stopped, reached);
                return (self.way(node, rest_until), delay);
            }
            tick_stopped &= !span.ends_visit;
            delay += now.since(span.resume).max(Duration::ZERO);
            now +=
                self.spans.get(k + 1).map_or(Duration::ZERO, |next| next.start.since(span.resume));
            k += 1;
        }
        // Nothing is decided any more. A rest goes on in the sleep that the recording cuts.
        let at = self.cut[1].0.max(rest_until).max(begun);
        let mut node = self.last;
        while node != NONE && self.graph.nodes[node as usize].at != at {
            node = self.graph.nodes[node as usize].next;
        }
        if node == NONE {
            node = self.node(self.spans.len(), at, false, reached);
            self.graph.nodes[node as usize].next = std::mem::replace(&mut self.last, node);
        }
        (self.way(node, rest_until), delay)
    }

    fn node_of(&mut self, k: usize, now: Instant, tick_stopped: bool, reached: Reached) -> u32 {
        let mut at = self.heads[k];
        while at != NONE {
            let node = &mut self.graph.nodes[at as usize];
            if node.at == now && node.tick_stopped == tick_stopped {
                node.reached = node.reached.min(reached);
                return at;
            }
            at = node.next;
        }
        let new = self.node(k, now, tick_stopped, reached);
        self.graph.nodes[new as usize].next = std::mem::replace(&mut self.heads[k], new);
        new
    }

    fn place(&self, k: usize) -> Place<'a> {
        let (span, next) = (&self.spans[k], self.spans.get(k + 1));
        let work = next.map(|next| next.start.since(span.resume));
        let beyond = next.map_or(Safe::ALWAYS, |next| {
            let safe = self.search.safe_with_credit(next);
            // One that comes with the event gives up, which an earlier one cannot.
            let safe = Safe { until: safe.until.min(next.wake - Duration(1)), ..safe };
            safe.ahead_of(work.unwrap_or_default(), span.wake)
        });
        let model = self.search.model;
        let power = |next: &Span| {
            let powers =
                self.search.allowed.iter().map(|&state| model.costs.power(next.opp, state));
            powers.max().unwrap_or(Power::ZERO)
        };
        Place { k, span, work, beyond, next_power: next.map_or(Power::ZERO, power) }
    }

    /// Takes all nodes of a span through it.
    fn cross(&mut self, k: usize) {
        let place = self.place(k);
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.clear();
        let mut at = self.heads[k];
        while at != NONE {
            let node = &self.graph.nodes[at as usize];
            waiting.push(Waiting { node: at, at: node.at, reference: None });
            at = node.next;
        }
        let is_large = self.graph.nodes.len() > NODES_FREE + NODES_PER_SPAN * k;
        let most = if is_large { BEGINNINGS_KEPT } else { BEGINNINGS_MAX };
        if waiting.len() > most {
            self.keep_best(&place, &mut waiting, most);
        }
        waiting.sort_unstable_by_key(|w| std::cmp::Reverse((w.at, w.node)));
        let mut again = 0;
        while let Some(next) = waiting.pop() {
            self.decide(&place, next, &mut waiting, &mut again);
        }
        self.waiting = waiting;
    }

    /// Keeps the most promising beginnings of a span, if rests are credited and if they are not:
    /// each moment that a path is later saves it the power of a rest.
    fn keep_best(&mut self, place: &Place<'_>, waiting: &mut Vec<Waiting>, most: usize) {
        let rest = self.search.model.costs.power(place.span.opp, self.search.allowed[0]);
        let mut ranked: Vec<(Reached, Waiting)> = Vec::with_capacity(waiting.len());
        ranked.extend(waiting.drain(..).map(|w| {
            let Reached { bare, credited } = self.graph.nodes[w.node as usize].reached;
            let saved = rest.over(w.at.since(place.span.start));
            (Reached { bare: bare - saved, credited: credited - saved }, w)
        }));
        let half = most / 2;
        ranked.select_nth_unstable_by_key(half, |(cost, w)| (cost.bare, w.at, w.node));
        let by_credited = |(cost, w): &(Reached, Waiting)| (cost.credited, w.at, w.node);
        ranked[half..].select_nth_unstable_by_key(most - half, by_credited);
        waiting.extend(ranked.into_iter().take(most).map(|(_, w)| w));
        self.graph.is_complete = false;
    }

    /// Adds the decisions of a node; `again` counts nodes that are not beginnings.
    fn decide(
        &mut self,
        place: &Place<'_>,
        at: Waiting,
        waiting: &mut Vec<Waiting>,
        again: &mut usize,
    ) {
        let span = place.span;
        let first = self.graph.edges.len() as u32;
        let Node { at: now, tick_stopped, reached, .. } = self.graph.nodes[at.node as usize];
        if gives_up(span, now) {
            // A decision without effect.
            let choice = Choice { state: self.search.allowed[0] as u8, stop_tick: false };
            let (energy, rests, is_over) = (Energy::ZERO, false, true);
            let stay = Outcome { choice, energy, resume: now, now, tick_stopped, rests, is_over };
            self.finish(place, now, reached, &stay);
            self.graph.nodes[at.node as usize].edges = first..first + 1;
            return;
        }
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let own = self.outcomes(span, now, tick_stopped, &mut outcomes);
        let mut here = Here { now, reached, reference: at.reference, own: None };
        if let (None, Some(own)) = (here.reference, own) {
            let Outcome { energy, now: end, .. } = outcomes[own];
            here.reference = Some(Reference { dearer: Energy::ZERO - energy, end });
            here.own = Some(own);
        }
        self.prune(place, &here, &outcomes);
        if *again > AGAIN_MAX {
            self.hurry(&outcomes);
        }
        for (index, outcome) in outcomes.iter().enumerate() {
            if self.dropped[index] {
                continue;
            }
            if outcome.is_over {
                self.finish(place, now, reached, outcome);
            } else {
                *again += usize::from(self.wait(place, &here, outcome, waiting));
            }
        }
        self.outcomes = outcomes;
        self.graph.nodes[at.node as usize].edges = first..self.graph.edges.len() as u32;
    }

    /// Lists the outcomes of all decisions. Returns the index of a sleep in the deepest state up to
    /// the event.
    fn outcomes(
        &mut self,
        span: &Span,
        now: Instant,
        tick_stopped: bool,
        outcomes: &mut Vec<Outcome>,
    ) -> Option<usize> {
        let model = self.search.model;
        let jiffy = self.search.jiffy_at(now);
        self.search.jiffy = jiffy;
        let tick = model.tick.hz.tick();
        let next = next_events(span, tick, jiffy, now, tick_stopped);
        let can_stop = !tick_stopped && !next.must_keep_tick;
        let settles = now + model.states[model.deepest].entry_latency <= span.wake;
        let mut own = None;
        outcomes.clear();
        for &state in &self.search.allowed {
            for stop_tick in [true, false] {
                if stop_tick && !can_stop {
                    continue;
                }
                let choice = Choice { state: state as u8, stop_tick };
                let stopped = tick_stopped || stop_tick;
                let outcome = self.outcome(span, now, jiffy, choice, stopped);
                if state == model.deepest && stopped && settles && outcome.is_over {
                    own = Some(outcomes.len());
                }
                outcomes.push(outcome);
                if stop_tick && span.ends_visit && jiffy + tick > span.wake {
                    // The same without stopping it.
                    break;
                }
            }
        }
        own
    }

    fn outcome(
        &self,
        span: &Span,
        now: Instant,
        jiffy: Instant,
        choice: Choice,
        tick_stopped: bool,
    ) -> Outcome {
        let (model, state) = (self.search.model, usize::from(choice.state));
        let tick = if tick_stopped { Instant::NEVER } else { jiffy + model.tick.hz.tick() };
        let alarms = Alarms::tick(tick);
        let is_polling = model.states[state].is_polling;
        let sleep = if is_polling {
            let timeout = model.poll_timeout(now, model.default_poll_limit);
            model.poll(now, span.wake, alarms, timeout)
        } else {
            model.sleep(state, now, span.wake, alarms)
        };
        let mut energy = model.costs.sleep(span.opp, state, sleep.resume.since(now));
        let mut after = sleep.resume;
        if matches!(sleep.end, SleepEnd::Tick | SleepEnd::GovernorTimer) {
            after += model.tick_handling;
            energy += model.costs.awake(span.opp, model.tick_handling);
        }
        let is_over = sleep.end == SleepEnd::Event || after > span.wake;
        let rests = state == model.deepest && !is_polling;
        Outcome { choice, energy, resume: sleep.resume, now: after, tick_stopped, rests, is_over }
    }

    /// Returns the most that a path can be credited with in the next span while one that ends this
    /// span later is not in it yet.
    fn missed(&self, place: &Place<'_>, earlier: Instant, later: Instant) -> Energy {
        place.work.map_or(Energy::ZERO, |work| self.most.between(earlier + work, later + work))
    }

    /// Marks outcomes to drop: another one is as good, or the reference is.
    fn prune(&mut self, place: &Place<'_>, here: &Here, outcomes: &[Outcome]) {
        let mut dropped = std::mem::take(&mut self.dropped);
        dropped.clear();
        dropped.resize(outcomes.len(), false);
        let stopped = |x: &Outcome| x.tick_stopped && !place.span.ends_visit;
        for (i, x) in outcomes.iter().enumerate().filter(|(_, x)| x.is_over) {
            for (j, y) in outcomes.iter().enumerate().filter(|(_, y)| y.is_over) {
                let is_before = (x.now, i) < (y.now, j) && stopped(x) == stopped(y);
                if !is_before || !place.covers(x.now, y.now, stopped(x)) {
                    continue;
                }
                let [more_x, more_y] = self.more_credit(here.now, x, y);
                let [cost_x, cost_y] = [x, y].map(|x| x.energy + self.price_at(place, x.now));
                if cost_x - more_x >= cost_y + self.missed(place, x.now, y.now) {
                    dropped[i] = true;
                } else if cost_y - more_y > cost_x + place.next_power.over(y.now.since(x.now)) {
                    // A tie drops none of the two here, so that not each drops the other.
                    dropped[j] = true;
                }
            }
        }
        if let Some(reference) = here.reference {
            for (i, x) in outcomes.iter().enumerate() {
                // What is just as good at its own node may have replaced it.
                let by = Energy(here.own.is_some().into());
                dropped[i] |= here.own != Some(i) && self.is_beaten(place, x, reference, by);
            }
        }
        self.dropped = dropped;
    }

    /// Returns the most that each of two sleeps from `now` on is credited with beyond the other.
    fn more_credit(&self, now: Instant, x: &Outcome, y: &Outcome) -> [Energy; 2] {
        match (x.rests, y.rests) {
            (true, false) => [self.most.between(now, x.resume), Energy::ZERO],
            (false, true) => [Energy::ZERO, self.most.between(now, y.resume)],
            (true, true) => [Energy::ZERO, self.most.between(x.resume, y.resume)],
            (false, false) => [Energy::ZERO; 2],
        }
    }

    /// Drops outcomes but those that end the span, or all but the last.
    fn hurry(&mut self, outcomes: &[Outcome]) {
        self.graph.is_complete = false;
        let ends = outcomes.iter().any(|x| x.is_over);
        for (index, x) in outcomes.iter().enumerate() {
            self.dropped[index] |= if ends { !x.is_over } else { index + 1 < outcomes.len() };
        }
    }

    /// Returns the price of this span's event if its work begins at a time.
    fn price_at(&self, place: &Place<'_>, now: Instant) -> Energy {
        self.price.over(now.since(place.span.resume).max(Duration::ZERO))
    }

    /// Returns true if the reference is as good as this outcome, or cheaper by the given energy.
    fn is_beaten(&self, place: &Place<'_>, x: &Outcome, reference: Reference, by: Energy) -> bool {
        // The reference stops the tick.
        if !x.tick_stopped && !place.span.ends_visit {
            return false;
        }
        let (stopped, end) = (!place.span.ends_visit, reference.end);
        let cost = reference.dearer + x.energy - by - self.price_at(place, end);
        if x.is_over {
            let cost = cost + self.price_at(place, x.now);
            if x.now <= end {
                let missed = self.missed(place, x.now, end);
                return cost >= missed && place.covers(x.now, end, stopped);
            }
            let more = self.most.between(end, x.now) + place.next_power.over(x.now.since(end));
            return cost > more && place.covers(end, x.now, stopped);
        }
        let wake = place.span.wake;
        let latest = (wake.max(x.now) + self.search.latest_ending).max(end);
        let floor = self.search.floor_powers[usize::from(place.span.opp)];
        let at_least = cost + floor.over(wake.since(x.now)) + self.price_at(place, wake);
        let more = self.most.between(end, latest) + place.next_power.over(latest.since(end));
        at_least > more + self.missed(place, wake, end) && place.covers(wake, latest, stopped)
    }

    /// Returns the least cost after a decision at `now`.
    fn reached(&self, before: Reached, now: Instant, x: &Outcome) -> Reached {
        let credit = if x.rests { self.most.between(now, x.resume) } else { Energy::ZERO };
        let Reached { bare, credited } = before;
        Reached { bare: bare + x.energy, credited: credited + x.energy - credit }
    }

    /// Adds a decision that passes the event.
    fn finish(&mut self, place: &Place<'_>, now: Instant, reached: Reached, x: &Outcome) {
        let stopped = x.tick_stopped && !place.span.ends_visit;
        let late = x.now.since(place.span.resume).max(Duration::ZERO);
        let at = x.now + place.work.unwrap_or(Duration::ZERO);
        let rest_until = if x.rests { x.resume } else { NO_REST };
        let reached = self.reached(reached, now, x);
        let (way, skipped) = self.arrive(place.k + 1, at, stopped, rest_until, reached, now);
        let delay = late + skipped;
        let cost = x.energy + self.price.over(delay);
        let choice = Some(x.choice);
        self.graph.edges.push(Edge { way, cost, delay, rests: x.rests, choice });
    }

    /// Adds a decision after which the CPU decides again before the event.
    fn wait(
        &mut self,
        place: &Place<'_>,
        here: &Here,
        x: &Outcome,
        waiting: &mut Vec<Waiting>,
    ) -> bool {
        let reference = here.reference.map(|r| Reference { dearer: r.dearer + x.energy, ..r });
        let reached = self.reached(here.reached, here.now, x);
        let node = self.node_of(place.k, x.now, x.tick_stopped, reached);
        let rest_until = if x.rests { x.resume } else { NO_REST };
        let way = self.way(node, rest_until);
        let (delay, choice) = (Duration::ZERO, Some(x.choice));
        self.graph.edges.push(Edge { way, cost: x.energy, delay, rests: x.rests, choice });
        if let Some(known) = waiting.iter_mut().find(|w| w.node == node) {
            known.reference = match (known.reference, reference) {
                (Some(a), Some(b)) if a.end == b.end => {
                    Some(if a.dearer <= b.dearer { a } else { b })
                }
                _ => None,
            };
            return false;
        }
        let new = Waiting { node, at: x.now, reference };
        let before = waiting.iter().rposition(|w| (w.at, w.node) > (new.at, new.node));
        waiting.insert(before.map_or(0, |at| at + 1), new);
        true
    }
}
