// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Counters of a running kernel.

use torpor_machine::units::Duration;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskStats {
    pub wakeups: u64,
    /// From the event that woke it to its running.
    pub latency_total: Duration,
    pub latency_max: Duration,
    pub migrations: u64,
    pub run_time: Duration,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuStats {
    pub busy: Duration,
    /// By the kernel's own work.
    pub held_up: Duration,
    /// Time asleep in each state, from the decision to the wake-up event.
    pub asleep: Vec<Duration>,
    pub entries: Vec<u64>,
    pub switches: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub events: u64,
    pub ipis: u64,
    pub cpus: Vec<CpuStats>,
    pub tasks: Vec<TaskStats>,
}
