// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Entry and exit latencies that vary from sleep to sleep, if measurements show it.

use crate::random::{Dist, Stream, StreamName};
use torpor_machine::platform::{MeasuredLatency, Platform};
use torpor_machine::toml::Distribution;
use torpor_machine::units::Duration;

/// Latencies are drawn per CPU and state, so that every governor gets the same sequence of them.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    /// `[cpu][state]`.
    states: Vec<Vec<Drawn>>,
}

/// One state's draws; none if the latency is constant.
#[derive(Clone, Debug)]
struct Drawn {
    entry: Option<(Dist, Stream)>,
    exit: Option<(Dist, Stream)>,
}

impl Latencies {
    /// Returns none for a machine whose latencies are all constant.
    pub(super) fn of_platform(platform: &Platform, seed: u64) -> Option<Latencies> {
        let varies = |measured: &MeasuredLatency| {
            [&measured.entry, &measured.exit].into_iter().flatten().any(is_drawn)
        };
        platform
            .clusters
            .iter()
            .flat_map(|cluster| &cluster.idle_states)
            .find(|state| varies(&state.measured))?;
        let name = StreamName::new(seed).text("idle latency");
        let mut states = vec![Vec::new(); platform.cpu_count()];
        for cluster in &platform.clusters {
            for cpu in cluster.cpus.iter().map(|cpu| cpu.index()) {
                let of_cpu = name.number(cpu as u64);
                let measured = cluster.idle_states.iter().map(|state| &state.measured);
                let drawn = measured.enumerate().map(|(index, measured)| {
                    let of_state = of_cpu.number(index as u64);
                    let draw = |of: &Option<Distribution>, part| {
                        let drawn = of.as_ref().filter(|of| is_drawn(of))?;
                        Some((Dist::from(drawn), of_state.text(part).stream()))
                    };
                    Drawn {
                        entry: draw(&measured.entry, "entry"),
                        exit: draw(&measured.exit, "exit"),
                    }
                });
                states[cpu] = drawn.collect();
            }
        }
        Some(Latencies { states })
    }

    /// Draws the latencies of a sleep; `mean` has the state's entry and exit latency.
    pub(super) fn draw(
        &mut self,
        cpu: usize,
        state: usize,
        mean: (Duration, Duration),
    ) -> (Duration, Duration) {
        let Drawn { entry, exit } = &mut self.states[cpu][state];
        let draw = |of: &mut Option<(Dist, Stream)>, mean| match of {
            Some((dist, stream)) => dist.draw(stream),
            None => mean,
        };
        (draw(entry, mean.0), draw(exit, mean.1))
    }
}

fn is_drawn(distribution: &Distribution) -> bool {
    !matches!(distribution, Distribution::Constant(_))
}
