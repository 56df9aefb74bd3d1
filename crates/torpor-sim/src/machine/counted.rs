// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Counts of a run, before metrics are computed.

use super::device::DeviceTotals;
use super::domain::DomainCounted;
use super::flow::FlowTotals;
use serde::{Deserialize, Serialize};
use torpor_machine::units::{Duration, Energy};
use torpor_result::{CgroupTotals, CpuTotals, TaskTotals};

/// Everything counted in a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Counted {
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
    /// Asserts that every online CPU's time is in an idle state (polling is one), in entries that
    /// the driver refused, or busy: no time is lost, and none counts twice.
    ///
    /// The kernel's work counts when it begins, though it may end after the run, and that of an
    /// interrupt also while a CPU leaves its state: the sum may exceed the run by that work.
    pub(super) fn check_times(&self) {
        let slack = Duration(self.span.0 / 100) + Duration::from_us(1_000);
        for (number, cpu) in self.cpus.iter().enumerate().filter(|(_, cpu)| cpu.is_online) {
            let (idle, rejected) = (cpu.totals.idle_time(), cpu.totals.rejected_time);
            let busy = cpu.task_time + cpu.overhead;
            let off = idle + rejected + busy - self.span;
            assert!(
                off <= slack + cpu.overhead && off >= Duration::ZERO - slack,
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
