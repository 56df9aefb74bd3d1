// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Replay: every governor on every CPU of a recording, on all cores.

use crate::cluster;
use crate::decision::{DECISIONS_MAX, Decision, Keep, Room, Unobserved};
use crate::error::EngineError;
use crate::idle_loop::{CpuRun, DECISIONS_PER_CHECK, Pending};
use crate::input::CpuInput;
use crate::model::CpuModel;
use crate::options::{Others, Progress};
use crate::oracle::{self, Aim, Members, Plan, Terms};
use crate::policy::{Policy as Decides, Script};
use crate::timed::Timed;
use crate::totals::CpuTotals;
use rayon::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::{AtomicU64, Ordering};
use torpor_governor::{
    CpuSetup, Fault, Governor, GovernorError, Instance, NoAnswer, Policy, Pulse, Setup, StateDesc,
};
use torpor_machine::platform::Cluster;
use torpor_machine::units::{Energy, Instant, Power};
use torpor_result::DeepTimes;

/// A recorded CPU, placed on a CPU of the platform.
pub struct PlacedCpu<'a> {
    pub input: &'a CpuInput,
    pub model: &'a CpuModel,
    /// Position among the platform's clusters, and the cluster.
    pub cluster: (usize, &'a Cluster),
    /// Assumption about CPUs of its cluster that are not in the recording.
    pub others: Others,
    pub states: Vec<StateDesc>,
    /// Decisions to keep of each run, the first ones.
    pub kept: usize,
}

/// Decider of a run.
pub enum Decider {
    Governor(Governor),
    Oracle(Aim),
}

impl Decider {
    /// Returns the hosted policy, unless the oracle decides.
    pub fn policy(&self) -> Option<&Policy> {
        match self {
            Decider::Governor(governor) => Some(governor),
            Decider::Oracle(_) => None,
        }
    }
}

/// One governor's run over a whole recording.
#[derive(Default)]
pub struct Run {
    /// In the order of the placed CPUs.
    pub cpus: Vec<CpuTotals>,
    /// Ordered by (CPU, time); `slot` is the index of the placed CPU.
    pub decisions: Vec<Decision>,
    /// Own energy of each cluster that takes power in addition to its CPUs.
    pub clusters: BTreeMap<usize, Energy>,
    /// The governor's CPUs share state, so they ran in one image, in the order of time.
    pub shares_state: bool,
    /// Spans after which the oracle had more paths than it follows.
    pub crowded_spans: u64,
    /// Upper bound of what the oracle's decisions cost above the cheapest.
    pub slack: Energy,
}

/// Result of work that the user may stop (`Err(None)`) and that a governor may fail
/// (`Err(Some(message))`).
type Attempt<T> = Result<T, Option<String>>;

/// Part of a run: the CPUs of one shard.
#[derive(Serialize, Deserialize)]
struct ShardResult {
    cpus: Vec<CpuResult>,
    clusters: BTreeMap<usize, Energy>,
    statics_changed: bool,
    crowded_spans: u64,
    slack: Energy,
}

#[derive(Serialize, Deserialize)]
struct CpuResult {
    /// Index of the placed CPU.
    cpu: usize,
    totals: CpuTotals,
    decisions: Vec<Decision>,
}

struct Replay<'a> {
    cpus: &'a [PlacedCpu<'a>],
    deciders: &'a [Decider],
    /// Replayed part of the recording.
    span: (Instant, Instant),
    times: bool,
    shards: Vec<Vec<usize>>,
    progress: &'a dyn Progress,
    path: &'a str,
    /// Spans of all runs, and those done.
    total: u64,
    done: AtomicU64,
    room: Room,
}

/// Runs all deciders over all CPUs; `span` is the replayed part of the recording. The error of a
/// governor stays in its own run. `times` measures the time of the governors' decisions.
pub fn run(
    cpus: &[PlacedCpu<'_>],
    deciders: &[Decider],
    span: (Instant, Instant),
    times: bool,
    shards: usize,
    progress: &dyn Progress,
    path: &str,
) -> Result<Vec<Result<Run, String>>, EngineError> {
    let spans: u64 = cpus.iter().map(|cpu| cpu.input.spans.len() as u64).sum();
    let shared_memory = |e: std::io::Error| EngineError::SharedMemory { reason: e.to_string() };
    let replay = Replay {
        cpus,
        deciders,
        span,
        times,
        shards: shard(cpus, shards),
        progress,
        path,
        total: spans * deciders.len() as u64,
        done: AtomicU64::new(0),
        room: Room::new().map_err(shared_memory)?,
    };
    let too_many = || EngineError::TooManyDecisions { path: path.to_owned(), most: DECISIONS_MAX };
    let Some(runs) = replay.runs() else {
        return Err(if replay.room.is_over() { too_many() } else { EngineError::Interrupted });
    };
    let kept: usize = runs.iter().flatten().map(|run| run.decisions.len()).sum();
    if kept as u64 > DECISIONS_MAX { Err(too_many()) } else { Ok(runs) }
}

impl Replay<'_> {
    /// Returns the run of each decider; `None` if the user stops it or it keeps too many decisions.
    fn runs(&self) -> Option<Vec<Result<Run, String>>> {
        let prices = self.deciders.iter().map(|decider| self.price(decider));
        let prices: Vec<Result<Power, String>> = prices.collect::<Option<_>>()?;
        let jobs: Vec<(usize, &[usize])> = (0..self.deciders.len())
            .flat_map(|d| self.shards.iter().map(move |s| (d, s.as_slice())))
            .collect();
        let parts: Vec<(usize, Attempt<ShardResult>)> = jobs
            .into_par_iter()
            .map(|(d, shard)| (d, self.part(&self.deciders[d], &prices[d], shard)))
            .collect();
        if self.progress.cancelled() || self.room.is_over() {
            return None;
        }
        let mut by_decider: Vec<Vec<Attempt<ShardResult>>> =
            self.deciders.iter().map(|_| Vec::new()).collect();
        for (d, part) in parts {
            by_decider[d].push(part);
        }
        let parts = self.deciders.iter().zip(by_decider);
        parts.map(|(decider, parts)| self.join(decider, parts)).collect()
    }

    /// Counts spans that are done. Returns false if the user stops the replay.
    fn tick(&self, count: usize) -> bool {
        let done = self.done.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
        self.progress.advance(self.path, done, self.total);
        !self.progress.cancelled()
    }

    /// Returns the price of delay for an oracle, over all CPUs; zero for a governor. `None` if the
    /// user stops it.
    fn price(&self, decider: &Decider) -> Option<Result<Power, String>> {
        let latency = match decider {
            Decider::Governor(_) | Decider::Oracle(Aim::Energy) => return Some(Ok(Power::ZERO)),
            Decider::Oracle(Aim::Price(price)) => return Some(Ok(*price)),
            Decider::Oracle(Aim::Within(latency)) => *latency,
        };
        let events: usize = self.cpus.iter().map(|cpu| cpu.input.spans.len()).sum();
        let mut delay_at = |price| {
            let delay = |shard: &Vec<usize>| {
                let (plans, _) = self.plan_shard(shard, price, &mut || self.tick(0))?;
                Some(plans.values().map(|plan| plan.delay.0).sum::<i64>())
            };
            let total: i64 = self.shards.par_iter().map(delay).sum::<Option<i64>>()?;
            Some(total as f64 / events.max(1) as f64)
        };
        let found = oracle::price_within(latency, &mut delay_at)?;
        Some(found.map_err(|least| oracle::too_tight(latency, least)))
    }

    fn part(
        &self,
        decider: &Decider,
        price: &Result<Power, String>,
        shard: &[usize],
    ) -> Attempt<ShardResult> {
        if self.progress.cancelled() {
            return Err(None);
        }
        let price = price.clone()?;
        let run = |tick: &dyn Fn(usize) -> bool| self.run_shard(shard, decider, price, tick);
        self.isolated(decider, &|count| self.tick(count), run)
    }

    /// Does `work` in this process, or in one of its own if the governor requires it. `tick` counts
    /// what is done, and returns false to stop.
    fn isolated<T: Serialize + DeserializeOwned>(
        &self,
        decider: &Decider,
        tick: &dyn Fn(usize) -> bool,
        work: impl FnOnce(&dyn Fn(usize) -> bool) -> Attempt<T>,
    ) -> Attempt<T> {
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
            Err(NoAnswer::Died(error)) => Err(Some(format!("{error} (replay of `{}`)", self.path))),
        }
    }

    /// Joins the shards of a run. CPUs that share state run again, in the order of time.
    fn join(
        &self,
        decider: &Decider,
        parts: Vec<Attempt<ShardResult>>,
    ) -> Option<Result<Run, String>> {
        let (mut run, mut results, mut failed) = (Run::default(), Vec::new(), None);
        for part in parts {
            match part {
                Ok(shard) => {
                    run.shares_state |= shard.statics_changed;
                    run.crowded_spans += shard.crowded_spans;
                    run.slack += shard.slack;
                    run.clusters.extend(shard.clusters);
                    results.extend(shard.cpus);
                }
                Err(Some(message)) => failed = Some(message),
                Err(None) => return None,
            }
        }
        if let Some(message) = failed {
            return Some(Err(message));
        }
        if let (true, Decider::Governor(governor)) = (run.shares_state, decider) {
            // This run replaces the first.
            self.room.give_back(results.drain(..).map(|result| result.decisions.len()).sum());
            let goes_on = |_| !self.progress.cancelled();
            let in_order = |goes_on: &dyn Fn(usize) -> bool| self.run_in_order(governor, goes_on);
            match self.isolated(decider, &goes_on, in_order) {
                Ok(together) => results = together,
                Err(Some(message)) => return Some(Err(message)),
                Err(None) => return None,
            }
            run.clusters = self.static_energies(&mut results);
        }
        results.sort_by_key(|result| result.cpu);
        for result in results {
            run.cpus.push(result.totals);
            run.decisions.extend(result.decisions);
        }
        Some(Ok(run))
    }

    /// Plans the oracle's decisions for each CPU: together for CPUs of a cluster that takes power
    /// of its own. Returns the slack, too.
    fn plan_shard(
        &self,
        shard: &[usize],
        price: Power,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<(BTreeMap<usize, Plan>, Energy)> {
        let (mut plans, mut slack) = (BTreeMap::new(), Energy::ZERO);
        let mut coupled: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &index in shard {
            let PlacedCpu { model, input, cluster, others, .. } = &self.cpus[index];
            let recorded = self.cpus.iter().filter(|cpu| cpu.cluster.0 == cluster.0).count();
            let is_coupled = cluster::can_rest(cluster.1, recorded, *others);
            if model.watches_deepest && model.costs.is_known() && is_coupled {
                coupled.entry(cluster.0).or_default().push(index);
                continue;
            }
            let terms = Terms { price, credit: None };
            plans.insert(index, oracle::plan(model, &input.spans, terms, &mut |_| goes_on())?);
        }
        for members in coupled.into_values() {
            let cpus = members.iter().map(|&cpu| (self.cpus[cpu].model, self.cpus[cpu].input));
            let cluster = self.cpus[members[0]].cluster.1;
            let all = Members { cluster, cpus: cpus.collect(), span: self.span };
            let joint = oracle::plan_together(&all, price, goes_on)?;
            slack += joint.slack;
            plans.extend(members.into_iter().zip(joint.plans));
        }
        Some((plans, slack))
    }

    fn run_shard(
        &self,
        shard: &[usize],
        decider: &Decider,
        price: Power,
        tick: &dyn Fn(usize) -> bool,
    ) -> Attempt<ShardResult> {
        let mut cpus = Vec::with_capacity(shard.len());
        let (mut crowded_spans, mut slack) = (0, Energy::ZERO);
        let mut plans = BTreeMap::new();
        let mut instance = match decider {
            Decider::Governor(governor) => Some(self.instantiate(shard, governor)?),
            Decider::Oracle(_) => {
                let goes_on = &mut || tick(0) && !self.room.is_over();
                (plans, slack) = self.plan_shard(shard, price, goes_on).ok_or(None)?;
                None
            }
        };
        for (slot, &cpu) in shard.iter().enumerate() {
            let mut counted = 0;
            let mut goes_on = |spans: usize| {
                let more = spans.saturating_sub(counted);
                counted += more;
                tick(more) && !self.room.is_over()
            };
            cpus.push(match &mut instance {
                Some(instance) if self.times => {
                    let mut timed = Timed::new(instance, shard.len());
                    let mut result = self.run_cpu(cpu, slot, &mut timed, &mut goes_on)?;
                    result.totals.decision_times = timed.times(slot);
                    result
                }
                Some(instance) => self.run_cpu(cpu, slot, instance, &mut goes_on)?,
                None => {
                    let plan = plans.remove(&cpu).expect("each CPU has a plan");
                    crowded_spans += plan.crowded_spans;
                    let mut script = Script::of(plan.choices);
                    let result = self.run_cpu(cpu, 0, &mut script, &mut goes_on)?;
                    let cost = (result.totals.energy, result.totals.delays.total());
                    assert_eq!(cost, (plan.energy, plan.delay), "the plan states its cost");
                    result
                }
            });
            if !goes_on(self.cpus[cpu].input.spans.len()) {
                return Err(None);
            }
        }
        let statics_changed = instance.as_ref().is_some_and(Instance::statics_changed);
        let clusters = self.static_energies(&mut cpus);
        Ok(ShardResult { cpus, clusters, statics_changed, crowded_spans, slack })
    }

    fn run_cpu<P: Decides>(
        &self,
        cpu: usize,
        slot: usize,
        policy: &mut P,
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Attempt<CpuResult> {
        let PlacedCpu { model, input, kept, .. } = &self.cpus[cpu];
        let mut run = CpuRun::new(model, &input.spans, slot);
        let mut most = vec![0; slot];
        most.push(*kept);
        let mut keep = Keep::new(most, Some(&self.room));
        let ran = if *kept > 0 {
            run.run_while(policy, &mut keep, goes_on)
        } else {
            run.run_while(policy, &mut Unobserved, goes_on)
        };
        if !ran.map_err(|fault| Some(fault.to_string()))? {
            return Err(None);
        }
        keep.decisions.iter_mut().for_each(|d| d.slot = cpu);
        Ok(CpuResult { cpu, totals: run.close(), decisions: keep.decisions })
    }

    /// Runs all CPUs on one image, each half of a decision at its own time, as a governor requires
    /// whose CPUs share state. Ties go to the lower CPU.
    fn run_in_order(
        &self,
        governor: &Governor,
        goes_on: &dyn Fn(usize) -> bool,
    ) -> Attempt<Vec<CpuResult>> {
        let all: Vec<usize> = (0..self.cpus.len()).collect();
        let mut instance = self.instantiate(&all, governor)?;
        if !self.times {
            return self.run_all(&mut instance, goes_on);
        }
        let mut timed = Timed::new(&mut instance, self.cpus.len());
        let mut results = self.run_all(&mut timed, goes_on)?;
        for (slot, result) in results.iter_mut().enumerate() {
            result.totals.decision_times = timed.times(slot);
        }
        Ok(results)
    }

    fn run_all<P: Decides>(
        &self,
        policy: &mut P,
        goes_on: &dyn Fn(usize) -> bool,
    ) -> Attempt<Vec<CpuResult>> {
        let cpus = self.cpus.iter().enumerate();
        let mut runs: Vec<CpuRun<'_>> =
            cpus.map(|(slot, cpu)| CpuRun::new(cpu.model, &cpu.input.spans, slot)).collect();
        let mut pending: Vec<Option<Pending>> = vec![None; runs.len()];
        let mut queue: BinaryHeap<Reverse<(Instant, usize)>> = BinaryHeap::new();
        for (slot, run) in runs.iter_mut().enumerate() {
            queue.extend(run.next_decision().map(|at| Reverse((at, slot))));
        }
        let most = self.cpus.iter().map(|cpu| cpu.kept).collect();
        let mut keep = Keep::new(most, Some(&self.room));
        let failed = |fault: Fault| Some(fault.to_string());
        let mut steps = 0;
        while let Some(Reverse((_, slot))) = queue.pop() {
            steps += 1;
            if steps % DECISIONS_PER_CHECK == 0 && (self.room.is_over() || !goes_on(0)) {
                return Err(None);
            }
            let run = &mut runs[slot];
            let next = match pending[slot].take() {
                Some(begun) => {
                    run.finish(&begun, policy, &mut keep).map_err(failed)?;
                    run.next_decision()
                }
                None => {
                    pending[slot] = run.begin(policy).map_err(failed)?;
                    pending[slot].map(|p| p.sleep.resume)
                }
            };
            queue.extend(next.map(|at| Reverse((at, slot))));
        }
        let runs = runs.into_iter().enumerate();
        let mut results: Vec<CpuResult> = runs
            .map(|(cpu, run)| CpuResult { cpu, totals: run.close(), decisions: Vec::new() })
            .collect();
        for decision in keep.decisions {
            results[decision.slot].decisions.push(decision);
        }
        Ok(results)
    }

    fn instantiate(&self, cpus: &[usize], governor: &Governor) -> Result<Instance, String> {
        let setup = |&cpu: &usize| CpuSetup {
            cpu: self.cpus[cpu].input.cpu,
            states: &self.cpus[cpu].states,
            capacity: u64::from(self.cpus[cpu].model.capacity),
        };
        let cpus: Vec<CpuSetup<'_>> = cpus.iter().map(setup).collect();
        governor.instantiate(&Setup { cpus: &cpus }).map_err(|e: GovernorError| e.to_string())
    }

    /// Takes the deep times out of the results, and returns the own energy of each cluster whose
    /// power depends on them.
    fn static_energies(&self, results: &mut [CpuResult]) -> BTreeMap<usize, Energy> {
        let mut by_cluster: BTreeMap<usize, (&PlacedCpu<'_>, Vec<&CpuInput>, Vec<DeepTimes>)> =
            BTreeMap::new();
        for result in results {
            let cpu = &self.cpus[result.cpu];
            if let Some(times) = result.totals.deep.take() {
                let entry = by_cluster.entry(cpu.cluster.0);
                let (_, inputs, deep) = entry.or_insert_with(|| (cpu, Vec::new(), Vec::new()));
                inputs.push(cpu.input);
                deep.push(times);
            }
        }
        let energy = |(cpu, inputs, deep): (&PlacedCpu<'_>, Vec<&CpuInput>, Vec<DeepTimes>)| {
            cluster::static_energy(cpu.cluster.1, &inputs, &deep, cpu.others, self.span)
        };
        by_cluster.into_iter().map(|(cluster, members)| (cluster, energy(members))).collect()
    }
}

/// Divides the CPUs into shards of about equal load. CPUs of a cluster that takes power of its own
/// stay together, as that power depends on all of them.
fn shard(cpus: &[PlacedCpu<'_>], count: usize) -> Vec<Vec<usize>> {
    let mut units: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (index, cpu) in cpus.iter().enumerate() {
        let alone = if cpu.model.watches_deepest { 0 } else { index + 1 };
        units.entry((cpu.cluster.0, alone)).or_default().push(index);
    }
    let load = |unit: &[usize]| -> usize { unit.iter().map(|&c| cpus[c].input.spans.len()).sum() };
    let mut units: Vec<Vec<usize>> = units.into_values().collect();
    units.sort_by_key(|unit| (Reverse(load(unit)), unit[0]));
    let mut shards = vec![(0usize, Vec::new()); count.clamp(1, units.len().max(1))];
    for unit in units {
        let lightest = shards.iter_mut().min_by_key(|(load, _)| *load).expect("one shard at least");
        lightest.0 += load(&unit);
        lightest.1.extend(unit);
    }
    shards.into_iter().map(|(_, cpus)| cpus).filter(|s| !s.is_empty()).collect()
}
