// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The cheapest paths of several CPUs through their graphs, if rests save power while all rest.
//!
//! Dynamic programming over what all CPUs do: the CPU whose next decision comes first decides. All
//! rest from the moment at which the last of them begins to until the first of them ends, so the
//! last one's decision is credited with that time.

use super::credit::Credit;
use super::graph::{Edge, Graph, NONE};
use torpor_machine::units::{Energy, Instant};

/// Nodes between two checks for cancellation.
const NODES_PER_CHECK: usize = 1_024;

/// Estimate for a node from which nothing leads on.
const DEAD: Energy = Energy(i128::MAX / 1_024);

/// State of all CPUs; the keys hold the ways to their next decisions.
#[derive(Clone, Copy)]
struct State {
    cost: Energy,
    /// The next one in which the same node decides next.
    next: u32,
    step: Step,
}

/// A decision of a CPU, and the one before it, of any CPU.
#[derive(Clone, Copy)]
struct Step {
    before: u32,
    cpu: u32,
    edge: u32,
}

/// A node in the order in which all decide.
#[derive(Clone, Copy)]
struct Turn {
    cpu: u32,
    node: u32,
    /// Energy saved if all rest until then.
    saved: Energy,
}

/// The states in which a node decides next.
#[derive(Clone, Copy)]
struct Queue {
    first: u32,
    count: u32,
    /// Some were left out: the promise of the best of these.
    limit: Option<Energy>,
}

const EMPTY: Queue = Queue { first: NONE, count: 0, limit: None };

/// End of a way.
#[derive(Clone, Copy, Default)]
struct Lead {
    turn: u32,
    /// Energy saved up to the end of its rest.
    saved: Energy,
}

/// Paths found.
pub(super) struct Found {
    /// By CPU: its edges, last first.
    pub edges: Vec<Vec<u32>>,
    /// No state was left out.
    pub is_exact: bool,
}

pub(super) struct Together<'a> {
    graphs: &'a [Graph],
    /// Power that the cluster saves while all CPUs rest.
    saved: &'a Credit,
    turns: Vec<Turn>,
    /// By CPU and way.
    leads: Vec<Vec<Lead>>,
    /// By CPU and node: what the CPU spends from there on, credited with an equal part; empty until
    /// it is needed.
    ahead: Vec<Vec<Energy>>,
    /// Most states in which the same node decides next.
    most: usize,
    is_exact: bool,
    /// By turn.
    queues: Vec<Queue>,
    states: Vec<State>,
    /// By state and CPU.
    keys: Vec<u32>,
    free: Vec<u32>,
    steps: Vec<Step>,
    ranked: Vec<(Energy, u32)>,
}

impl<'a> Together<'a> {
    pub(super) fn new(graphs: &'a [Graph], saved: &'a Credit, most: usize) -> Together<'a> {
        let turns = turns(graphs, saved);
        let leads = graphs.iter().map(|graph| vec![Lead::default(); graph.ways.len()]);
        let mut leads: Vec<Vec<Lead>> = leads.collect();
        for (&Turn { cpu, node, .. }, turn) in turns.iter().zip(0u32..) {
            let graph = &graphs[cpu as usize];
            for (at, way) in graph.ways_to(node) {
                leads[cpu as usize][at as usize] = Lead { turn, saved: saved.upto(way.rest_until) };
            }
        }
        Together {
            graphs,
            saved,
            queues: vec![EMPTY; turns.len()],
            turns,
            leads,
            ahead: Vec::new(),
            most,
            is_exact: true,
            states: Vec::new(),
            keys: Vec::new(),
            free: Vec::new(),
            steps: Vec::new(),
            ranked: Vec::new(),
        }
    }

    /// Finds the cheapest paths from `start` on. Returns `None` if `goes_on` returns false.
    pub(super) fn cheapest(
        mut self,
        start: Instant,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<Found> {
        let mut key: Vec<u32> = self.graphs.iter().map(|graph| graph.first).collect();
        let leads = || key.iter().zip(&self.leads).map(|(&way, leads)| leads[way as usize]);
        let saved = leads().map(|lead| lead.saved).min().unwrap_or(Energy::ZERO);
        let saved = (saved - self.saved.upto(start)).max(Energy::ZERO);
        let turn = leads().map(|lead| lead.turn).min().unwrap_or(0);
        let none = Step { before: NONE, cpu: 0, edge: NONE };
        self.offer(turn, &key, Energy::ZERO - saved, none);
        for turn in 0..self.turns.len() {
            if turn % NODES_PER_CHECK == 0 && !goes_on() {
                return None;
            }
            if self.queues[turn].count as usize > self.most {
                self.keep_best(turn);
            }
            let Turn { cpu, node, .. } = self.turns[turn];
            let node = &self.graphs[cpu as usize].nodes[node as usize];
            let mut at = std::mem::replace(&mut self.queues[turn], EMPTY).first;
            while at != NONE {
                let state = self.states[at as usize];
                if node.at == Instant::NEVER {
                    let (edges, is_exact) = (self.edges_to(state.step), self.is_exact);
                    return Some(Found { edges, is_exact });
                }
                let from = at as usize * key.len();
                let to = from + key.len();
                key.copy_from_slice(&self.keys[from..to]);
                self.free.push(at);
                self.decide(turn, &mut key, &state);
                at = state.next;
            }
        }
        unreachable!("a path leads to the end")
    }

    /// Takes each edge of the node whose turn it is.
    fn decide(&mut self, turn: usize, key: &mut [u32], state: &State) {
        let Turn { cpu, node, saved } = self.turns[turn];
        let own = cpu as usize;
        let graph = &self.graphs[own];
        let (mut first, mut until) = (u32::MAX, Energy(i128::MAX));
        for (other, &way) in key.iter().enumerate().filter(|(other, _)| *other != own) {
            let lead = self.leads[other][way as usize];
            (first, until) = (first.min(lead.turn), until.min(lead.saved));
        }
        let before = self.steps.len() as u32;
        self.steps.push(state.step);
        for edge in graph.nodes[node as usize].edges.clone() {
            let Edge { way, cost, rests, .. } = graph.edges[edge as usize];
            let lead = self.leads[own][way as usize];
            let mut cost = state.cost + cost;
            if rests {
                cost -= (until.min(lead.saved) - saved).max(Energy::ZERO);
            }
            // A rest is over once its CPU decides.
            let is_next = lead.turn < first;
            let target = graph.ways[way as usize].node as usize;
            key[own] = if is_next { graph.nodes[target].way } else { way };
            self.offer(lead.turn.min(first), key, cost, Step { before, cpu, edge });
        }
    }

    /// Keeps a state unless there is a cheaper one like it.
    fn offer(&mut self, turn: u32, key: &[u32], cost: Energy, step: Step) {
        let queue = self.queues[turn as usize];
        let mut at = queue.first;
        while at != NONE {
            let from = at as usize * key.len();
            let state = &mut self.states[at as usize];
            if self.keys[from..from + key.len()].iter().zip(key).all(|(a, b)| a == b) {
                if cost < state.cost {
                    (state.cost, state.step) = (cost, step);
                }
                return;
            }
            at = state.next;
        }
        if queue.limit.is_some_and(|limit| self.promise(turn as usize, cost, key) >= limit) {
            return;
        }
        let state = State { cost, next: queue.first, step };
        let first = match self.free.pop() {
            Some(place) => {
                self.states[place as usize] = state;
                let from = place as usize * key.len();
                self.keys[from..from + key.len()].copy_from_slice(key);
                place
            }
            None => {
                self.states.push(state);
                self.keys.extend_from_slice(key);
                self.states.len() as u32 - 1
            }
        };
        let count = queue.count + 1;
        self.queues[turn as usize] = Queue { first, count, ..queue };
        if count as usize >= 2 * self.most {
            self.keep_best(turn as usize);
        }
    }

    /// Estimates the cost of the cheapest path from a state on. No saving beyond the turn is in its
    /// cost yet, so rests that go on are credited.
    fn promise(&self, turn: usize, cost: Energy, key: &[u32]) -> Energy {
        let (saved, mut promise, mut rests) = (self.turns[turn].saved, cost, Energy::ZERO);
        for (cpu, &way) in key.iter().enumerate() {
            let target = self.graphs[cpu].ways[way as usize].node as usize;
            promise += self.ahead[cpu][target];
            rests += (self.leads[cpu][way as usize].saved - saved).max(Energy::ZERO);
        }
        promise - Energy(rests.0 / key.len() as i128)
    }

    /// Keeps the most promising states of a turn.
    fn keep_best(&mut self, turn: usize) {
        self.is_exact = false;
        if self.ahead.is_empty() {
            self.ahead = self.look_ahead();
        }
        let mut ranked = std::mem::take(&mut self.ranked);
        ranked.clear();
        let mut at = self.queues[turn].first;
        while at != NONE {
            let from = at as usize * self.graphs.len();
            let State { cost, next, .. } = self.states[at as usize];
            let key = &self.keys[from..from + self.graphs.len()];
            ranked.push((self.promise(turn, cost, key), at));
            at = next;
        }
        let (kept, &mut (limit, _), _) = ranked.select_nth_unstable(self.most);
        let count = kept.len() as u32;
        self.free.extend(ranked.drain(self.most..).map(|(_, at)| at));
        let mut first = NONE;
        for &(_, at) in &ranked {
            self.states[at as usize].next = std::mem::replace(&mut first, at);
        }
        self.queues[turn] = Queue { first, count, limit: Some(limit) };
        self.ranked = ranked;
    }

    fn look_ahead(&self) -> Vec<Vec<Energy>> {
        let nodes = self.graphs.iter().map(|graph| vec![DEAD; graph.nodes.len()]);
        let mut ahead: Vec<Vec<Energy>> = nodes.collect();
        for &Turn { cpu, node: at, saved } in self.turns.iter().rev() {
            let own = cpu as usize;
            let node = &self.graphs[own].nodes[at as usize];
            if node.at == Instant::NEVER {
                ahead[own][at as usize] = Energy::ZERO;
                continue;
            }
            for edge in &self.graphs[own].edges[node.edges.start as usize..node.edges.end as usize]
            {
                let part = self.leads[own][edge.way as usize].saved - saved;
                let part = if edge.rests { part.0 / self.graphs.len() as i128 } else { 0 };
                let target = self.graphs[own].ways[edge.way as usize].node as usize;
                let left = edge.cost - Energy(part) + ahead[own][target];
                ahead[own][at as usize] = ahead[own][at as usize].min(left);
            }
        }
        ahead
    }

    fn edges_to(&self, mut step: Step) -> Vec<Vec<u32>> {
        let mut taken = vec![Vec::new(); self.graphs.len()];
        while step.edge != NONE {
            taken[step.cpu as usize].push(step.edge);
            step = self.steps[step.before as usize];
        }
        taken
    }
}

/// Returns all nodes in the order in which they decide.
fn turns(graphs: &[Graph], saved: &Credit) -> Vec<Turn> {
    let nodes = graphs.iter().zip(0u32..).flat_map(|(graph, cpu)| {
        graph.nodes.iter().zip(0u32..).map(move |(node, at)| (node.at, cpu, node.span, at))
    });
    let mut nodes: Vec<(Instant, u32, u32, u32)> = nodes.collect();
    // Stable, as that merges runs that are in order already.
    nodes.sort();
    let turn = |(at, cpu, _, node)| Turn { cpu, node, saved: saved.upto(at) };
    nodes.into_iter().map(turn).collect()
}
