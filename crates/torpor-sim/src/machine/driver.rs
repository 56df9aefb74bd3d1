// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The idle driver and the hardware below it: what becomes of a state that a governor has selected.

use super::Topology;
use crate::workload::{Stream, StreamName};
use torpor_machine::platform::{Platform, Rejects};
use torpor_machine::units::Duration;

/// One a machine; what it draws it draws for each CPU and state apart, so that two governors meet the
/// same answers to the same number of attempts.
pub(super) struct Driver {
    /// `[cpu][state]`.
    states: Vec<Vec<State>>,
    rejects: bool,
}

struct State {
    rejects: Option<(Rejects, Stream)>,
}

impl Driver {
    pub(super) fn new(platform: &Platform, topology: &Topology, seed: u64) -> Driver {
        let name = StreamName::new(seed).text("rejected");
        let of_cpu = |cpu: usize| {
            let states = &platform.clusters[topology.cluster_of[cpu].0].idle_states;
            let states = states.iter().enumerate().map(|(index, state)| {
                let stream = || name.number(cpu as u64).number(index as u64).stream();
                State { rejects: state.rejects.map(|r| (r, stream())) }
            });
            states.collect::<Vec<_>>()
        };
        let states: Vec<Vec<State>> = (0..topology.cpus).map(of_cpu).collect();
        let rejects = states.iter().flatten().any(|state| state.rejects.is_some());
        Driver { states, rejects }
    }

    /// Whether there is a state that it refuses now and then.
    pub(super) fn rejects_any(&self) -> bool {
        self.rejects
    }

    /// An attempt to enter a state: its duration, if the driver refuses.
    #[inline]
    pub(super) fn rejects(&mut self, cpu: usize, state: usize) -> Option<Duration> {
        if !self.rejects {
            return None;
        }
        let (rejects, stream) = self.states[cpu][state].rejects.as_mut()?;
        (100.0 * stream.unit() < rejects.pct).then_some(rejects.time)
    }
}
