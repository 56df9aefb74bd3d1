// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Cores that are active: neither of their threads is in an idle state as deep as the cluster's
//! turbo requires.

use super::Topology;
use torpor_machine::platform::Platform;
use torpor_machine::units::{Duration, Instant};

/// The cores of a cluster whose highest frequency depends on them.
struct Cores {
    inactive_from: usize,
    threads: usize,
    /// Threads of each core in such a state.
    inside: Vec<usize>,
    active: usize,
    since: Instant,
    /// Sum of the time that each core was active.
    time: Duration,
}

pub(super) struct ActiveCores {
    /// By cluster; none where all frequencies are always allowed.
    clusters: Vec<Option<Cores>>,
    /// Cluster of each CPU, and its core there.
    place: Vec<(usize, usize)>,
}

impl ActiveCores {
    /// Returns none for a machine whose frequencies do not depend on active cores.
    pub(super) fn of_platform(platform: &Platform, topology: &Topology) -> Option<ActiveCores> {
        platform.clusters.iter().find(|cluster| cluster.turbo.is_some())?;
        let place = topology.cluster_of.iter().map(|&(cluster, nth)| {
            let smt = platform.clusters[cluster].smt;
            (cluster, smt.core_of(nth))
        });
        let place: Vec<(usize, usize)> = place.collect();
        let clusters = platform.clusters.iter().map(|cluster| {
            let turbo = cluster.turbo.as_ref()?;
            let cores = cluster.cpus.len() / cluster.smt.threads;
            Some(Cores {
                inactive_from: turbo.inactive_from,
                threads: cluster.smt.threads,
                inside: vec![0; cores],
                active: cores,
                since: Instant(0),
                time: Duration::ZERO,
            })
        });
        let mut cores = ActiveCores { clusters: clusters.collect(), place };
        let off = (0..topology.cpus).filter(|cpu| !topology.online.contains(*cpu));
        off.for_each(|cpu| cores.change(cpu, usize::MAX, Instant(0), true));
        Some(cores)
    }

    /// A CPU's hardware enters or leaves a state.
    pub(super) fn change(&mut self, cpu: usize, state: usize, now: Instant, enters: bool) {
        let (cluster, core) = self.place[cpu];
        let Some(cores) = &mut self.clusters[cluster] else { return };
        if state < cores.inactive_from {
            return;
        }
        let was_inactive = cores.inside[core] == cores.threads;
        cores.inside[core] = if enters { cores.inside[core] + 1 } else { cores.inside[core] - 1 };
        let is_inactive = cores.inside[core] == cores.threads;
        if was_inactive != is_inactive {
            cores.pass(now);
            cores.active = if is_inactive { cores.active - 1 } else { cores.active + 1 };
        }
    }

    /// Returns the mean number of a cluster's active cores since the last call, to the nearest.
    pub(super) fn take_mean(&mut self, cluster: usize, now: Instant, since: Instant) -> usize {
        let Some(cores) = &mut self.clusters[cluster] else { return 0 };
        cores.pass(now);
        let time = std::mem::replace(&mut cores.time, Duration::ZERO);
        let span = now.since(since).0.max(1);
        ((time.0 + span / 2) / span) as usize
    }
}

impl Cores {
    fn pass(&mut self, now: Instant) {
        self.time += Duration(now.since(self.since).0 * self.active as i64);
        self.since = now;
    }
}
