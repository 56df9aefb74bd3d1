// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Counts of a run, before metrics are computed.

use super::device::DeviceTotals;
use super::domain::DomainCounted;
use super::flow::FlowTotals;
use crate::kernel::Ejection;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use torpor_machine::units::{Duration, Energy, Instant};
use torpor_result::{CgroupTotals, CpuTotals, TaskTotals};

/// Everything counted in a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Counted {
    /// The parts between changes of the workload's timeline; empty if there was none.
    pub sections: Vec<Counted>,
    /// When counting began.
    pub from: Instant,
    pub span: Duration,
    pub cpus: Vec<CpuCounted>,
    pub kinds: Vec<TaskTotals>,
    /// One for each of the workload's devices.
    pub devices: Vec<DeviceTotals>,
    /// One for each of the workload's flows.
    pub flows: Vec<FlowTotals>,
    pub ipis: u64,
    /// Times that a clock event device was set.
    pub timer_programmings: u64,
    pub events: u64,
    /// Energy of clusters in addition to their CPUs, by cluster.
    pub static_energy: Vec<Energy>,
    /// Energy that CPUs take more while others keep a shared state from being entered, by cluster.
    pub shared_energy: Vec<Energy>,
    /// Extra energy of the package while any CPU works or polls.
    pub awake_energy: Energy,
    /// By cluster.
    pub domains: Vec<DomainCounted>,
    /// One for each of the workload's control groups.
    pub cgroups: Vec<CgroupTotals>,
    /// CPU time of the tasks that were alive at the end, by (kind, instance).
    pub alive: Vec<(usize, u64, Duration)>,
    /// End of the run's scheduler, if the kernel ejected it.
    pub ejection: Option<Ejection>,
    /// Comparison with the oracle, if requested.
    pub against_oracle: Option<AgainstOracle>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CpuCounted {
    pub is_online: bool,
    pub totals: CpuTotals,
    pub task_time: Duration,
    pub overhead: Duration,
    /// Both together, by OPP.
    pub busy_at: Vec<Duration>,
}

impl Counted {
    /// Returns the sum of the sections of a run, the last of which was under way at its end.
    pub(super) fn of_sections(mut sections: Vec<Counted>, last: Counted) -> Counted {
        if sections.is_empty() {
            return last;
        }
        let alive: BTreeSet<(usize, u64)> = last.alive.iter().map(|a| (a.0, a.1)).collect();
        if last.span > Duration::ZERO {
            sections.push(last);
        }
        let mut whole = sections[0].clone();
        sections[1..].iter().for_each(|section| whole.add(section));
        whole.alive.retain(|(kind, instance, _)| alive.contains(&(*kind, *instance)));
        Counted { sections, ..whole }
    }

    /// Adds the counts of the section after it.
    fn add(&mut self, other: &Counted) {
        self.span += other.span;
        for (cpu, more) in self.cpus.iter_mut().zip(&other.cpus) {
            cpu.totals.add(&more.totals);
            cpu.task_time += more.task_time;
            cpu.overhead += more.overhead;
            cpu.busy_at.iter_mut().zip(&more.busy_at).for_each(|(sum, time)| *sum += *time);
        }
        self.kinds.iter_mut().zip(&other.kinds).for_each(|(kind, more)| kind.add(more));
        self.devices.iter_mut().zip(&other.devices).for_each(|(device, more)| device.add(more));
        self.flows.iter_mut().zip(&other.flows).for_each(|(flow, more)| flow.add(more));
        self.ipis += other.ipis;
        self.timer_programmings += other.timer_programmings;
        self.events += other.events;
        for (sums, more) in [
            (&mut self.static_energy, &other.static_energy),
            (&mut self.shared_energy, &other.shared_energy),
        ] {
            sums.iter_mut().zip(more).for_each(|(sum, energy)| *sum += *energy);
        }
        self.awake_energy += other.awake_energy;
        for (domain, more) in self.domains.iter_mut().zip(&other.domains) {
            domain.transitions += more.transitions;
            domain.time_at.iter_mut().zip(&more.time_at).for_each(|(sum, time)| *sum += *time);
            domain.limited.iter_mut().zip(&more.limited).for_each(|(sum, time)| *sum += *time);
        }
        self.alive.extend(other.alive.iter().copied());
        self.alive.sort_unstable_by_key(|(kind, instance, _)| (*kind, *instance));
        self.alive.dedup_by(|next, first| {
            let is_same = (next.0, next.1) == (first.0, first.1);
            if is_same {
                first.2 += next.2;
            }
            is_same
        });
    }

    /// Asserts that every online CPU's time is in an idle state (polling is one), in entries that
    /// the driver refused, or busy: no time is lost, and none counts twice.
    ///
    /// The kernel's work counts when it begins, though it may end after the run, and that of an
    /// interrupt also while a CPU leaves its state: the sum may exceed the run by that work. A timer
    /// that ends a sleep without a task takes `interrupt`, which is part of the sleep's cost alone.
    pub(super) fn check_times(&self, interrupt: Duration) {
        let slack = Duration(self.span.0 / 100) + Duration::from_us(1_000);
        for (number, cpu) in self.cpus.iter().enumerate().filter(|(_, cpu)| cpu.is_online) {
            let (idle, rejected) = (cpu.totals.idle_time(), cpu.totals.rejected_time);
            let busy = cpu.task_time + cpu.overhead;
            let off = idle + rejected + busy - self.span;
            let timers = cpu.totals.tick_wakeups + cpu.totals.governor_timer_wakeups;
            let of_sleeps = Duration(interrupt.0 * timers as i64);
            assert!(
                off <= slack + cpu.overhead && off >= Duration::ZERO - slack - of_sleeps,
                "CPU {number}: {idle} in idle states, {rejected} in refused entries and {busy} \
                 busy are not the {} of the run",
                self.span
            );
        }
    }
}

/// Energies of one run, held against its oracle's.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct AgainstOracle {
    /// The least that the run's idleness could have cost.
    pub oracle: Energy,
    /// Sleeps after which it had more paths than it follows.
    pub crowded_spans: u64,
    /// Energy lost in sleeps for whose length a shallower, or a deeper, state was cheapest.
    pub too_deep: Energy,
    pub too_shallow: Energy,
}
