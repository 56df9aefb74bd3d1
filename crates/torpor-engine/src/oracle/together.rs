// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The cheapest paths of several CPUs through their [`graph`](super::graph)s, if the cluster saves
//! power while all of them rest.
//!
//! Dynamic programming over what all CPUs do. A [`State`] holds the way of each CPU to its next
//! decision; the CPU whose decision comes first takes each of its edges, and of the states with the
//! same ways the cheapest is kept. All rest from the moment at which the last of them begins to until
//! the first of them ends, and the last one's decision is credited with that time. For example:
//!
//! ```text
//! turn  decision            A rests until  B rests until  credited
//! 0     A rests until 500   500            -              nothing: B is awake
//! 100   B rests until 400   500            400            100 to 400
//! 400   B rests until 600   500            600            400 to 500
//! 500   A stays awake       -              600            nothing
//! ```

use super::Plan;
use super::credit::Credit;
use super::graph::{Builder, Edge, NONE, Turn, Way};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use torpor_machine::units::{Energy, Instant, Power};

/// Nodes between two checks for cancellation.
const NODES_PER_CHECK: usize = 1_024;

/// Buckets of states by their keys: twice as many as states, mostly. Knuth's factor for hashes.
const BUCKETS_LOG2: u32 = 13;
const HASH_FACTOR: u32 = 0x9E37_79B1;

/// The promise of a state, its number, and the node that decides next in it.
type Ranked = (Energy, u32, Turn, u32);

/// State of all CPUs; the keys hold the ways to their next decisions.
#[derive(Clone, Copy)]
struct State {
    cost: Energy,
    /// The next one in which the same node decides next.
    next: u32,
    /// Its bucket, and the next state in that.
    bucket: u32,
    like: u32,
    step: Step,
}

/// A decision of a CPU, and the one before it, of any CPU.
#[derive(Clone, Copy)]
struct Step {
    before: u32,
    cpu: u32,
    edge: u32,
}

pub(super) struct Together<'a> {
    builders: Vec<Builder<'a>>,
    /// Power that the cluster saves while all CPUs rest.
    saved: &'a Credit,
    /// Nodes that decide next in some state.
    turns: BinaryHeap<Reverse<(Turn, u32)>>,
    /// Times at which states were left out.
    cuts: u64,
    /// Number of states from which a path goes on.
    live: usize,
    /// More of them are too many.
    limit: usize,
    /// Most that are kept then; with none, the search ends.
    kept: usize,
    /// A state that promises to cost more than another by this is left out.
    margin: Energy,
    states: Vec<State>,
    /// By state and CPU.
    keys: Vec<u32>,
    free: Vec<u32>,
    /// The first state of those whose keys have a hash.
    buckets: Vec<u32>,
    steps: Vec<Step>,
    ranked: Vec<Ranked>,
}

impl<'a> Together<'a> {
    pub(super) fn new(
        builders: Vec<Builder<'a>>,
        saved: &'a Credit,
        margin: Energy,
        [most, kept]: [usize; 2],
    ) -> Together<'a> {
        Together {
            builders,
            saved,
            turns: BinaryHeap::new(),
            cuts: 0,
            live: 0,
            limit: most,
            kept,
            margin,
            states: Vec::new(),
            keys: Vec::new(),
            free: Vec::new(),
            buckets: vec![NONE; 1 << BUCKETS_LOG2],
            steps: Vec::new(),
            ranked: Vec::new(),
        }
    }

    fn way(&self, cpu: usize, way: u32) -> &Way {
        &self.builders[cpu].graph.ways[way as usize]
    }

    /// Returns the first of the states in which a node decides next.
    fn queue(&mut self, turn: Turn, node: u32) -> &mut u32 {
        &mut self.builders[turn.cpu() as usize].graph.nodes[node as usize].state
    }

    /// Returns the plans of the cheapest paths from `start` on, or none if it keeps no states and has
    /// too many; `None` if `goes_on` returns false.
    pub(super) fn cheapest(
        mut self,
        start: Instant,
        price: Power,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<Vec<Plan>> {
        let mut key: Vec<u32> = self.builders.iter().map(|builder| builder.graph.first).collect();
        let ways = || key.iter().enumerate().map(|(cpu, &way)| self.way(cpu, way));
        let saved = ways().map(|way| way.saved).min().unwrap_or(Energy::ZERO);
        let saved = (saved - self.saved.upto(start)).max(Energy::ZERO);
        let first = ways().map(|way| (way.turn, way.node)).min().expect("there is a CPU");
        let none = Step { before: NONE, cpu: 0, edge: NONE };
        self.offer(first, &key, Energy::ZERO - saved, none);
        for count in 0.. {
            if count % NODES_PER_CHECK == 0 && !goes_on() {
                return None;
            }
            if self.live > self.limit {
                if self.kept == 0 {
                    return Some(Vec::new());
                }
                self.keep_best();
            }
            let Reverse((turn, node)) = self.turns.pop().expect("a path leads to the end");
            let mut at = std::mem::replace(self.queue(turn, node), NONE);
            if turn.at() == Instant::NEVER {
                return Some(self.plans(self.cheapest_of(at).step, price));
            }
            self.builders[turn.cpu() as usize].expand(node, self.cuts == 0);
            let saved = self.saved.upto(turn.at());
            while at != NONE {
                let state = self.states[at as usize];
                let from = at as usize * key.len();
                (0..key.len()).for_each(|cpu| key[cpu] = self.keys[from + cpu]);
                self.release(at);
                self.decide((turn.cpu(), node, saved), &mut key, &state);
                at = state.next;
            }
        }
        unreachable!("a path leads to the end")
    }

    /// Returns the cheapest state of a queue.
    fn cheapest_of(&self, first: u32) -> &State {
        let (mut best, mut at) = (&self.states[first as usize], first);
        while at != NONE {
            let state = &self.states[at as usize];
            if state.cost < best.cost {
                best = state;
            }
            at = state.next;
        }
        best
    }

    /// Takes each edge of the node whose turn it is.
    fn decide(&mut self, (cpu, node, saved): (u32, u32, Energy), key: &mut [u32], state: &State) {
        let own = cpu as usize;
        let mut first = (Turn::LAST, NONE);
        let mut until = Energy(i128::MAX);
        for (other, &way) in key.iter().enumerate().filter(|(other, _)| *other != own) {
            let way = self.way(other, way);
            if way.turn < first.0 {
                first = (way.turn, way.node);
            }
            until = until.min(way.saved);
        }
        let before = self.steps.len() as u32;
        self.steps.push(state.step);
        for edge in self.builders[own].graph.nodes[node as usize].edges.clone() {
            let graph = &self.builders[own].graph;
            let Edge { way, cost, rests, .. } = graph.edges[edge as usize];
            let &Way { node: target, saved: upto, turn, .. } = &graph.ways[way as usize];
            let mut cost = state.cost + cost;
            if rests {
                cost -= (until.min(upto) - saved).max(Energy::ZERO);
            }
            // A rest is over once its CPU decides.
            let is_next = turn < first.0;
            key[own] = if is_next { graph.nodes[target as usize].way } else { way };
            let next = if is_next { (turn, target) } else { first };
            self.offer(next, key, cost, Step { before, cpu, edge });
        }
    }

    /// Keeps a state unless there is a cheaper one like it.
    fn offer(&mut self, (turn, node): (Turn, u32), key: &[u32], cost: Energy, step: Step) {
        let hash = key.iter().fold(0, |hash: u32, way| (hash ^ way).wrapping_mul(HASH_FACTOR));
        let bucket = hash >> (u32::BITS - BUCKETS_LOG2);
        let like = self.buckets[bucket as usize];
        let mut at = like;
        while at != NONE {
            let from = at as usize * key.len();
            let state = &mut self.states[at as usize];
            if (0..key.len()).all(|cpu| self.keys[from + cpu] == key[cpu]) {
                if cost < state.cost {
                    (state.cost, state.step) = (cost, step);
                }
                return;
            }
            at = state.like;
        }
        let first = *self.queue(turn, node);
        if first == NONE {
            self.turns.push(Reverse((turn, node)));
        }
        let state = State { cost, next: first, bucket, like, step };
        self.live += 1;
        let new = match self.free.pop() {
            Some(place) => {
                self.states[place as usize] = state;
                let from = place as usize * key.len();
                (0..key.len()).for_each(|cpu| self.keys[from + cpu] = key[cpu]);
                place
            }
            None => {
                self.states.push(state);
                self.keys.extend_from_slice(key);
                self.states.len() as u32 - 1
            }
        };
        self.buckets[bucket as usize] = new;
        *self.queue(turn, node) = new;
    }

    /// Makes the place of a state free.
    fn release(&mut self, at: u32) {
        let State { bucket, like, .. } = self.states[at as usize];
        let (mut before, mut link) = (NONE, self.buckets[bucket as usize]);
        while link != at {
            (before, link) = (link, self.states[link as usize].like);
        }
        match before {
            NONE => self.buckets[bucket as usize] = like,
            before => self.states[before as usize].like = like,
        }
        self.free.push(at);
        self.live -= 1;
    }

    /// Estimates the cost of the cheapest path from a state on, times the number of CPUs. No saving
    /// beyond its turn, up to which `saved` counts, is in its cost yet, so each rest that goes on is
    /// credited with an equal part.
    fn promise(&self, saved: Energy, at: u32) -> Energy {
        let cpus = self.builders.len();
        let (mut cost, mut rests) = (self.states[at as usize].cost, Energy::ZERO);
        for (cpu, &way) in self.keys[at as usize * cpus..][..cpus].iter().enumerate() {
            let way = self.way(cpu, way);
            cost += way.ahead;
            rests += (way.saved - saved).max(Energy::ZERO);
        }
        Energy(cost.0 * cpus as i128) - rests
    }

    /// Keeps the most promising states.
    fn keep_best(&mut self) {
        self.cuts += 1;
        let mut ranked = std::mem::take(&mut self.ranked);
        ranked.clear();
        let mut turns = std::mem::take(&mut self.turns).into_vec();
        for &Reverse((turn, node)) in &turns {
            let saved = self.saved.upto(turn.at());
            let mut at = std::mem::replace(self.queue(turn, node), NONE);
            while at != NONE {
                ranked.push((self.promise(saved, at), at, turn, node));
                at = self.states[at as usize].next;
            }
        }
        let least = ranked.iter().map(|(promise, ..)| *promise).min().unwrap_or(Energy::ZERO);
        let most = least + Energy(self.margin.0 * self.builders.len() as i128);
        let kept = partition(&mut ranked, most).min(self.kept);
        if kept < ranked.len() {
            ranked.select_nth_unstable(kept);
        }
        ranked.drain(kept..).for_each(|(_, at, ..)| self.release(at));
        for &(_, at, turn, node) in &ranked {
            self.states[at as usize].next = std::mem::replace(self.queue(turn, node), at);
        }
        turns.retain(|&Reverse((turn, node))| *self.queue(turn, node) != NONE);
        (self.turns, self.ranked) = (turns.into(), ranked);
        self.limit = 2 * kept;
    }

    /// Returns the plans of a path, last step first.
    fn plans(&self, mut step: Step, price: Power) -> Vec<Plan> {
        let mut taken = vec![Vec::new(); self.builders.len()];
        while step.edge != NONE {
            taken[step.cpu as usize].push(step.edge);
            step = self.steps[step.before as usize];
        }
        let plan = |(builder, edges): (&Builder<'_>, Vec<u32>)| Plan {
            crowded_spans: builder.hurries,
            ..builder.graph.plan(&edges, price)
        };
        let mut plans: Vec<Plan> = self.builders.iter().zip(taken).map(plan).collect();
        plans[0].crowded_spans += self.cuts;
        plans
    }
}

/// Moves those that promise at most so much to the front, and returns their number.
fn partition(ranked: &mut [Ranked], most: Energy) -> usize {
    let mut kept = 0;
    for at in 0..ranked.len() {
        if ranked[at].0 <= most {
            ranked.swap(kept, at);
            kept += 1;
        }
    }
    kept
}
