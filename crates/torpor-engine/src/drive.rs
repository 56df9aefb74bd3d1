// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One policy on some CPUs: a replay runs it to the end at once, a shadow as far as spans are known.

use crate::cluster;
use crate::decision::{Decision, Keep, Room, Unobserved};
use crate::idle_loop::{CpuRun, DECISIONS_PER_CHECK, Halt, Pending};
use crate::input::CpuInput;
use crate::model::{CpuModel, state_descs};
use crate::options::Others;
use crate::policy::Policy;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use torpor_governor::{CpuSetup, Fault, Governor, Instance, Setup, StateDesc};
use torpor_machine::platform::Cluster;
use torpor_machine::units::{Energy, Instant};
use torpor_result::{CpuTotals, DeepTimes};

/// A recorded CPU, placed on a CPU of the platform.
pub struct PlacedCpu<'a> {
    pub input: &'a CpuInput,
    pub model: &'a CpuModel,
    /// Position among the platform's clusters, and the cluster.
    pub cluster: (usize, &'a Cluster),
    /// Assumption about CPUs of its cluster that are not in the recording.
    pub others: Others,
    /// Decisions to keep of each run, the first ones.
    pub kept: usize,
}

/// Result of work that the user may stop (`Err(None)`) and that a governor may fail
/// (`Err(Some(message))`).
pub(crate) type Attempt<T> = Result<T, Option<String>>;

/// A policy's runs so far, by slot: the position of each CPU among those that all calls name.
pub(crate) struct Drive<P> {
    pub policy: P,
    /// `None` before the CPU's first span.
    pub halts: Vec<Option<Halt>>,
    /// Own energy of clusters up to a time.
    pub clusters: BTreeMap<usize, (Instant, Energy)>,
}

/// Loads a governor for CPUs.
pub(crate) fn load(governor: &Governor, cpus: &[&PlacedCpu<'_>]) -> Result<Instance, String> {
    let states = |cpu: &&PlacedCpu<'_>| state_descs(&cpu.cluster.1.idle_states, cpu.model);
    let states: Vec<Vec<StateDesc>> = cpus.iter().map(states).collect();
    let setup = cpus.iter().zip(&states).map(|(cpu, states)| CpuSetup {
        cpu: cpu.input.cpu,
        states,
        capacity: u64::from(cpu.model.capacity),
    });
    let cpus: Vec<CpuSetup<'_>> = setup.collect();
    governor.instantiate(&Setup { cpus: &cpus }).map_err(|error| error.to_string())
}

impl<P: Policy> Drive<P> {
    pub(crate) fn new(policy: P) -> Drive<P> {
        Drive { policy, halts: Vec::new(), clusters: BTreeMap::new() }
    }

    /// Runs each CPU in turn, up to the point where later spans could change a decision; at the
    /// end, through all spans. `goes_on` counts spans that are done. Returns the decisions kept of
    /// each CPU.
    pub(crate) fn run(
        &mut self,
        cpus: &[&PlacedCpu<'_>],
        is_end: bool,
        room: Option<&Room>,
        goes_on: &dyn Fn(usize) -> bool,
    ) -> Attempt<Vec<Vec<Decision>>> {
        self.halts.resize_with(cpus.len(), || None);
        let mut keep = Keep::new(cpus.iter().map(|cpu| cpu.kept).collect(), room);
        for (slot, cpu) in cpus.iter().enumerate() {
            let (spans, mut counted) = (&cpu.input.spans, 0);
            let mut goes_on = |done: usize| {
                let more = done.saturating_sub(counted);
                counted += more;
                goes_on(more)
            };
            let mut run = match self.halts[slot].take() {
                Some(halt) => CpuRun::resume(cpu.model, spans, halt),
                None if spans.is_empty() => continue,
                None => CpuRun::new(cpu.model, spans, slot),
            };
            if !is_end {
                run.stop_before_last();
            }
            let ran = match cpu.kept {
                0 => run.run_while(&mut self.policy, &mut Unobserved, &mut goes_on),
                _ => run.run_while(&mut self.policy, &mut keep, &mut goes_on),
            };
            self.halts[slot] = Some(run.halt());
            if !ran.map_err(failed)? || !goes_on(spans.len()) {
                return Err(None);
            }
        }
        Ok(keep.decisions)
    }

    /// Runs all CPUs to the end, each half of a decision at its own time, as required by a governor
    /// whose CPUs share state. Ties go to the lower slot.
    pub(crate) fn run_in_order(
        &mut self,
        cpus: &[&PlacedCpu<'_>],
        room: &Room,
        goes_on: &dyn Fn(usize) -> bool,
    ) -> Attempt<Vec<Vec<Decision>>> {
        let begun = cpus.iter().enumerate();
        let mut runs: Vec<CpuRun<'_>> =
            begun.map(|(slot, cpu)| CpuRun::new(cpu.model, &cpu.input.spans, slot)).collect();
        let mut pending: Vec<Option<Pending>> = vec![None; runs.len()];
        let mut queue: BinaryHeap<Reverse<(Instant, usize)>> = BinaryHeap::new();
        for (slot, run) in runs.iter_mut().enumerate() {
            queue.extend(run.next_decision().map(|at| Reverse((at, slot))));
        }
        let mut keep = Keep::new(cpus.iter().map(|cpu| cpu.kept).collect(), Some(room));
        let mut steps = 0;
        while let Some(Reverse((_, slot))) = queue.pop() {
            steps += 1;
            if steps % DECISIONS_PER_CHECK == 0 && !goes_on(0) {
                return Err(None);
            }
            let run = &mut runs[slot];
            let next = match pending[slot].take() {
                Some(begun) => {
                    run.finish(begun, &mut self.policy, &mut keep).map_err(failed)?;
                    run.next_decision()
                }
                None => {
                    let begun = run.begin(&mut self.policy).map_err(failed)?;
                    pending[slot] = Some(begun);
                    Some(begun.sleep.resume)
                }
            };
            queue.extend(next.map(|at| Reverse((at, slot))));
        }
        self.halts = runs.into_iter().map(|run| Some(run.halt())).collect();
        Ok(keep.decisions)
    }

    /// Sums up the clusters' own energy, from `start` to `end`, or to the point that all CPUs have
    /// reached.
    pub(crate) fn settle(&mut self, cpus: &[&PlacedCpu<'_>], start: Instant, end: Option<Instant>) {
        let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (slot, cpu) in cpus.iter().enumerate() {
            if cpu.model.watches_deepest && !cpu.input.spans.is_empty() {
                members.entry(cpu.cluster.0).or_default().push(slot);
            }
        }
        for (cluster, slots) in members {
            let known = |&slot: &usize| {
                let halt = self.halts[slot].as_ref()?;
                Some(halt.now().min(cpus[slot].input.spans.last()?.start))
            };
            let until = end.or_else(|| slots.iter().map(known).min().flatten());
            let (since, energy) = self.clusters.entry(cluster).or_insert((start, Energy::ZERO));
            let Some(until) = until.filter(|until| until > since) else { continue };
            let inputs: Vec<&CpuInput> = slots.iter().map(|&slot| cpus[slot].input).collect();
            let deep = |&slot: &usize| self.halts[slot].as_ref()?.tally().totals.deep.as_ref();
            let deep: Vec<&DeepTimes> = slots.iter().filter_map(deep).collect();
            let PlacedCpu { cluster: (_, table), others, .. } = *cpus[slots[0]];
            *energy += cluster::static_energy(table, &inputs, &deep, others, (*since, until));
            *since = until;
            for slot in slots {
                let halt = self.halts[slot].as_mut();
                if let Some(deep) = halt.and_then(|halt| halt.tally_mut().totals.deep.as_mut()) {
                    deep.drop_before(until);
                }
            }
        }
    }

    /// Ends the runs; `cpus` are those that slept, with models that price their sleeps. Returns
    /// their sums, and the clusters' own energy.
    pub(crate) fn close<'a>(
        &mut self,
        cpus: impl IntoIterator<Item = &'a PlacedCpu<'a>>,
    ) -> (Vec<CpuTotals>, BTreeMap<usize, Energy>) {
        let slept = self.halts.drain(..).flatten().zip(cpus);
        let totals = slept.map(|(halt, cpu)| CpuTotals {
            deep: None,
            ..halt.close(cpu.model, cpu.input.window().1)
        });
        let clusters = std::mem::take(&mut self.clusters).into_iter();
        (totals.collect(), clusters.map(|(at, (_, energy))| (at, energy)).collect())
    }
}

fn failed(fault: Fault) -> Option<String> {
    Some(fault.to_string())
}
