// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Clusters, cores and caches, as hardware and devices need them.

use super::CpuMask;
use torpor_machine::platform::Platform;
use torpor_machine::units::CpuId;

#[derive(Clone, Debug)]
pub struct Topology {
    /// The number of CPUs, online or not.
    pub cpus: usize,
    /// The cluster of each CPU, and its place in it.
    pub cluster_of: Vec<(usize, usize)>,
    pub online: CpuMask,
    /// The capacity of each CPU, 1024 for the biggest.
    pub capacity: Vec<u32>,
    /// Online CPUs differ in capacity (`sd_asym_cpucapacity`).
    pub is_asymmetric: bool,
    /// The other threads of each CPU's core; empty where every CPU is a core.
    pub siblings: Vec<Vec<usize>>,
    /// The speed of each CPU while one of those works, in percent.
    pub smt_speed_pct: Vec<u32>,
}

impl Topology {
    /// `online` lists the CPUs that are online; all by default.
    pub fn new(platform: &Platform, online: Option<&[CpuId]>) -> Topology {
        let cpus = platform.cpu_count();
        let mut cluster_of = vec![(0, 0); cpus];
        for (index, cluster) in platform.clusters.iter().enumerate() {
            for (place, cpu) in cluster.cpus.iter().enumerate() {
                cluster_of[cpu.index()] = (index, place);
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
            online,
            cluster_of,
            capacity,
            is_asymmetric,
        }
    }

    /// Whether two CPUs share the last cache: on asymmetric machines all do, as on phones; elsewhere
    /// those of a cluster.
    pub fn shares_cache(&self, a: usize, b: usize) -> bool {
        self.is_asymmetric || self.cluster_of[a].0 == self.cluster_of[b].0
    }

    /// Returns the speed of a CPU while other threads of its core work, as `works` says.
    #[inline]
    pub fn shared_speed(&self, cpu: usize, speed: i64, works: impl Fn(usize) -> bool) -> i64 {
        match self.siblings.get(cpu) {
            Some(siblings) if siblings.iter().any(|other| works(*other)) => {
                (speed * i64::from(self.smt_speed_pct[cpu]) / 100).max(1)
            }
            _ => speed,
        }
    }
}
