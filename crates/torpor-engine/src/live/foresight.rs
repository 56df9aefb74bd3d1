// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The oracle in the shadow of a recording that grows: it plans one stretch after the other.

use super::column::{Shadowed, Sums};
use crate::input::{CpuInput, CutSleeps, Span};
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
    totals: BTreeMap<CpuId, CpuTotals>,
    clusters: BTreeMap<usize, Energy>,
    slack: Energy,
    /// Number of each CPU's spans that were planned, by slot.
    pub passed: Vec<usize>,
    since: Option<Instant>,
}

impl Foresight {
    pub(super) fn new(decider: usize, cpu_count: usize) -> Foresight {
        Foresight {
            decider,
            totals: BTreeMap::new(),
            clusters: BTreeMap::new(),
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
        let of = |(slot, cpu): (usize, &&PlacedCpu<'_>)| {
            let spans: Vec<Span> = cpu.input.spans.get(self.passed[slot]..)?.to_vec();
            // Earlier sleeps of the CPU belong to an earlier stretch.
            let cut = CutSleeps { until: Some(spans.first()?.start), from: None };
            Some((slot, CpuInput { cpu: cpu.input.cpu, spans, cut }))
        };
        let inputs: Vec<(usize, CpuInput)> = on.cpus.iter().enumerate().filter_map(of).collect();
        let last = inputs.iter().map(|(_, input)| input.window().1).max();
        let until = if on.is_end { last.unwrap_or(on.now).max(since) } else { on.now };
        let placed: Vec<PlacedCpu<'_>> =
            inputs.iter().map(|(slot, input)| PlacedCpu { input, ..*on.cpus[*slot] }).collect();
        let (span, deciders) = ((since, until), std::slice::from_ref(decider));
        let runs = replay::run(&placed, deciders, span, false, 1, &Unwatched, on.name);
        let run = runs.map_err(|error| error.to_string())?.remove(0)?;
        for ((slot, input), totals) in inputs.iter().zip(&run.cpus) {
            self.passed[*slot] += input.spans.len();
            let all = self.totals.entry(input.cpu);
            all.or_insert_with(|| CpuTotals::new(totals.states.len())).add(totals);
        }
        for (cluster, energy) in run.clusters {
            *self.clusters.entry(cluster).or_insert(Energy::ZERO) += energy;
        }
        self.slack += run.slack;
        self.since = Some(until);
        Ok(())
    }

    pub(super) fn sums(&self, on: &Shadowed<'_>) -> Sums {
        let mut sums = Sums::default();
        for cpu in on.cpus {
            let Some(totals) = self.totals.get(&cpu.input.cpu) else { continue };
            let of = |field: fn(&torpor_result::StateTotals) -> u64| -> u64 {
                totals.states.iter().map(field).sum()
            };
            let counts = (of(|s| s.usage), of(|s| s.above), of(|s| s.below));
            let latency = (totals.latency.total().0, totals.latency.count());
            sums.add(cpu.cluster.0, counts, latency, totals.delays.total(), totals.energy);
        }
        for (&cluster, &energy) in &self.clusters {
            sums.add(cluster, (0, 0, 0), (0, 0), Duration::ZERO, energy);
        }
        sums
    }

    /// Returns the sums as a run. Its proof is open: paths end where a stretch does.
    pub(super) fn close(mut self, slept: &[PlacedCpu<'_>]) -> Run {
        let cpus = slept.iter().map(|cpu| {
            let none = || CpuTotals::new(cpu.model.states.len());
            self.totals.remove(&cpu.input.cpu).unwrap_or_else(none)
        });
        Run {
            cpus: cpus.collect(),
            clusters: self.clusters,
            is_unproven: true,
            slack: self.slack,
            ..Run::default()
        }
    }
}
