// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Requests to the kernel to create or change a task.

use crate::kernel::abi;
use torpor_machine::units::{CpuId, Duration};

/// Initial state of a task.
#[derive(Clone, Debug)]
pub struct TaskSetup {
    pub name: String,
    /// Process number, not 0.
    pub number: u32,
    /// CPU of its parent.
    pub forked_on: CpuId,
    /// Number of its control group, from 1; 0 for the root.
    pub group: u32,
    pub timer_slack: Duration,
    pub attributes: Attributes,
}

/// Attributes of a task that `sched_setattr()` and `sched_setaffinity()` set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    pub policy: Policy,
    pub nice: i32,
    /// `uclamp_min` and `uclamp_max`.
    pub uclamp: (u32, u32),
    /// Requested slice; 0 for the scheduler's own.
    pub slice: Duration,
    /// Empty for all CPUs.
    pub affinity: CpuSet,
}

/// Scheduling policy; realtime priorities are 1 to 99.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    #[default]
    Normal,
    Fifo(u32),
    RoundRobin(u32),
    Batch,
    Idle,
}

/// Set of CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuSet([u64; abi::CPUS_MAX / 64]);

impl FromIterator<CpuId> for CpuSet {
    /// Collects CPUs, without those beyond the largest machine.
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::default();
        for cpu in cpus.into_iter().map(CpuId::index).filter(|cpu| *cpu < abi::CPUS_MAX) {
            set.0[cpu / 64] |= 1 << (cpu % 64);
        }
        set
    }
}

impl Default for Attributes {
    fn default() -> Attributes {
        let (policy, affinity) = (Policy::Normal, CpuSet::default());
        Attributes { policy, nice: 0, uclamp: (0, 1024), slice: Duration::ZERO, affinity }
    }
}

impl Attributes {
    pub(crate) fn given(&self) -> abi::Attributes {
        // Numbers of <uapi/linux/sched.h>.
        let (policy, priority) = match self.policy {
            Policy::Normal => (0, 0),
            Policy::Fifo(priority) => (1, priority),
            Policy::RoundRobin(priority) => (2, priority),
            Policy::Batch => (3, 0),
            Policy::Idle => (5, 0),
        };
        abi::Attributes {
            policy,
            priority,
            nice: self.nice,
            uclamp_min: self.uclamp.0,
            uclamp_max: self.uclamp.1,
            slice_ns: self.slice.0.max(0) as u64,
            affinity: self.affinity.0,
        }
    }
}
