// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Who shares what with whom.

use super::energy::PerfDomain;
use super::mask::CpuMask;
use torpor_platform::Platform;
use torpor_units::CpuId;

/// The machine's CPUs as placement sees them. Of those that are offline it has the places alone:
/// no mask holds them.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Online or not.
    pub cpus: usize,
    /// Of each CPU: its cluster, and its place in it.
    pub cluster_of: Vec<(usize, usize)>,
    /// CPUs of each cluster.
    pub clusters: Vec<Vec<usize>>,
    pub cluster_masks: Vec<CpuMask>,
    pub online: CpuMask,
    pub online_count: usize,
    /// Of each CPU, 1024 for the biggest.
    pub capacity: Vec<u32>,
    /// Online CPUs differ in capacity (`sd_asym_cpucapacity`).
    pub is_asymmetric: bool,
    /// The other threads of each CPU's core; empty where all CPUs are cores.
    pub siblings: Vec<Vec<usize>>,
    /// Of each CPU while one of those works, in percent of its speed.
    pub smt_speed_pct: Vec<u32>,
    /// Clusters by rising capacity.
    pub by_capacity: Vec<usize>,
    /// One a cluster, if the platform tells the power of every OPP: without, no energy-aware
    /// placement.
    pub energy_model: Option<Vec<PerfDomain>>,
}

impl Topology {
    /// With these CPUs online, or all.
    pub fn new(platform: &Platform, online: Option<&[CpuId]>) -> Topology {
        let cpus = platform.cpu_count();
        let clusters: Vec<Vec<usize>> = platform
            .clusters
            .iter()
            .map(|c| c.cpus.iter().map(|cpu| cpu.index()).collect())
            .collect();
        let mut cluster_of = vec![(0, 0); cpus];
        for (index, members) in clusters.iter().enumerate() {
            for (place, &cpu) in members.iter().enumerate() {
                cluster_of[cpu] = (index, place);
            }
        }
        let capacity: Vec<u32> =
            cluster_of.iter().map(|(cluster, _)| platform.clusters[*cluster].capacity).collect();
        let online = match online {
            Some(online) => CpuMask::of(cpus, online.iter().map(|cpu| cpu.index())),
            None => CpuMask::of(cpus, 0..cpus),
        };
        let capacities: Vec<u32> = online.iter().map(|cpu| capacity[cpu]).collect();
        let is_asymmetric = capacities.iter().any(|c| *c != capacities[0]);
        let online_of =
            |c: &Vec<usize>| CpuMask::of(cpus, c.iter().copied().filter(|&c| online.contains(c)));
        let mut by_capacity: Vec<usize> = (0..clusters.len()).collect();
        by_capacity.sort_by_key(|c| platform.clusters[*c].capacity);
        let domains: Option<Vec<PerfDomain>> =
            platform.clusters.iter().map(PerfDomain::new).collect();
        let core_of = platform.core_of();
        let siblings = |cpu: usize| {
            let threads = (0..cpus).filter(|other| core_of[*other] == core_of[cpu]);
            threads.filter(|other| *other != cpu).collect()
        };
        let has_smt = platform.clusters.iter().any(|c| c.smt.threads > 1);
        let speed_pct = |(cluster, _): &(usize, usize)| platform.clusters[*cluster].smt.speed_pct;
        Topology {
            cpus,
            siblings: (0..if has_smt { cpus } else { 0 }).map(siblings).collect(),
            smt_speed_pct: cluster_of.iter().map(speed_pct).collect(),
            cluster_masks: clusters.iter().map(online_of).collect(),
            online_count: capacities.len(),
            online,
            cluster_of,
            clusters,
            capacity,
            is_asymmetric,
            by_capacity,
            energy_model: domains.filter(|_| is_asymmetric),
        }
    }

    pub fn mask(&self, cpus: &[CpuId]) -> CpuMask {
        CpuMask::of(self.cpus, cpus.iter().map(|cpu| cpu.index()))
    }

    /// CPUs that share the last cache: on asymmetric machines all, as phones have it, else those
    /// of a cluster.
    pub fn shares_cache(&self, a: usize, b: usize) -> bool {
        self.is_asymmetric || self.cluster_of[a].0 == self.cluster_of[b].0
    }

    /// Of a CPU, while another thread of its core works as `works` has it: its part of its speed.
    #[inline]
    pub fn shared_speed(&self, cpu: usize, speed: i64, works: impl Fn(usize) -> bool) -> i64 {
        match self.siblings.get(cpu) {
            Some(siblings) if siblings.iter().any(|other| works(*other)) => {
                (speed * i64::from(self.smt_speed_pct[cpu]) / 100).max(1)
            }
            _ => speed,
        }
    }

    pub fn cache_mask(&self, cpu: usize) -> &CpuMask {
        if self.is_asymmetric { &self.online } else { &self.cluster_masks[self.cluster_of[cpu].0] }
    }
}
