// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The idle driver, which may reject a selected state.

use super::Topology;
use crate::random::{Stream, StreamName};
use torpor_machine::platform::{Platform, Rejects};
use torpor_machine::units::Duration;

/// Rejections are drawn per CPU and state, so that every governor gets the same sequence of them.
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

    /// Whether any state may be rejected.
    pub(super) fn rejects_any(&self) -> bool {
        self.rejects
    }

    /// Returns the duration of an attempt to enter a state if the driver rejects it.
    #[inline]
    pub(super) fn rejects(&mut self, cpu: usize, state: usize) -> Option<Duration> {
        if !self.rejects {
            return None;
        }
        let (rejects, stream) = self.states[cpu][state].rejects.as_mut()?;
        (100.0 * stream.unit() < rejects.pct).then_some(rejects.time)
    }
}
