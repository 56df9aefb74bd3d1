// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Replay: every governor on every CPU of a recording, on all cores.

use crate::cluster;
use crate::decision::{DECISIONS_MAX, Decision, Room};
use crate::drive::{self, Attempt, Drive};
use crate::error::EngineError;
use crate::options::Progress;
use crate::oracle::{self, Aim, Members, Plan, Terms};
use crate::policy::{Policy as Decides, Script};
use crate::pool;
use crate::timed::Timed;
use crate::totals::CpuTotals;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use torpor_governor::{Governor, NoAnswer, Policy, Pulse};
use torpor_machine::units::{Energy, Instant, Power};

pub use crate::drive::PlacedCpu;

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

/// One governor's run over a whole recording, or over the CPUs of a shard.
#[derive(Default, Serialize, Deserialize)]
pub struct Run {
    /// In the order of the placed CPUs.
    pub cpus: Vec<CpuTotals>,
    /// Decisions kept of each CPU; `slot` is the index of the placed CPU.
    pub decisions: Vec<Vec<Decision>>,
    /// Own energy of each cluster that takes power in addition to its CPUs.
    pub clusters: BTreeMap<usize, Energy>,
    /// The governor's CPUs share state, so they ran in one image, in the order of time.
    pub shares_state: bool,
    /// Nothing is known of how much less other decisions than the oracle's may cost.
    pub is_unproven: bool,
    /// Upper bound of what the oracle's decisions cost above the cheapest.
    pub slack: Energy,
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
        room: Room::new(cpus.iter().any(|cpu| cpu.kept > 0)).map_err(shared_memory)?,
    };
    let too_many = || EngineError::TooManyDecisions { path: path.to_owned(), most: DECISIONS_MAX };
    let Some(runs) = replay.runs() else {
        return Err(if replay.room.is_over() { too_many() } else { EngineError::Interrupted });
    };
    let kept: usize = runs.iter().flatten().map(Run::kept).sum();
    if kept as u64 > DECISIONS_MAX { Err(too_many()) } else { Ok(runs) }
}

impl Run {
    fn kept(&self) -> usize {
        self.decisions.iter().map(Vec::len).sum()
    }
}

impl Replay<'_> {
    /// Returns the run of each decider; `None` if the user stops it or it keeps too many decisions.
    fn runs(&self) -> Option<Vec<Result<Run, String>>> {
        let prices = self.deciders.iter().map(|decider| self.price(decider));
        let prices: Vec<Result<Power, String>> = prices.collect::<Option<_>>()?;
        let jobs: Vec<(usize, &[usize])> = (0..self.deciders.len())
            .flat_map(|d| self.shards.iter().map(move |s| (d, s.as_slice())))
            .collect();
        let parts = pool::map(jobs, |(d, shard)| self.part(&self.deciders[d], &prices[d], shard));
        if self.progress.cancelled() || self.room.is_over() {
            return None;
        }
        let mut parts = parts.into_iter();
        let join = |decider| self.join(decider, parts.by_ref().take(self.shards.len()));
        self.deciders.iter().map(join).collect()
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
            let total: i64 = pool::map(&self.shards, delay).into_iter().sum::<Option<i64>>()?;
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
    ) -> Attempt<Run> {
        if self.progress.cancelled() {
            return Err(None);
        }
        let price = price.clone()?;
        let run = |tick: &dyn Fn(usize) -> bool| self.run_shard(shard, decider, price, tick);
        self.isolated(decider, &|count| self.tick(count), run)
    }

    /// Does `work` in this process, or in a separate one if the governor requires it. `tick` counts
    /// progress, and returns false to stop.
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
        parts: impl Iterator<Item = Attempt<Run>>,
    ) -> Option<Result<Run, String>> {
        let (mut run, mut failed) = (Run::default(), None);
        let mut cpus: BTreeMap<usize, (CpuTotals, Vec<Decision>)> = BTreeMap::new();
        for (shard, part) in self.shards.iter().zip(parts) {
            match part {
                Ok(part) => {
                    run.shares_state |= part.shares_state;
                    run.slack += part.slack;
                    run.clusters.extend(part.clusters);
                    let results = part.cpus.into_iter().zip(part.decisions);
                    cpus.extend(shard.iter().copied().zip(results));
                }
                Err(Some(message)) => failed = Some(message),
                Err(None) => return None,
            }
        }
        if let Some(message) = failed {
            return Some(Err(message));
        }
        (run.cpus, run.decisions) = cpus.into_values().unzip();
        let Decider::Governor(governor) = decider else { return Some(Ok(run)) };
        if !run.shares_state {
            return Some(Ok(run));
        }
        // Another run replaces this one.
        self.room.give_back(run.kept());
        let goes_on = |_| !self.progress.cancelled();
        let all: Vec<usize> = (0..self.cpus.len()).collect();
        let in_order = |goes_on: &dyn Fn(usize) -> bool| self.govern(governor, &all, true, goes_on);
        match self.isolated(decider, &goes_on, in_order) {
            Ok(together) => Some(Ok(Run { shares_state: true, ..together })),
            Err(message) => message.map(Err),
        }
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
            let plan = oracle::plan(model, &input.spans, terms, &mut |_| goes_on())?;
            if plan.crowded_spans > 0 {
                let least = oracle::lower_bound(model, &input.spans, terms, &mut |_| goes_on())?;
                slack += (plan.energy + price.over(plan.delay) - least).max(Energy::ZERO);
            }
            plans.insert(index, plan);
        }
        for members in coupled.into_values() {
            let cpus = members.iter().map(|&cpu| (self.cpus[cpu].model, self.cpus[cpu].input));
            let cluster = self.cpus[members[0]].cluster.1;
            let all = Members { cluster, cpus: cpus.collect(), span: self.span };
            let goes_on = || !self.progress.cancelled() && !self.room.is_over();
            let joint = oracle::plan_together(&all, price, &goes_on)?;
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
    ) -> Attempt<Run> {
        if let Decider::Governor(governor) = decider {
            return self.govern(governor, shard, false, tick);
        }
        let goes_on = &mut || tick(0) && !self.room.is_over();
        let (mut plans, slack) = self.plan_shard(shard, price, goes_on).ok_or(None)?;
        let plan_of = |cpu| plans.remove(cpu).expect("each CPU has a plan");
        let mut plans: Vec<Plan> = shard.iter().map(plan_of).collect();
        let choices = plans.iter_mut().map(|plan| Script::of(std::mem::take(&mut plan.choices)));
        let run = self.drive(&mut Drive::new(choices.collect::<Vec<_>>()), shard, false, tick)?;
        for (totals, plan) in run.cpus.iter().zip(&plans) {
            let cost = (totals.energy, totals.delays.total());
            assert_eq!(cost, (plan.energy, plan.delay), "the plan states its cost");
        }
        Ok(Run { slack, ..run })
    }

    /// Runs a governor on the CPUs of a shard: one after the other, or, if its CPUs share state, on
    /// one image in the order of time.
    fn govern(
        &self,
        governor: &Governor,
        shard: &[usize],
        in_order: bool,
        goes_on: &dyn Fn(usize) -> bool,
    ) -> Attempt<Run> {
        let instance = drive::load(governor, &self.placed(shard))?;
        if !self.times {
            let mut drive = Drive::new(instance);
            let run = self.drive(&mut drive, shard, in_order, goes_on)?;
            return Ok(Run { shares_state: drive.policy.statics_changed(), ..run });
        }
        let mut drive = Drive::new(Timed::new(instance, shard.len()));
        let mut run = self.drive(&mut drive, shard, in_order, goes_on)?;
        for (slot, totals) in run.cpus.iter_mut().enumerate() {
            totals.decision_times = drive.policy.times(slot);
        }
        Ok(Run { shares_state: drive.policy.policy.statics_changed(), ..run })
    }

    fn drive<P: Decides>(
        &self,
        drive: &mut Drive<P>,
        shard: &[usize],
        in_order: bool,
        goes_on: &dyn Fn(usize) -> bool,
    ) -> Attempt<Run> {
        let cpus = self.placed(shard);
        let goes_on = &|done| goes_on(done) && !self.room.is_over();
        let mut decisions = match in_order {
            false => drive.run(&cpus, true, Some(&self.room), goes_on)?,
            true => drive.run_in_order(&cpus, &self.room, goes_on)?,
        };
        for (&cpu, decisions) in shard.iter().zip(&mut decisions) {
            decisions.iter_mut().for_each(|decision| decision.slot = cpu);
        }
        drive.settle(&cpus, self.span.0, Some(self.span.1));
        let (cpus, clusters) = drive.close(cpus);
        Ok(Run { cpus, decisions, clusters, ..Run::default() })
    }

    fn placed(&self, shard: &[usize]) -> Vec<&PlacedCpu<'_>> {
        shard.iter().map(|&cpu| &self.cpus[cpu]).collect()
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
