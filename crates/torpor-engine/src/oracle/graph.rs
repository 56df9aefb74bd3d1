// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The decisions of one CPU that may be worth taking, as a graph.
//!
//! A [`Node`] is a moment at which the CPU decides, an [`Edge`] one decision, and a [`Way`] how the
//! CPU gets to a node: from a rest (a sleep in the deepest state) that ends there, or from no rest.
//! A path from the first node to the last is a [`Plan`]. For example, a span begins at 0 us, its
//! event is at 300 us and a tick at 200 us; state C1 takes 80 us to leave, WFI nothing:
//!
//! ```text
//! at 0, span 0 ──WFI, tick stopped──────────────────────────────► at 300, span 1
//!      ├────────C1, tick stopped────────────────────────────────► at 380, span 1
//!      └────────WFI, tick kept───► at 200, span 0 ──C1──────────►   (the same node)
//! ```
//!
//! Paths that decide at the same moment share a node, so there are few to a span: a state that has
//! settled before the event ends when its exit latency is over, whenever it was entered.
//!
//! The CPUs of a cluster save its power only while all of them rest, and what the others do is not
//! known here. So a decision is dropped only if another one costs no more for any credit: from none
//! to the whole power, where all CPUs may rest. If spans are too short for paths to meet again, they
//! multiply; so a [`Builder`] lists a node's decisions only when [`together`](super::together) gets
//! there.

use super::credit::Credit;
use super::{Plan, Safe, Search};
use crate::idle_loop::{gives_up, next_events};
use crate::input::{CpuInput, Span};
use crate::model::{Alarms, CpuModel, SleepEnd};
use crate::policy::{Choice, Choices};
use rustc_hash::FxHashMap;
use std::ops::Range;
use torpor_machine::units::{Duration, Energy, Instant, Power};

/// Most moments at which a CPU may decide again in a span.
const AGAIN_MAX: usize = 1_024;

/// Known nodes before those of past spans are dropped.
const KNOWN_MAX: usize = 4_096;

/// A moment at which the CPU decides.
pub(super) struct Node {
    pub at: Instant,
    /// Number of the span.
    pub span: u32,
    tick_stopped: bool,
    pub edges: Range<u32>,
    /// The first way to get here.
    pub way: u32,
    /// The next node after the last span.
    next: u32,
    /// The first state of all CPUs in which this node decides next.
    pub state: u32,
    /// Number of its reference; `NONE` if a path gets here that has none.
    reference: u32,
}

/// A way to get to a node: a rest ends on it, or none does.
pub(super) struct Way {
    pub node: u32,
    /// End of the rest; before all times if there was none.
    pub rest_until: Instant,
    /// Energy saved up to then.
    pub saved: Energy,
    /// Estimate of what the CPU spends from there on.
    pub ahead: Energy,
    pub turn: Turn,
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
}

impl Graph {
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
    /// With the price of the delay.
    cost: Energy,
    /// The most that the rest is credited with, and that one up to the next span is.
    credit: Energy,
    ahead: Energy,
}

/// Cost of a sleep in the deepest state up to the event, from an earlier node of the span that every
/// path to this one passes, or a node like it.
#[derive(Clone, Copy)]
struct Reference {
    /// Cheapest way from that node to this one, minus the sleep.
    dearer: Energy,
    end: Instant,
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

/// Order of decisions: by time, CPU and span, as some spans have no length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn(i128);

impl Turn {
    pub(super) const LAST: Turn = Turn(i128::MAX);

    fn new(at: Instant, cpu: u32, span: u32) -> Turn {
        Turn((i128::from(at.0) << 64) + (i128::from(cpu) << 32) + i128::from(span))
    }

    pub(super) fn at(self) -> Instant {
        Instant((self.0 >> 64) as i64)
    }

    pub(super) fn cpu(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A node whose decisions are tried.
struct Here {
    reference: Option<Reference>,
    /// Index of the outcome that is the reference.
    own: Option<usize>,
}

/// Estimates of what a CPU spends from a moment on, if each CPU is credited with an equal part of what
/// all save. Between two moments of a span, the cost of getting to rest grows with the time left.
struct Outlook<'a> {
    spans: &'a [Span],
    part: &'a Credit,
    /// By span.
    ahead: Vec<Ahead>,
    /// By OPP: the power of the shallowest state, and that of the deepest.
    powers: Vec<[Power; 2]>,
}

#[derive(Clone, Copy, Default)]
struct Ahead {
    /// From the beginning of this span on.
    energy: Energy,
    /// Cost of getting to rest, over this time.
    entry: Power,
    trip: Duration,
    /// The credit up to the event.
    credited: Energy,
}

impl<'a> Outlook<'a> {
    fn new(search: &Search<'_>, spans: &'a [Span], part: &'a Credit) -> Outlook<'a> {
        let (model, first) = (search.model, search.allowed[0]);
        let opps = 0..model.costs.opp_count() as u16;
        let powers = opps.map(|opp| [first, model.deepest].map(|s| model.costs.power(opp, s)));
        let ahead = vec![Ahead::default(); spans.len() + 1];
        let mut outlook = Outlook { spans, part, ahead, powers: powers.collect() };
        let deepest = &model.states[model.deepest];
        let trip = deepest.entry_latency + deepest.exit_latency;
        for (k, span) in spans.iter().enumerate().rev() {
            let trip = trip.min(span.wake.since(span.start)).max(Duration(1));
            let credited = part.upto(span.wake);
            let energy = search.allowed.iter().map(|&state| outlook.after(k, model, state)).min();
            let energy = energy.unwrap_or(Energy::ZERO);
            outlook.ahead[k] = Ahead { energy, entry: Power::ZERO, trip, credited };
            let rest = outlook.rest(k, span.start) + outlook.ahead[k + 1].energy;
            outlook.ahead[k].entry = Power(((energy - rest).0 / i128::from(trip.0)) as i64);
        }
        outlook
    }

    /// Returns the energy from the beginning of a span on, if a state is entered there.
    fn after(&self, mut k: usize, model: &CpuModel, state: usize) -> Energy {
        let (span, own) = (&self.spans[k], &model.states[state]);
        let resume = span.wake.max(span.start + own.entry_latency) + own.exit_latency;
        let energy = model.costs.sleep(span.opp, state, resume.since(span.start));
        let rests = state == model.deepest;
        let part = if rests { self.part.between(span.start, resume) } else { Energy::ZERO };
        let mut now = resume;
        while let Some(next) = self.spans.get(k + 1) {
            now += next.start.since(self.spans[k].resume);
            k += 1;
            if now <= next.wake {
                return energy - part + self.from(k, now);
            }
        }
        energy - part
    }

    /// Returns the energy of a rest from a moment to the event.
    fn rest(&self, k: usize, at: Instant) -> Energy {
        let span = &self.spans[k];
        let [_, deepest] = self.powers[usize::from(span.opp)];
        deepest.over(span.wake.since(at)) - (self.ahead[k].credited - self.part.upto(at))
    }

    fn from(&self, k: usize, at: Instant) -> Energy {
        let Some(span) = self.spans.get(k) else { return Energy::ZERO };
        let Ahead { entry, trip, .. } = self.ahead[k];
        let [shallowest, _] = self.powers[usize::from(span.opp)];
        let left = span.wake.since(at);
        let rest = entry.over(left.min(trip)) + self.rest(k, at);
        self.ahead[k + 1].energy + rest.min(shallowest.over(left))
    }
}

/// The decisions of one CPU, listed as they are needed.
pub(super) struct Builder<'a> {
    cpu: u32,
    search: Search<'a>,
    spans: &'a [Span],
    price: Power,
    /// Power that a rest saves at most.
    most: &'a Credit,
    /// Power that the cluster saves while all CPUs rest.
    saved: &'a Credit,
    outlook: Outlook<'a>,
    cut: [(Instant, Instant); 2],
    /// Nodes of spans that are not past, by span, time, and whether the tick is stopped.
    known: FxHashMap<(u32, Instant, bool), u32>,
    pub graph: Graph,
    /// First node after the last span, and the node after all.
    last: u32,
    end: u32,
    /// The current span, the number of nodes in it that are not beginnings, and these.
    place: Option<Place<'a>>,
    again: usize,
    references: Vec<Reference>,
    /// Nodes from which decisions that may pay were left out.
    pub hurries: u64,
    outcomes: Vec<Outcome>,
    dropped: Vec<bool>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        cpu: u32,
        (model, input): (&'a CpuModel, &'a CpuInput),
        span: (Instant, Instant),
        price: Power,
        [saved, most, part]: [&'a Credit; 3],
    ) -> Builder<'a> {
        let spans = &input.spans;
        let graph = Graph {
            nodes: Vec::with_capacity(4 * spans.len()),
            ways: Vec::with_capacity(4 * spans.len()),
            edges: Vec::with_capacity(8 * spans.len()),
            first: NONE,
        };
        let search = Search::new(model);
        let mut builder = Builder {
            cpu,
            spans,
            price,
            most,
            saved,
            outlook: Outlook::new(&search, spans, part),
            search,
            cut: input.cut.within(span),
            known: FxHashMap::default(),
            graph,
            last: NONE,
            end: NONE,
            place: None,
            again: 0,
            references: Vec::new(),
            hurries: 0,
            outcomes: Vec::new(),
            dropped: Vec::new(),
        };
        builder.begin();
        builder
    }

    /// Makes the first node.
    fn begin(&mut self) {
        let before = self.cut[0];
        let rest = if before.1 > before.0 { before.1 } else { NO_REST };
        let start = self.spans.first().map_or(before.1, |span| span.start);
        self.graph.first = self.arrive(0, start, false, rest, before.0).0;
    }

    /// Lists the decisions of a node, the next in order of time.
    pub(super) fn expand(&mut self, node: u32, is_exact: bool) {
        let k = self.graph.nodes[node as usize].span as usize;
        if k >= self.spans.len() {
            return self.close(node);
        }
        if self.place.as_ref().is_none_or(|place| place.k != k) {
            self.place = Some(self.place(k));
            if self.known.len() > KNOWN_MAX {
                self.known.retain(|(span, ..), _| *span as usize >= k);
            }
            self.references.clear();
            self.again = 0;
        }
        let place = self.place.take().expect("it was just made");
        self.decide(&place, node, is_exact);
        self.place = Some(place);
    }

    /// Nothing is decided any more. Ends of the last decisions differ, and so do the rests that
    /// follow.
    fn close(&mut self, node: u32) {
        if self.end == NONE {
            self.end = self.node(self.spans.len() + 1, Instant::NEVER, false);
        }
        let rests = self.cut[1].1 > self.graph.nodes[node as usize].at;
        let way = self.way(self.end, if rests { self.cut[1].1 } else { NO_REST });
        let first = self.graph.edges.len() as u32;
        let (choice, cost) = (None, Energy::ZERO);
        self.graph.edges.push(Edge { way, cost, delay: Duration::ZERO, rests, choice });
        self.graph.nodes[node as usize].edges = first..first + 1;
    }

    fn node(&mut self, k: usize, at: Instant, tick_stopped: bool) -> u32 {
        let (edges, span) = (0..0, k as u32);
        let (way, next, state, reference) = (NONE, NONE, NONE, NONE);
        self.graph.nodes.push(Node { at, span, tick_stopped, edges, way, next, state, reference });
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
        let &Node { span, at, .. } = &self.graph.nodes[node as usize];
        let (saved, ahead) = (self.saved.upto(rest_until), self.outlook.from(span as usize, at));
        let turn = Turn::new(at, self.cpu, span);
        self.graph.ways.push(Way { node, rest_until, saved, ahead, turn, next: NONE });
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
        begun: Instant,
    ) -> (u32, Duration) {
        let mut delay = Duration::ZERO;
        while let Some(span) = self.spans.get(k) {
            if now <= span.wake {
                let node = self.node_of(k, now, tick_stopped, None);
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
            node = self.node(self.spans.len(), at, false);
            self.graph.nodes[node as usize].next = std::mem::replace(&mut self.last, node);
        }
        (self.way(node, rest_until), delay)
    }

    /// Returns the node of a moment, to which a path with this reference leads. All paths lead to a
    /// node before it decides: those from earlier spans before any node of its span does.
    fn node_of(
        &mut self,
        k: usize,
        now: Instant,
        tick_stopped: bool,
        reference: Option<Reference>,
    ) -> u32 {
        let key = (k as u32, now, tick_stopped);
        if let Some(&at) = self.known.get(&key) {
            let node = &mut self.graph.nodes[at as usize];
            let known = self.references.get_mut(node.reference as usize);
            match known.zip(reference) {
                Some((known, new)) if known.end == new.end => {
                    known.dearer = known.dearer.min(new.dearer);
                }
                _ => node.reference = NONE,
            }
            return at;
        }
        let new = self.node(k, now, tick_stopped);
        self.known.insert(key, new);
        let node = &mut self.graph.nodes[new as usize];
        if let Some(reference) = reference {
            node.reference = self.references.len() as u32;
            self.references.push(reference);
        }
        new
    }

    fn place(&self, k: usize) -> Place<'a> {
        let (span, next) = (&self.spans[k], self.spans.get(k + 1));
        let work = next.map(|next| next.start.since(span.resume));
        let beyond = next.map_or(Safe::ALWAYS, |next| {
            self.search.safe_with_credit(next).ahead_of(work.unwrap_or_default(), span.wake)
        });
        let model = self.search.model;
        let power = |next: &Span| {
            let powers =
                self.search.allowed.iter().map(|&state| model.costs.power(next.opp, state));
            powers.max().unwrap_or(Power::ZERO)
        };
        Place { k, span, work, beyond, next_power: next.map_or(Power::ZERO, power) }
    }

    /// Adds the decisions of a node.
    fn decide(&mut self, place: &Place<'_>, node: u32, is_exact: bool) {
        let span = place.span;
        let first = self.graph.edges.len() as u32;
        let Node { at: now, tick_stopped, reference, .. } = self.graph.nodes[node as usize];
        let reference = self.references.get(reference as usize).copied();
        if gives_up(span, now) {
            // A decision without effect.
            let choice = Choice { state: self.search.allowed[0] as u8, stop_tick: false };
            let (energy, rests, is_over) = (Energy::ZERO, false, true);
            let (cost, credit, ahead) = (energy, energy, energy);
            let stay = Outcome {
                choice,
                energy,
                resume: now,
                now,
                tick_stopped,
                rests,
                is_over,
                cost,
                credit,
                ahead,
            };
            self.finish(place, now, &stay);
            self.graph.nodes[node as usize].edges = first..first + 1;
            return;
        }
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let own = self.outcomes(place, now, tick_stopped, &mut outcomes);
        let mut here = Here { reference, own: None };
        if let (None, Some(own)) = (here.reference, own) {
            let Outcome { energy, now: end, .. } = outcomes[own];
            here.reference = Some(Reference { dearer: Energy::ZERO - energy, end });
            here.own = Some(own);
        }
        self.prune(place, &here, &outcomes);
        if !is_exact && self.dropped.iter().all(|&dropped| dropped) {
            // The state with the reference may have been left out.
            self.dropped.fill(false);
        }
        if self.again > AGAIN_MAX {
            self.hurry(&outcomes);
        }
        for (index, outcome) in outcomes.iter().enumerate() {
            if self.dropped[index] {
                continue;
            }
            if outcome.is_over {
                self.finish(place, now, outcome);
            } else {
                self.wait(place, &here, outcome);
            }
        }
        self.outcomes = outcomes;
        self.graph.nodes[node as usize].edges = first..self.graph.edges.len() as u32;
    }

    /// Lists the outcomes of all decisions. Returns the index of a sleep in the deepest state up to
    /// the event.
    fn outcomes(
        &mut self,
        place: &Place<'_>,
        now: Instant,
        tick_stopped: bool,
        outcomes: &mut Vec<Outcome>,
    ) -> Option<usize> {
        let (span, model) = (place.span, self.search.model);
        let most = self.most.upto(now);
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
                let outcome = self.outcome(place, (now, most), jiffy, choice, stopped);
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
        place: &Place<'_>,
        (now, most): (Instant, Energy),
        jiffy: Instant,
        choice: Choice,
        tick_stopped: bool,
    ) -> Outcome {
        let (span, model, state) = (place.span, self.search.model, usize::from(choice.state));
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
        let (resume, now) = (sleep.resume, after);
        let cost = energy + self.price_at(place, now);
        let credit = if rests { self.most.upto(resume) - most } else { Energy::ZERO };
        let ahead = if is_over { self.ahead(place, now) } else { Energy::ZERO };
        Outcome { choice, energy, resume, now, tick_stopped, rests, is_over, cost, credit, ahead }
    }

    /// Returns the most that a path can be credited with up to the next span.
    fn ahead(&self, place: &Place<'_>, now: Instant) -> Energy {
        place.work.map_or(Energy::ZERO, |work| self.most.upto(now + work))
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
                if !is_before {
                    continue;
                }
                // The most that each is credited with beyond the other: both would rest from now on.
                // A tick just before the event can end the rest of the one that ends last.
                let more_x = (x.credit - y.credit).max(Energy::ZERO);
                let more_y = (y.credit - x.credit).max(Energy::ZERO);
                let later = place.next_power.over(y.now.since(x.now));
                let is_first_worse = x.cost - more_x >= y.cost + (y.ahead - x.ahead);
                // A tie drops none of the two here, so that not each drops the other.
                let is_last_worse = y.cost - more_y > x.cost + later;
                if (is_first_worse || is_last_worse) && place.covers(x.now, y.now, stopped(x)) {
                    dropped[if is_first_worse { i } else { j }] = true;
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

    /// Drops outcomes but those that end the span, or all but the last.
    fn hurry(&mut self, outcomes: &[Outcome]) {
        self.hurries += 1;
        let kept = || (0..outcomes.len()).filter(|&index| !self.dropped[index]);
        let (ends, last) = (kept().any(|index| outcomes[index].is_over), kept().next_back());
        for (index, x) in outcomes.iter().enumerate() {
            self.dropped[index] |= if ends { !x.is_over } else { Some(index) != last };
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
        let cost = reference.dearer - by - self.price_at(place, end);
        if x.is_over {
            let cost = cost + x.cost;
            if x.now <= end {
                let missed = self.ahead(place, end) - x.ahead;
                return cost >= missed && place.covers(x.now, end, stopped);
            }
            let more = self.most.between(end, x.now) + place.next_power.over(x.now.since(end));
            return cost > more && place.covers(end, x.now, stopped);
        }
        let wake = place.span.wake;
        let latest = (wake.max(x.now) + self.search.latest_ending).max(end);
        let floor = self.search.floor_powers[usize::from(place.span.opp)];
        let at_least = cost + x.energy + floor.over(wake.since(x.now)) + self.price_at(place, wake);
        let more = self.most.between(end, latest) + place.next_power.over(latest.since(end));
        let missed = self.ahead(place, end) - self.ahead(place, wake);
        at_least > more + missed && place.covers(wake, latest, stopped)
    }

    /// Adds a decision that passes the event.
    fn finish(&mut self, place: &Place<'_>, now: Instant, x: &Outcome) {
        let stopped = x.tick_stopped && !place.span.ends_visit;
        let late = x.now.since(place.span.resume).max(Duration::ZERO);
        let at = x.now + place.work.unwrap_or(Duration::ZERO);
        let rest_until = if x.rests { x.resume } else { NO_REST };
        let (way, skipped) = self.arrive(place.k + 1, at, stopped, rest_until, now);
        let delay = late + skipped;
        let cost = x.energy + self.price.over(delay);
        let choice = Some(x.choice);
        self.graph.edges.push(Edge { way, cost, delay, rests: x.rests, choice });
    }

    /// Adds a decision after which the CPU decides again before the event.
    fn wait(&mut self, place: &Place<'_>, here: &Here, x: &Outcome) {
        let reference = here.reference.map(|r| Reference { dearer: r.dearer + x.energy, ..r });
        let node_count = self.graph.nodes.len();
        let node = self.node_of(place.k, x.now, x.tick_stopped, reference);
        self.again += self.graph.nodes.len() - node_count;
        let rest_until = if x.rests { x.resume } else { NO_REST };
        let way = self.way(node, rest_until);
        let (delay, choice) = (Duration::ZERO, Some(x.choice));
        self.graph.edges.push(Edge { way, cost: x.energy, delay, rests: x.rests, choice });
    }
}
