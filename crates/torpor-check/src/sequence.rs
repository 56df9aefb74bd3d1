// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A machine and the calls made on it.

use crate::block::{Block, Cpu, State, Step};
use torpor_governor::NO_LATENCY_LIMIT;

/// Everything that a run depends on, apart from the governor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sequence {
    /// Shallowest first; latency and residency never fall.
    pub states: Vec<State>,
    pub cpus: Vec<Cpu>,
    /// First value of `local_clock()`.
    pub clock_ns: u64,
    pub steps: Vec<Step>,
}

impl Sequence {
    pub(crate) fn put(&self, block: &mut Block) {
        block.state_count = self.states.len() as u32;
        block.cpu_count = self.cpus.len() as u32;
        block.step_count = self.steps.len() as u32;
        block.clock_ns = self.clock_ns;
        block.states[..self.states.len()].copy_from_slice(&self.states);
        block.cpus[..self.cpus.len()].copy_from_slice(&self.cpus);
        block.steps[..self.steps.len()].copy_from_slice(&self.steps);
    }

    /// Returns the sequence without the other CPUs' steps; those CPUs stay.
    pub(crate) fn only_cpu(&self, cpu: u8) -> Sequence {
        let steps = self.steps.iter().filter(|step| step.cpu == cpu).copied().collect();
        Sequence { steps, ..self.clone() }
    }
}

/// Returns an unremarkable idle step, towards which steps are shrunk.
pub(crate) fn plain_step(cpu: u8) -> Step {
    Step {
        sleep_length_ns: 1_000_000_000,
        event_ns: 1_000_000,
        latency_req_ns: NO_LATENCY_LIMIT.0,
        residency_ns: 100_000,
        capacity: 1024,
        cpu,
        ..Step::default()
    }
}
