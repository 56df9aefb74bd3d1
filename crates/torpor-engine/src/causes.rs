// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Causes of wrong-depth sleeps and of latency: the task, timer function or interrupt that ended
//! the sleep.
//!
//! A replayed sleep that a recorded event ended has that event's cause, found by the time at which
//! the recorded sleep ended. Sleeps that the tick or the polling limit ended are due to the
//! governor itself, and are listed as such.

use crate::decision::Decision;
use crate::model::{SleepEnd, Verdict};
use crate::options::By;
use crate::replay::PlacedCpu;
use crate::stats::{Cause, Ended, spelled};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use torpor_machine::units::CpuId;
use torpor_trace::Names;

/// One governor's sleeps that one task, timer or interrupt ended.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct CauseOutcome {
    pub governor: String,
    /// `task`, `timer`, `irq` or `ipi`; `tick` and `poll` if the governor's own tick or polling
    /// limit ended the sleep; `none` if no task ran; `unknown`.
    pub kind: String,
    pub name: String,
    pub sleeps: u64,
    pub above: u64,
    pub below: u64,
    /// Sleeps that a recorded event ended; only these have a latency.
    pub woken: u64,
    /// Total latency.
    pub latency_ns: i64,
    pub latency_max_ns: i64,
}

/// Causes of a recording's wake-ups.
pub struct Causes {
    by: By,
    cpus: HashMap<CpuId, Vec<Ended>>,
    names: Names,
}

impl Causes {
    pub fn new(by: By, ended: Vec<Ended>, names: &Names) -> Causes {
        let mut cpus: HashMap<CpuId, Vec<Ended>> = HashMap::new();
        for each in ended {
            cpus.entry(each.cpu).or_default().push(each);
        }
        cpus.values_mut().for_each(|of_cpu| of_cpu.sort_by_key(|each| each.exit));
        Causes { by, cpus, names: names.clone() }
    }

    pub(crate) fn held_bytes(&self) -> usize {
        let ended: usize = self.cpus.values().map(Vec::len).sum();
        ended.saturating_mul(size_of::<Ended>())
    }

    /// Returns one governor's causes, the most sleeps of a wrong depth first.
    pub fn of_run(
        &self,
        governor: &str,
        cpus: &[PlacedCpu<'_>],
        decisions: &[Decision],
    ) -> Vec<CauseOutcome> {
        let mut counted: BTreeMap<(&'static str, String), CauseOutcome> = BTreeMap::new();
        for decision in decisions {
            let cause = self.cause(cpus, decision);
            let counts = counted.entry(cause).or_insert_with_key(|(kind, name)| CauseOutcome {
                governor: governor.to_owned(),
                kind: (*kind).to_owned(),
                name: name.clone(),
                ..CauseOutcome::default()
            });
            counts.sleeps += 1;
            counts.above += u64::from(decision.verdict == Verdict::Above);
            counts.below += u64::from(decision.verdict == Verdict::Below);
            if let Some(latency) = decision.latency {
                counts.woken += 1;
                counts.latency_ns += latency.0;
                counts.latency_max_ns = counts.latency_max_ns.max(latency.0);
            }
        }
        let mut rows: Vec<CauseOutcome> = counted.into_values().collect();
        // Equal rows stay in the map's order, by name.
        rows.sort_by_key(|row| Reverse((row.above + row.below, row.latency_ns)));
        rows
    }

    fn cause(&self, cpus: &[PlacedCpu<'_>], decision: &Decision) -> (&'static str, String) {
        match decision.end {
            SleepEnd::Tick => return ("tick", "the governor's tick".to_owned()),
            SleepEnd::PollTimeout => return ("poll", "the polling limit".to_owned()),
            SleepEnd::GovernorTimer => return ("timer", "the governor's own".to_owned()),
            SleepEnd::Event => {}
        }
        let input = cpus[decision.slot].input;
        let span = &input.spans[decision.span as usize];
        let of_cpu = self.cpus.get(&input.cpu).map_or(&[][..], Vec::as_slice);
        let index = of_cpu.partition_point(|ended| ended.exit < span.resume);
        let ended = of_cpu.get(index).filter(|ended| ended.entry <= span.resume);
        let unknown = || ("unknown", "not recorded".to_owned());
        let Some(ended) = ended else { return unknown() };
        match (self.by, ended.cause) {
            (By::Task, _) => match ended.ran {
                Some(Some(comm)) => ("task", self.names.text(comm).to_owned()),
                Some(None) => ("task", "not known".to_owned()),
                None => ("none", "no task ran".to_owned()),
            },
            (By::Irq, Cause::Timer(_)) => ("timer", "all timers".to_owned()),
            (By::Timer, Cause::Irq(..) | Cause::Ipi(_)) => {
                ("irq", "all interrupts and IPIs".to_owned())
            }
            (By::Irq | By::Timer, cause) => spelled(cause, &self.names),
        }
    }
}
