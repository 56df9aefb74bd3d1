// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The oracle in the shadow of a recording that grows: it plans one stretch after the other.

use super::column::{Shadowed, Sums};
use crate::input::{CpuInput, CutSleeps, Span};
use crate::model::CpuModel;
use crate::options::Unwatched;
use crate::replay::{self, Decider, PlacedCpu, Run};
use std::collections::BTreeMap;
use torpor_machine::units::{CpuId, Duration, Energy, Instant};
use torpor_result::CpuTotals;

/// Length of a stretch: some thousand sleeps, which take seconds to plan together.
const STRETCH: Duration = Duration(5_000_000_000);

/// Returns the note on an oracle that plans in stretches.
pub(super) fn note() -> String {
    format!(
        "the oracle looks ahead {} s at a time, and every CPU begins each stretch on time: it is \
         near the least energy, and no proof of it; replay a saved recording for that",
        STRETCH.0 / 1_000_000_000
    )
}

/// Sums of the stretches that were planned.
pub(super) struct Foresight {
    /// Position among the deciders.
    pub decider: usize,
    /// By CPU number.
    totals: BTreeMap<usize, CpuTotals>,
    clusters: BTreeMap<usize, Energy>,
    crowded_spans: u64,
    stretches: u64,
    slack: Energy,
    /// Number of each lane's spans that were planned.
    pub passed: Vec<usize>,
    since: Option<Instant>,
}

impl Foresight {
    pub(super) fn new(decider: usize, cpu_count: usize) -> Foresight {
        Foresight {
            decider,
            totals: BTreeMap::new(),
            clusters: BTreeMap::new(),
            crowded_spans: 0,
            stretches: 0,
            slack: Energy::ZERO,
            passed: vec![0; cpu_count],
            since: None,
        }
    }

    /// Plans the next stretch, if all of it is known.
    pub(super) fn run(&mut self, decider: &Decider, on: &Shadowed<'_>) -> Result<(), String> {
        let Some(start) = on.start else { return Ok(()) };
        let since = *self.since.get_or_insert(start);
        if !on.is_end && on.now.since(since) < STRETCH {
            return Ok(());
        }
        let rest = |number: usize| on.lanes[number].spans.get(self.passed[number]..);
        let of = |number: usize| -> Option<CpuInput> {
            let spans: Vec<Span> = rest(number)?.to_vec();
            // What a CPU did before is in an earlier stretch.
            let cut = CutSleeps { until: Some(spans.first()?.start), from: None };
            Some(CpuInput { cpu: CpuId(number as u32), spans, cut })
        };
        let inputs: Vec<CpuInput> =
            (0..on.lanes.len()).filter(|&n| on.places[n].is_some()).filter_map(of).collect();
        let last = inputs.iter().map(|input| input.window().1).max();
        let until = if on.is_end { last.unwrap_or(on.now).max(since) } else { on.now };
        let placed = inputs.iter().filter_map(|input| {
            let place = on.places[input.cpu.index()].as_ref()?;
            Some(PlacedCpu {
                input,
                model: &place.model,
                cluster: (place.cluster, &on.platform.clusters[place.cluster]),
                others: on.others,
                states: Vec::new(),
                kept: 0,
            })
        });
        let placed: Vec<PlacedCpu<'_>> = placed.collect();
        let (span, deciders) = ((since, until), std::slice::from_ref(decider));
        let runs = replay::run(&placed, deciders, span, false, 1, &Unwatched, on.name);
        let run = runs.map_err(|error| error.to_string())?.remove(0)?;
        for (input, totals) in inputs.iter().zip(&run.cpus) {
            let number = input.cpu.index();
            self.passed[number] += input.spans.len();
            let all = self.totals.entry(number);
            all.or_insert_with(|| CpuTotals::new(totals.states.len())).add(totals);
        }
        for (cluster, energy) in run.clusters {
            *self.clusters.entry(cluster).or_insert(Energy::ZERO) += energy;
        }
        self.crowded_spans += run.crowded_spans;
        self.stretches += 1;
        self.slack += run.slack;
        self.since = Some(until);
        Ok(())
    }

    pub(super) fn sums(&self, on: &Shadowed<'_>) -> Sums {
        let mut sums = Sums::default();
        for (&number, totals) in &self.totals {
            let of = |field: fn(&torpor_result::StateTotals) -> u64| -> u64 {
                totals.states.iter().map(field).sum()
            };
            let cluster = on.places[number].as_ref().map_or(0, |place| place.cluster);
            let counts = (of(|s| s.usage), of(|s| s.above), of(|s| s.below));
            let latency = (totals.latency.total().0, totals.latency.count());
            sums.add(cluster, counts, latency, totals.delays.total(), totals.energy);
        }
        for (&cluster, &energy) in &self.clusters {
            sums.add(cluster, (0, 0, 0), (0, 0), Duration::ZERO, energy);
        }
        sums
    }

    /// Returns the sums as a run. Its proof is open: paths end where a stretch does.
    pub(super) fn close(mut self, models: &BTreeMap<usize, &CpuModel>) -> Run {
        let cpus = models.iter().map(|(number, model)| {
            let none = || CpuTotals::new(model.states.len());
            self.totals.remove(number).unwrap_or_else(none)
        });
        Run {
            cpus: cpus.collect(),
            clusters: self.clusters,
            crowded_spans: self.crowded_spans.max(self.stretches),
            slack: self.slack,
            ..Run::default()
        }
    }
}
