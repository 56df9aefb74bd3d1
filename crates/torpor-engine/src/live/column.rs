// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One governor in the shadow of a recording that grows.

use super::{Lane, Place, WindowCluster, WindowRun};
use crate::cluster;
use crate::idle_loop::{CpuRun, Halt};
use crate::input::CpuInput;
use crate::model::CpuModel;
use crate::options::Others;
use crate::replay::Run;
use std::collections::BTreeMap;
use torpor_governor::{CpuSetup, Governor, Instance, Setup};
use torpor_machine::platform::Platform;
use torpor_machine::units::{CpuId, Duration, Energy, Instant};
use torpor_result::DeepTimes;

/// Time before a CPU's last known span in which no decision is made yet: polling may see several
/// spans. No governor polls that long.
const MARGIN: Duration = Duration(250_000_000);

/// A governor's runs so far.
pub(super) struct Column {
    label: String,
    /// The reason for which it ended instead.
    instance: Result<Instance, String>,
    /// By CPU number; `None` before its first sleep.
    cpus: Vec<Option<Halt>>,
    /// Own energy of clusters up to a time.
    clusters: BTreeMap<usize, (Instant, Energy)>,
    reported: Sums,
}

/// Cumulative figures of a column.
#[derive(Clone, Default)]
struct Sums {
    counts: (u64, u64, u64),
    latency: (i64, u64),
    delay_ns: i64,
    energy: BTreeMap<usize, Energy>,
}

impl Column {
    /// Loads the governor for all CPUs that have a place; a failure ends the column.
    pub(super) fn new(label: String, governor: &Governor, places: &[Option<Place>]) -> Column {
        let placed = places.iter().zip(0..).filter_map(|(place, n)| Some((place.as_ref()?, n)));
        let placed = placed.map(|(place, number): (&Place, u32)| CpuSetup {
            cpu: CpuId(number),
            states: &place.states,
            capacity: u64::from(place.model.capacity),
        });
        let cpus: Vec<CpuSetup<'_>> = placed.collect();
        let instance = governor.instantiate(&Setup { cpus: &cpus });
        Column {
            instance: instance.map_err(|error| error.to_string()),
            ..Column::without(label, places.len(), String::new())
        }
    }

    /// Returns a column that has ended for this reason.
    pub(super) fn without(label: String, cpu_count: usize, error: String) -> Column {
        Column {
            label,
            instance: Err(error),
            cpus: std::iter::repeat_with(|| None).take(cpu_count).collect(),
            clusters: BTreeMap::new(),
            reported: Sums::default(),
        }
    }

    /// Runs all CPUs as far as their spans are known. `is_end`: all are.
    pub(super) fn run(&mut self, places: &[Option<Place>], lanes: &[Lane], is_end: bool) {
        for (number, lane) in lanes.iter().enumerate() {
            let Ok(instance) = &mut self.instance else { return };
            let (Some(place), Some(edges)) = (&places[number], &lane.edges) else { continue };
            let model = &place.model;
            let halt = self.cpus[number].take();
            let halt = halt.unwrap_or_else(|| Halt::new(model, edges.first.start, place.slot));
            let mut run = CpuRun::resume(model, &lane.spans, halt);
            let ran = match is_end {
                true => run.run(instance, &mut crate::decision::Unobserved),
                false => run.run_known(instance, MARGIN),
            };
            self.cpus[number] = Some(run.halt());
            if let Err(fault) = ran {
                self.instance = Err(fault.to_string());
            }
        }
    }

    /// Returns the number of the CPU's spans that the column needs no more.
    pub(super) fn passed(&self, number: usize) -> usize {
        match (&self.instance, &self.cpus[number]) {
            (Ok(_), Some(halt)) => halt.passed(),
            (Ok(_), None) => 0,
            (Err(_), _) => usize::MAX,
        }
    }

    pub(super) fn drop_spans(&mut self, number: usize, count: usize) {
        if let (Ok(_), Some(halt)) = (&self.instance, &mut self.cpus[number]) {
            halt.drop_spans(count);
        }
    }

    /// Returns the time from which on the cluster's own energy is still to be summed up.
    pub(super) fn static_since(&self, cluster: usize) -> Instant {
        match &self.instance {
            Ok(_) => self.clusters.get(&cluster).map_or(Instant(i64::MIN), |(since, _)| *since),
            Err(_) => Instant::NEVER,
        }
    }

    /// Sums up a cluster's own energy as far as all its CPUs, `members`, have run, or to `end`.
    pub(super) fn settle_static(
        &mut self,
        platform: &Platform,
        cluster: usize,
        members: &[(usize, CpuInput)],
        others: Others,
        start: Instant,
        end: Option<Instant>,
    ) {
        if self.instance.is_err() {
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

    fn sums(&self, places: &[Option<Place>]) -> Sums {
        let mut sums = Sums::default();
        for (place, halt) in places.iter().zip(&self.cpus) {
            let (Some(place), Some(halt)) = (place, halt) else { continue };
            let (tally, model): (_, &CpuModel) = (halt.tally(), &place.model);
            let (sleeps, above, below) = tally.counts();
            let (latency, wakeups) = tally.latency_so_far(model);
            let (all, late) = (&mut sums.counts, &mut sums.latency);
            *all = (all.0 + sleeps, all.1 + above, all.2 + below);
            *late = (late.0 + latency.0, late.1 + wakeups);
            sums.delay_ns += tally.delay_so_far().0;
            *sums.energy.entry(place.cluster).or_insert(Energy::ZERO) += tally.energy(model);
        }
        for (&cluster, &(_, energy)) in &self.clusters {
            *sums.energy.entry(cluster).or_insert(Energy::ZERO) += energy;
        }
        sums
    }

    /// Returns the figures since the last report.
    pub(super) fn report(&mut self, platform: &Platform, places: &[Option<Place>]) -> WindowRun {
        if let Err(error) = &self.instance {
            let (governor, error) = (self.label.clone(), Some(error.clone()));
            return WindowRun { governor, error, ..WindowRun::default() };
        }
        let now = self.sums(places);
        let before = std::mem::replace(&mut self.reported, now.clone());
        let known = platform.has_power();
        let energy = |cluster| {
            let before = before.energy.get(&cluster).copied().unwrap_or(Energy::ZERO);
            (now.energy[&cluster] - before).as_uj_f64()
        };
        let all: f64 = now.energy.keys().map(|&cluster| energy(cluster)).sum();
        let clusters = now.energy.keys().map(|&cluster| WindowCluster {
            name: platform.clusters[cluster].name.clone(),
            idle_energy_uj: known.then(|| energy(cluster)),
            relative_energy: (!known).then(|| energy(cluster)),
        });
        WindowRun {
            governor: self.label.clone(),
            sleeps: now.counts.0 - before.counts.0,
            above: now.counts.1 - before.counts.1,
            below: now.counts.2 - before.counts.2,
            idle_energy_uj: known.then_some(all),
            relative_energy: (!known).then_some(all),
            latency_sum_ns: now.latency.0 - before.latency.0,
            latency_count: now.latency.1 - before.latency.1,
            delay_sum_ns: now.delay_ns - before.delay_ns,
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
        let instance = self.instance?;
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
