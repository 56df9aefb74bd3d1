// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One governor, or the oracle, in the shadow of a recording that grows.

use super::foresight::Foresight;
use super::{WindowCluster, WindowRun};
use crate::drive::{self, Drive, PlacedCpu};
use crate::idle_loop::Halt;
use crate::replay::{Decider, Run};
use std::collections::BTreeMap;
use torpor_governor::Instance;
use torpor_machine::platform::Platform;
use torpor_machine::units::{Duration, Energy, Instant, NSEC_PER_SEC};
use torpor_result::RELATIVE_UNIT;

/// Machine and inputs of all columns.
pub(super) struct Shadowed<'a> {
    pub platform: &'a Platform,
    pub name: &'a str,
    pub deciders: &'a [Decider],
    /// CPUs that are replayed, with the spans that not all governors have passed.
    pub cpus: &'a [&'a PlacedCpu<'a>],
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
    reported: Sums,
}

enum Decides {
    Governor(Box<Drive<Instance>>),
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
    /// Loads the governor for all CPUs; a failure ends the column.
    pub(super) fn new(
        label: String,
        (index, decider): (usize, &Decider),
        cpus: &[&PlacedCpu<'_>],
    ) -> Column {
        let state = match decider {
            Decider::Governor(governor) => drive::load(governor, cpus)
                .map(|instance| Decides::Governor(Box::new(Drive::new(instance)))),
            Decider::Oracle(_) => Ok(Decides::Oracle(Foresight::new(index, cpus.len()))),
        };
        Column { label, state, reported: Sums::default() }
    }

    /// Runs all CPUs as far as their spans are known.
    pub(super) fn run(&mut self, on: &Shadowed<'_>) {
        let ran = match &mut self.state {
            Ok(Decides::Governor(drive)) => drive
                .run(on.cpus, on.is_end, None, &|_| true)
                .map(|_| ())
                .map_err(|error| error.expect("nobody stops a shadow")),
            Ok(Decides::Oracle(oracle)) => oracle.run(&on.deciders[oracle.decider], on),
            Err(_) => Ok(()),
        };
        if let Err(error) = ran {
            self.state = Err(error);
        }
    }

    /// Returns the number of the CPU's spans that the column needs no more.
    pub(super) fn passed(&self, slot: usize) -> usize {
        match &self.state {
            Ok(Decides::Governor(drive)) => drive.halts[slot].as_ref().map_or(0, Halt::passed),
            Ok(Decides::Oracle(oracle)) => oracle.passed[slot],
            Err(_) => usize::MAX,
        }
    }

    pub(super) fn drop_spans(&mut self, slot: usize, count: usize) {
        match &mut self.state {
            Ok(Decides::Governor(drive)) => {
                drive.halts[slot].iter_mut().for_each(|halt| halt.drop_spans(count));
            }
            Ok(Decides::Oracle(oracle)) => oracle.passed[slot] -= count,
            Err(_) => {}
        }
    }

    /// Returns the time from which on the cluster's own energy is still to be summed up.
    pub(super) fn static_since(&self, cluster: usize) -> Instant {
        match &self.state {
            Ok(Decides::Governor(drive)) => {
                drive.clusters.get(&cluster).map_or(Instant(i64::MIN), |(since, _)| *since)
            }
            Ok(Decides::Oracle(_)) | Err(_) => Instant::NEVER,
        }
    }

    /// Sums up the clusters' own energy as far as all their CPUs have run; at the end, to `end`.
    pub(super) fn settle(&mut self, on: &Shadowed<'_>, end: Option<Instant>) {
        if let (Ok(Decides::Governor(drive)), Some(start)) = (&mut self.state, on.start) {
            drive.settle(on.cpus, start, end);
        }
    }

    fn sums(&self, on: &Shadowed<'_>) -> Sums {
        let drive = match &self.state {
            Ok(Decides::Governor(drive)) => drive,
            Ok(Decides::Oracle(oracle)) => return oracle.sums(on),
            Err(_) => return Sums::default(),
        };
        let mut sums = Sums::default();
        for (cpu, halt) in on.cpus.iter().zip(&drive.halts) {
            let Some(halt) = halt else { continue };
            let (tally, model) = (halt.tally(), cpu.model);
            let (latency, wakeups) = tally.latency_so_far(model);
            let (counts, latency) = (tally.counts(), (latency.0, wakeups));
            let (delay, energy) = (tally.delay_so_far(), tally.energy(model));
            sums.add(cpu.cluster.0, counts, latency, delay, energy);
        }
        for (&cluster, &(_, energy)) in &drive.clusters {
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

    /// Ends the column. `slept` are the CPUs that slept, with models that price their sleeps.
    pub(super) fn close(self, slept: &[PlacedCpu<'_>]) -> Result<Run, String> {
        let mut drive = match self.state? {
            Decides::Governor(drive) => drive,
            Decides::Oracle(oracle) => return Ok(oracle.close(slept)),
        };
        let (cpus, clusters) = drive.close(slept);
        Ok(Run { cpus, clusters, shares_state: drive.policy.statics_changed(), ..Run::default() })
    }
}
