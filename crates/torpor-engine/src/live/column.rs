// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One governor, or the oracle, in the shadow of a recording that grows.

use super::foresight::Foresight;
use super::{Lane, Place, WindowCluster, WindowRun};
use crate::cluster;
use crate::decision::Unobserved;
use crate::idle_loop::{CpuRun, Halt};
use crate::input::CpuInput;
use crate::model::CpuModel;
use crate::options::Others;
use crate::replay::{Decider, Run};
use std::collections::BTreeMap;
use torpor_governor::{CpuSetup, Governor, Instance, Setup};
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration, Energy, Instant, NSEC_PER_SEC};
use torpor_result::{DeepTimes, RELATIVE_UNIT};

/// Time before a CPU's last known span in which no decision is made yet: polling may see several
/// spans. No governor polls that long.
const MARGIN: Duration = Duration(250_000_000);

/// Machine and inputs of all columns.
pub(super) struct Shadowed<'a> {
    pub platform: &'a Platform,
    pub others: Others,
    pub name: &'a str,
    pub deciders: &'a [Decider],
    /// By CPU number; `None` for CPUs that are not replayed.
    pub places: &'a [Option<Place>],
    pub lanes: &'a [Lane],
    /// Begin of the replayed time, and the time of the last event.
    pub start: Option<Instant>,
    pub now: Instant,
    /// All spans are known.
    pub is_end: bool,
}

/// A governor's runs so far.
pub(super) struct Column {
    label: String,
    /// The reason for which it ended instead.
    state: Result<Decides, String>,
    /// By CPU number; `None` before its first sleep, and for the oracle.
    cpus: Vec<Option<Halt>>,
    /// Own energy of clusters up to a time.
    clusters: BTreeMap<usize, (Instant, Energy)>,
    reported: Sums,
}

enum Decides {
    Governor(Box<Instance>),
    Oracle(Foresight),
}

/// Cumulative figures of a column.
#[derive(Clone, Default)]
pub(super) struct Sums {
    counts: (u64, u64, u64),
    latency: (i64, u64),
    delay: Duration,
    energy: BTreeMap<usize, Energy>,
}

impl Sums {
    /// Adds figures of a CPU, or energy of a cluster: sleeps, above and below; latency and wake-ups.
    pub(super) fn add(
        &mut self,
        cluster: usize,
        counts: (u64, u64, u64),
        latency: (i64, u64),
        delay: Duration,
        energy: Energy,
    ) {
        let (all, late) = (&mut self.counts, &mut self.latency);
        *all = (all.0 + counts.0, all.1 + counts.1, all.2 + counts.2);
        *late = (late.0 + latency.0, late.1 + latency.1);
        self.delay += delay;
        *self.energy.entry(cluster).or_insert(Energy::ZERO) += energy;
    }
}

impl Column {
    /// Loads the governor for all CPUs that have a place; a failure ends the column.
    pub(super) fn new(
        label: String,
        (index, decider): (usize, &Decider),
        places: &[Option<Place>],
    ) -> Column {
        let state = match decider {
            Decider::Governor(governor) => {
                load(governor, places).map(|instance| Decides::Governor(Box::new(instance)))
            }
            Decider::Oracle(_) => Ok(Decides::Oracle(Foresight::new(index, places.len()))),
        };
        Column {
            label,
            state,
            cpus: std::iter::repeat_with(|| None).take(places.len()).collect(),
            clusters: BTreeMap::new(),
            reported: Sums::default(),
        }
    }

    /// Runs all CPUs as far as their spans are known.
    pub(super) fn run(&mut self, on: &Shadowed<'_>) {
        let ran = match &mut self.state {
            Ok(Decides::Governor(instance)) => run_all(instance, &mut self.cpus, on),
            Ok(Decides::Oracle(oracle)) => oracle.run(&on.deciders[oracle.decider], on),
            Err(_) => Ok(()),
        };
        if let Err(error) = ran {
            self.state = Err(error);
        }
    }

    /// Returns the number of the CPU's spans that the column needs no more.
    pub(super) fn passed(&self, number: usize) -> usize {
        match &self.state {
            Ok(Decides::Governor(_)) => self.cpus[number].as_ref().map_or(0, Halt::passed),
            Ok(Decides::Oracle(oracle)) => oracle.passed[number],
            Err(_) => usize::MAX,
        }
    }

    pub(super) fn drop_spans(&mut self, number: usize, count: usize) {
        match (&mut self.state, &mut self.cpus[number]) {
            (Ok(Decides::Governor(_)), Some(halt)) => halt.drop_spans(count),
            (Ok(Decides::Oracle(oracle)), _) => oracle.passed[number] -= count,
            _ => {}
        }
    }

    /// Returns the time from which on the cluster's own energy is still to be summed up.
    pub(super) fn static_since(&self, cluster: usize) -> Instant {
        match &self.state {
            Ok(Decides::Governor(_)) => {
                self.clusters.get(&cluster).map_or(Instant(i64::MIN), |(since, _)| *since)
            }
            Ok(Decides::Oracle(_)) | Err(_) => Instant::NEVER,
        }
    }

    /// Sums up a cluster's own energy as far as all its CPUs, `members`, have run, or to `end`.
    pub(super) fn settle_static(
        &mut self,
        (platform, others): (&Platform, Others),
        (cluster, members): (usize, &[(usize, CpuInput)]),
        start: Instant,
        end: Option<Instant>,
    ) {
        if !matches!(self.state, Ok(Decides::Governor(_))) {
            return;
        }
        let known = |(number, input): &(usize, CpuInput)| {
            let halt = self.cpus[*number].as_ref()?;
            Some(halt.now().min(input.spans.last()?.start))
        };
        let until = end.or_else(|| members.iter().map(known).min().flatten());
        let (since, energy) = self.clusters.entry(cluster).or_insert((start, Energy::ZERO));
        let Some(until) = until.filter(|until| until > since) else { return };
        let inputs: Vec<&CpuInput> = members.iter().map(|(_, input)| input).collect();
        let deep = members.iter().map(|(number, _)| {
            let halt = self.cpus[*number].as_ref();
            halt.and_then(|halt| halt.tally().totals.deep.clone()).unwrap_or_default()
        });
        let deep: Vec<DeepTimes> = deep.collect();
        let table = &platform.clusters[cluster];
        *energy += cluster::static_energy(table, &inputs, &deep, others, (*since, until));
        *since = until;
        for (number, _) in members {
            let halt = self.cpus[*number].as_mut();
            if let Some(deep) = halt.and_then(|halt| halt.tally_mut().totals.deep.as_mut()) {
                deep.drop_before(until);
            }
        }
    }

    fn sums(&self, on: &Shadowed<'_>) -> Sums {
        if let Ok(Decides::Oracle(oracle)) = &self.state {
            return oracle.sums(on);
        }
        let mut sums = Sums::default();
        for (place, halt) in on.places.iter().zip(&self.cpus) {
            let (Some(place), Some(halt)) = (place, halt) else { continue };
            let (tally, model): (_, &CpuModel) = (halt.tally(), &place.model);
            let (latency, wakeups) = tally.latency_so_far(model);
            let (counts, latency) = (tally.counts(), (latency.0, wakeups));
            let (delay, energy) = (tally.delay_so_far(), tally.energy(model));
            sums.add(place.cluster, counts, latency, delay, energy);
        }
        for (&cluster, &(_, energy)) in &self.clusters {
            sums.add(cluster, (0, 0, 0), (0, 0), Duration::ZERO, energy);
        }
        sums
    }

    /// Returns the figures since the last report.
    pub(super) fn report(&mut self, on: &Shadowed<'_>) -> WindowRun {
        let platform = on.platform;
        if let Err(error) = &self.state {
            let (governor, error) = (self.label.clone(), Some(error.clone()));
            return WindowRun { governor, error, ..WindowRun::default() };
        }
        let now = self.sums(on);
        let before = std::mem::replace(&mut self.reported, now.clone());
        let known = platform.has_power();
        let energy = |cluster| {
            let before = before.energy.get(&cluster).copied().unwrap_or(Energy::ZERO);
            (now.energy[&cluster] - before).as_uj_f64()
        };
        let unit = RELATIVE_UNIT.over(Duration(NSEC_PER_SEC)).as_uj_f64();
        let all: f64 = now.energy.keys().map(|&cluster| energy(cluster)).sum();
        let clusters = now.energy.keys().map(|&cluster| WindowCluster {
            name: platform.clusters[cluster].name.clone(),
            idle_energy_uj: known.then(|| energy(cluster)),
        });
        WindowRun {
            governor: self.label.clone(),
            sleeps: now.counts.0 - before.counts.0,
            above: now.counts.1 - before.counts.1,
            below: now.counts.2 - before.counts.2,
            idle_energy_uj: known.then_some(all),
            relative_energy: (!known).then_some(all / unit),
            latency_sum_ns: now.latency.0 - before.latency.0,
            latency_count: now.latency.1 - before.latency.1,
            delay_sum_ns: (now.delay - before.delay).0,
            clusters: clusters.collect(),
            error: None,
        }
    }

    /// Ends the column. `models` price the sleeps; they are those of the CPUs that slept.
    pub(super) fn close(
        self,
        models: &BTreeMap<usize, &CpuModel>,
        lanes: &[Lane],
    ) -> Result<Run, String> {
        let instance = match self.state? {
            Decides::Governor(instance) => instance,
            Decides::Oracle(oracle) => return Ok(oracle.close(models)),
        };
        let slept = self.cpus.into_iter().enumerate();
        let slept = slept.filter_map(|(number, halt)| {
            Some(CpuRun::resume(models.get(&number)?, &lanes[number].spans, halt?).close())
        });
        Ok(Run {
            cpus: slept.collect(),
            clusters: self.clusters.into_iter().map(|(at, (_, energy))| (at, energy)).collect(),
            shares_state: instance.statics_changed(),
            ..Run::default()
        })
    }
}

/// Loads a governor for all CPUs that have a place.
fn load(governor: &Governor, places: &[Option<Place>]) -> Result<Instance, String> {
    let placed = places.iter().zip(0..).filter_map(|(place, n)| Some((place.as_ref()?, n)));
    let placed = placed.map(|(place, number): (&Place, u32)| CpuSetup {
        cpu: CpuId(number),
        states: &place.states,
        capacity: u64::from(place.model.capacity),
    });
    let cpus: Vec<CpuSetup<'_>> = placed.collect();
    governor.instantiate(&Setup { cpus: &cpus }).map_err(|error| error.to_string())
}

/// Runs a governor on all CPUs as far as their spans are known.
fn run_all(
    instance: &mut Instance,
    cpus: &mut [Option<Halt>],
    on: &Shadowed<'_>,
) -> Result<(), String> {
    for (number, lane) in on.lanes.iter().enumerate() {
        let (Some(place), Some(edges)) = (&on.places[number], &lane.edges) else { continue };
        let model = &place.model;
        let halt = cpus[number].take();
        let halt = halt.unwrap_or_else(|| Halt::new(model, edges.first.start, place.slot));
        let mut run = CpuRun::resume(model, &lane.spans, halt);
        let ran = match on.is_end {
            true => run.run(instance, &mut Unobserved),
            false => run.run_known(instance, MARGIN),
        };
        cpus[number] = Some(run.halt());
        ran.map_err(|fault| fault.to_string())?;
    }
    Ok(())
}
