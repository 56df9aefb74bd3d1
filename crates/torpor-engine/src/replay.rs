// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Replay: every governor on every CPU of a recording, on all cores.

use crate::cluster;
use crate::decision::{DECISIONS_MAX, Decision, Keep, Room, Unobserved};
use crate::error::EngineError;
use crate::idle_loop::{CpuRun, DECISIONS_A_LOOK, Pending};
use crate::input::CpuInput;
use crate::model::CpuModel;
use crate::options::{Others, Progress};
use crate::oracle::{self, Aim, Members, Plan, Terms};
use crate::policy::{Policy as Decides, Script};
use crate::timed::Timed;
use crate::totals::CpuTotals;
use rayon::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::{AtomicU64, Ordering};
use torpor_governor::{
    CpuSetup, Fault, Governor, GovernorError, Instance, NoAnswer, Policy, Pulse, Setup, StateDesc,
};
use torpor_machine::platform::Cluster;
use torpor_machine::units::{Energy, Instant, Power};
use torpor_result::DeepTimes;

/// One CPU of the recording on its place of the machine.
pub struct Seat<'a> {
    pub input: &'a CpuInput,
    pub model: &'a CpuModel,
    /// Position among the platform's clusters, and the cluster.
    pub cluster: (usize, &'a Cluster),
    /// Assumption about CPUs of its cluster that are not in the recording.
    pub others: Others,
    pub states: Vec<StateDesc>,
    /// The decisions of each run that are kept: so many, the first.
    pub kept: usize,
}

/// Decider of a run.
pub enum Decider {
    Governor(Governor),
    Oracle(Aim),
}

impl Decider {
    /// The hosted policy, where it is one.
    pub fn policy(&self) -> Option<&Policy> {
        match self {
            Decider::Governor(governor) => Some(governor),
            Decider::Oracle(_) => None,
        }
    }
}

/// One governor over a whole recording.
#[derive(Default)]
pub struct Run {
    /// In the order of the seats.
    pub cpus: Vec<CpuTotals>,
    /// In the order of (seat, time); `slot` is the seat.
    pub decisions: Vec<Decision>,
    /// Own energy of each cluster that takes power in addition to its CPUs.
    pub clusters: BTreeMap<usize, Energy>,
    /// The governor's CPUs share state, so they ran in one image, in the order of time.
    pub shares_state: bool,
    /// Spans after which the oracle had more paths than it follows.
    pub crowded_spans: u64,
    /// Bound of the oracle's error: no decisions cost less than its own by more than this.
    pub slack: Energy,
}

/// Runs all deciders over all seats; `span` is what of the recording is replayed. A governor that
/// fails takes nothing down but itself. `times` measures what the policy takes.
pub fn run(
    seats: &[Seat<'_>],
    deciders: &[Decider],
    span: (Instant, Instant),
    times: bool,
    shards: usize,
    progress: &dyn Progress,
    what: &str,
) -> Result<Vec<Result<Run, String>>, EngineError> {
    let shards = shard(seats, shards);
    let spans: u64 = seats.iter().map(|s| s.input.spans.len() as u64).sum();
    let total = spans * deciders.len() as u64;
    let done = AtomicU64::new(0);
    let room = Room::new();
    let room = &room.map_err(|e| EngineError::SharedMemory { reason: e.to_string() })?;
    let too_many = || EngineError::TooManyDecisions { path: what.to_owned(), most: DECISIONS_MAX };
    let stopped = || if room.is_over() { too_many() } else { EngineError::Interrupted };
    let tick = |count: usize| {
        let now = done.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
        progress.advance(what, now, total);
        !progress.cancelled()
    };
    let prices = deciders.iter().map(|decider| price(seats, &shards, decider, span, &tick));
    let prices: Vec<Result<Power, String>> = match prices.collect() {
        Some(prices) => prices,
        None => return Err(stopped()),
    };
    let jobs: Vec<(usize, &[usize])> =
        (0..deciders.len()).flat_map(|d| shards.iter().map(move |s| (d, s.as_slice()))).collect();
    let parts: Vec<Part> = jobs
        .into_par_iter()
        .map(|(d, shard)| {
            if progress.cancelled() {
                return Part { decider: d, outcome: Err(None) };
            }
            let price = match &prices[d] {
                Ok(price) => *price,
                Err(error) => return Part { decider: d, outcome: Err(Some(error.clone())) },
            };
            let run = |tick: &dyn Fn(usize) -> bool| {
                run_shard(seats, shard, (&deciders[d], price), span, (times, room), tick)
            };
            Part { decider: d, outcome: where_it_runs(&deciders[d], what, &tick, run) }
        })
        .collect();
    if progress.cancelled() || room.is_over() {
        return Err(stopped());
    }
    let mut runs: Vec<Result<Run, String>> =
        (0..deciders.len()).map(|_| Ok(Run::default())).collect();
    let mut gathered: Vec<Vec<SeatResult>> = (0..deciders.len()).map(|_| Vec::new()).collect();
    for part in parts {
        match part.outcome {
            Ok(shard) => {
                if let Ok(run) = &mut runs[part.decider] {
                    run.shares_state |= shard.statics_changed;
                    run.crowded_spans += shard.crowded_spans;
                    run.slack += shard.slack;
                    run.clusters.extend(shard.clusters);
                }
                gathered[part.decider].extend(shard.seats);
            }
            Err(Some(message)) => runs[part.decider] = Err(message),
            Err(None) => return Err(stopped()),
        }
    }
    for (index, (run, mut results)) in runs.iter_mut().zip(gathered).enumerate() {
        let Ok(shares_state) = run.as_ref().map(|r| r.shares_state) else { continue };
        if shares_state {
            if let Decider::Governor(governor) = &deciders[index] {
                // This run replaces the first.
                room.give_back(results.drain(..).map(|result| result.decisions.len()).sum());
                let in_order =
                    |go: &dyn Fn(usize) -> bool| run_in_order(seats, governor, (times, room), go);
                let goes_on = |_| !progress.cancelled();
                match where_it_runs(&deciders[index], what, &goes_on, in_order) {
                    Ok(mut together) => {
                        if let Ok(run) = run {
                            run.clusters = static_energies(seats, &mut together, span);
                        }
                        results = together;
                    }
                    Err(Some(message)) => {
                        *run = Err(message);
                        continue;
                    }
                    Err(None) => return Err(stopped()),
                }
            }
        }
        results.sort_by_key(|r| r.seat);
        if let Ok(run) = run {
            for result in results {
                run.cpus.push(result.totals);
                run.decisions.extend(result.decisions);
            }
        }
    }
    let kept: usize = runs.iter().flatten().map(|run| run.decisions.len()).sum();
    if kept as u64 > DECISIONS_MAX { Err(too_many()) } else { Ok(runs) }
}

/// Returns the price of delay for an oracle, over all CPUs; zero for a governor. `None` if the user
/// stops it.
fn price(
    seats: &[Seat<'_>],
    shards: &[Vec<usize>],
    decider: &Decider,
    span: (Instant, Instant),
    tick: &(dyn Fn(usize) -> bool + Sync),
) -> Option<Result<Power, String>> {
    let latency = match decider {
        Decider::Governor(_) | Decider::Oracle(Aim::Energy) => return Some(Ok(Power::ZERO)),
        Decider::Oracle(Aim::Price(price)) => return Some(Ok(*price)),
        Decider::Oracle(Aim::Within(latency)) => *latency,
    };
    let events: usize = seats.iter().map(|seat| seat.input.spans.len()).sum();
    let mut delay_at = |price| {
        let delay = |shard: &Vec<usize>| {
            let (plans, _) = plan_shard(seats, shard, price, span, &mut || tick(0))?;
            Some(plans.values().map(|plan| plan.delay.0).sum::<i64>())
        };
        let total: i64 = shards.par_iter().map(delay).sum::<Option<i64>>()?;
        Some(total as f64 / events.max(1) as f64)
    };
    let found = oracle::price_within(latency, &mut delay_at)?;
    Some(found.map_err(|least| oracle::too_tight(latency, least)))
}

/// Does `work` here, or in a process of its own if the governor is to have one. `tick` counts what
/// is done, and says whether to go on.
fn where_it_runs<T: Serialize + DeserializeOwned>(
    decider: &Decider,
    what: &str,
    tick: &dyn Fn(usize) -> bool,
    work: impl FnOnce(&dyn Fn(usize) -> bool) -> Result<T, Option<String>>,
) -> Result<T, Option<String>> {
    let governor = match decider {
        Decider::Governor(governor) if governor.runs_apart() => governor,
        _ => return work(tick),
    };
    let there = |pulse: &Pulse| {
        work(&|count| {
            pulse.add(count as u64);
            true
        })
    };
    let goes_on = &mut |done| tick(done as usize);
    match torpor_governor::apart(&[governor.policy_label().clone()], goes_on, there) {
        Ok(answer) => answer,
        Err(NoAnswer::Interrupted) => Err(None),
        Err(NoAnswer::Died(error)) => Err(Some(format!("{error} (replay of `{what}`)"))),
    }
}

struct Part {
    decider: usize,
    /// `Err(None)`: not run to its end, because the user asked to stop.
    outcome: Result<ShardResult, Option<String>>,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct ShardResult {
    seats: Vec<SeatResult>,
    clusters: BTreeMap<usize, Energy>,
    statics_changed: bool,
    crowded_spans: u64,
    slack: Energy,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct SeatResult {
    seat: usize,
    totals: CpuTotals,
    decisions: Vec<Decision>,
}

/// Deals the seats out so that each shard has about as many spans, the same way every time. CPUs
/// of a cluster that takes power of its own stay together: that power depends on all of them.
fn shard(seats: &[Seat<'_>], count: usize) -> Vec<Vec<usize>> {
    let mut units: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (index, seat) in seats.iter().enumerate() {
        let alone = if seat.model.watches_deepest { 0 } else { index + 1 };
        units.entry((seat.cluster.0, alone)).or_default().push(index);
    }
    let load = |unit: &[usize]| -> usize { unit.iter().map(|&s| seats[s].input.spans.len()).sum() };
    let mut units: Vec<Vec<usize>> = units.into_values().collect();
    units.sort_by_key(|unit| (Reverse(load(unit)), unit[0]));
    let mut shards = vec![(0usize, Vec::new()); count.clamp(1, units.len().max(1))];
    for unit in units {
        let lightest = shards.iter_mut().min_by_key(|(load, _)| *load).expect("one shard at least");
        lightest.0 += load(&unit);
        lightest.1.extend(unit);
    }
    shards.into_iter().map(|(_, seats)| seats).filter(|s| !s.is_empty()).collect()
}

/// Sums up, and lets go of, the deep times of each cluster whose power depends on them.
fn static_energies(
    seats: &[Seat<'_>],
    results: &mut [SeatResult],
    span: (Instant, Instant),
) -> BTreeMap<usize, Energy> {
    let mut by_cluster: BTreeMap<usize, (Vec<&CpuInput>, Vec<DeepTimes>)> = BTreeMap::new();
    for result in results {
        let seat = &seats[result.seat];
        if let Some(deep) = result.totals.deep.take() {
            let entry = by_cluster.entry(seat.cluster.0).or_default();
            entry.0.push(seat.input);
            entry.1.push(deep);
        }
    }
    let seat =
        |number: usize| seats.iter().find(|s| s.cluster.0 == number).expect("it came from a seat");
    let energy = |number: usize, inputs: &[&CpuInput], deep: &[DeepTimes]| {
        let Seat { cluster: (_, table), others, .. } = seat(number);
        cluster::static_energy(table, inputs, deep, *others, span)
    };
    by_cluster.into_iter().map(|(n, (inputs, deep))| (n, energy(n, &inputs, &deep))).collect()
}

/// The oracle's plan for each seat: together for CPUs of a cluster that takes power of its own, and
/// how much less any decisions can cost.
fn plan_shard(
    seats: &[Seat<'_>],
    shard: &[usize],
    price: Power,
    span: (Instant, Instant),
    goes_on: &mut dyn FnMut() -> bool,
) -> Option<(BTreeMap<usize, Plan>, Energy)> {
    let (mut plans, mut slack) = (BTreeMap::new(), Energy::ZERO);
    let mut coupled: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for &index in shard {
        let Seat { model, input, cluster, others, .. } = &seats[index];
        let recorded = seats.iter().filter(|seat| seat.cluster.0 == cluster.0).count();
        let is_coupled = cluster::can_rest(cluster.1, recorded, *others);
        if model.watches_deepest && model.costs.is_known() && is_coupled {
            coupled.entry(cluster.0).or_default().push(index);
            continue;
        }
        let terms = Terms { price, credit: None };
        plans.insert(index, oracle::plan(model, &input.spans, terms, &mut |_| goes_on())?);
    }
    for members in coupled.into_values() {
        let cpus = members.iter().map(|&index| (seats[index].model, seats[index].input)).collect();
        let cluster = seats[members[0]].cluster.1;
        let joint = oracle::plan_together(&Members { cluster, cpus, span }, price, goes_on)?;
        slack += joint.slack;
        plans.extend(members.into_iter().zip(joint.plans));
    }
    Some((plans, slack))
}

fn run_shard(
    seats: &[Seat<'_>],
    shard: &[usize],
    (decider, price): (&Decider, Power),
    span: (Instant, Instant),
    (times, room): (bool, &Room),
    tick: &dyn Fn(usize) -> bool,
) -> Result<ShardResult, Option<String>> {
    let mut results = Vec::with_capacity(shard.len());
    let (mut crowded_spans, mut slack) = (0, Energy::ZERO);
    let mut plans = BTreeMap::new();
    let mut instance = match decider {
        Decider::Governor(governor) => Some(instantiate(seats, shard, governor)?),
        Decider::Oracle(_) => {
            let goes_on = &mut || tick(0) && !room.is_over();
            (plans, slack) = plan_shard(seats, shard, price, span, goes_on).ok_or(None)?;
            None
        }
    };
    for (slot, &seat) in shard.iter().enumerate() {
        let input = seats[seat].input;
        let mut told = 0;
        let mut goes_on = |spans: usize| {
            let news = spans.saturating_sub(told);
            told += news;
            tick(news) && !room.is_over()
        };
        let result = match &mut instance {
            Some(instance) if times => {
                let mut timed = Timed::new(instance, shard.len());
                let mut result =
                    run_seat(seat, slot, &seats[seat], &mut timed, room, &mut goes_on)?;
                result.totals.decision_times = timed.times(slot);
                result
            }
            Some(instance) => run_seat(seat, slot, &seats[seat], instance, room, &mut goes_on)?,
            None => {
                let plan = plans.remove(&seat).expect("each seat has a plan");
                crowded_spans += plan.crowded_spans;
                let mut script = Script::of(plan.choices);
                let result = run_seat(seat, 0, &seats[seat], &mut script, room, &mut goes_on)?;
                let totals = &result.totals;
                let cost = (totals.energy, totals.delays.total());
                assert_eq!(cost, (plan.energy, plan.delay), "the plan costs what it says");
                result
            }
        };
        results.push(result);
        if !goes_on(input.spans.len()) {
            return Err(None);
        }
    }
    let statics_changed = instance.as_ref().is_some_and(Instance::statics_changed);
    let clusters = static_energies(seats, &mut results, span);
    Ok(ShardResult { seats: results, clusters, statics_changed, crowded_spans, slack })
}

fn run_seat<P: Decides>(
    seat: usize,
    slot: usize,
    of: &Seat<'_>,
    policy: &mut P,
    room: &Room,
    goes_on: &mut dyn FnMut(usize) -> bool,
) -> Result<SeatResult, Option<String>> {
    let mut run = CpuRun::new(of.model, &of.input.spans, slot);
    let mut most = vec![0; slot];
    most.push(of.kept);
    let mut keep = Keep::new(most, Some(room));
    let ran = if of.kept > 0 {
        run.run_while(policy, &mut keep, goes_on)
    } else {
        run.run_while(policy, &mut Unobserved, goes_on)
    };
    if !ran.map_err(|fault| Some(fault.to_string()))? {
        return Err(None);
    }
    keep.decisions.iter_mut().for_each(|d| d.slot = seat);
    Ok(SeatResult { seat, totals: run.close(), decisions: keep.decisions })
}

/// Runs all CPUs on one image, each half of a decision at its own time: what a governor whose
/// CPUs share state needs. Ties go to the lower CPU.
fn run_in_order(
    seats: &[Seat<'_>],
    governor: &Governor,
    (times, room): (bool, &Room),
    goes_on: &dyn Fn(usize) -> bool,
) -> Result<Vec<SeatResult>, Option<String>> {
    let all: Vec<usize> = (0..seats.len()).collect();
    let mut instance = instantiate(seats, &all, governor)?;
    if !times {
        return run_all(seats, &mut instance, room, goes_on);
    }
    let mut timed = Timed::new(&mut instance, seats.len());
    let mut results = run_all(seats, &mut timed, room, goes_on)?;
    for (slot, result) in results.iter_mut().enumerate() {
        result.totals.decision_times = timed.times(slot);
    }
    Ok(results)
}

fn run_all<P: Decides>(
    seats: &[Seat<'_>],
    policy: &mut P,
    room: &Room,
    goes_on: &dyn Fn(usize) -> bool,
) -> Result<Vec<SeatResult>, Option<String>> {
    let mut runs: Vec<CpuRun<'_>> = seats
        .iter()
        .enumerate()
        .map(|(slot, seat)| CpuRun::new(seat.model, &seat.input.spans, slot))
        .collect();
    let mut pending: Vec<Option<Pending>> = vec![None; seats.len()];
    let mut queue: BinaryHeap<Reverse<(Instant, usize)>> = BinaryHeap::new();
    for (slot, run) in runs.iter_mut().enumerate() {
        queue.extend(run.next_decision().map(|at| Reverse((at, slot))));
    }
    let mut watch = Keep::new(seats.iter().map(|seat| seat.kept).collect(), Some(room));
    let failed = |fault: Fault| Some(fault.to_string());
    let mut steps = 0;
    while let Some(Reverse((_, slot))) = queue.pop() {
        steps += 1;
        if steps % DECISIONS_A_LOOK == 0 && (room.is_over() || !goes_on(0)) {
            return Err(None);
        }
        let run = &mut runs[slot];
        let next = match pending[slot].take() {
            Some(begun) => {
                run.finish(&begun, policy, &mut watch).map_err(failed)?;
                run.next_decision()
            }
            None => {
                pending[slot] = run.begin(policy).map_err(failed)?;
                pending[slot].map(|p| p.sleep.resume)
            }
        };
        queue.extend(next.map(|at| Reverse((at, slot))));
    }
    let mut results: Vec<SeatResult> = runs
        .into_iter()
        .enumerate()
        .map(|(seat, run)| SeatResult { seat, totals: run.close(), decisions: Vec::new() })
        .collect();
    for decision in watch.decisions {
        results[decision.slot].decisions.push(decision);
    }
    Ok(results)
}

fn instantiate(
    seats: &[Seat<'_>],
    which: &[usize],
    governor: &Governor,
) -> Result<Instance, String> {
    let cpus: Vec<CpuSetup<'_>> = which
        .iter()
        .map(|&s| CpuSetup {
            cpu: seats[s].input.cpu,
            states: &seats[s].states,
            capacity: u64::from(seats[s].model.capacity),
        })
        .collect();
    governor.instantiate(&Setup { cpus: &cpus }).map_err(|e: GovernorError| e.to_string())
}
