// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The energy model that placement uses (`include/linux/energy_model.h` of Linux 6.12).

use crate::cpufreq::V6_1;
use torpor_governor::Release;
use torpor_platform::Cluster;

/// Part of a CPU's capacity that is left free: `fits_capacity()`.
const MARGIN_NUMERATOR: u64 = 1280;
const SCALE: u64 = 1024;

/// The OPPs of CPUs that share a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfDomain {
    capacity: u64,
    /// Capacity at each efficient OPP, and what a unit of utilization costs there.
    states: Vec<(u64, u64)>,
}

/// Whether `util` fits a CPU of this capacity with a fifth to spare.
pub fn fits(util: u64, capacity: u64) -> bool {
    util * MARGIN_NUMERATOR < capacity * SCALE
}

/// Capacity at each OPP, and what a unit of utilization costs there; `None` if a power is not known.
fn states(cluster: &Cluster) -> Option<Vec<(u64, u64)>> {
    let fastest = u64::from(cluster.opps.last()?.freq_khz);
    let capacity = u64::from(cluster.capacity);
    let states = cluster.opps.iter().map(|opp| {
        let performance = (capacity * u64::from(opp.freq_khz) / fastest).max(1);
        let power_uw = u64::try_from(opp.active_power?.0).ok()?;
        Some((performance, 10 * power_uw / performance))
    });
    states.collect()
}

/// `EM_PERF_STATE_INEFFICIENT` of each OPP: a faster one does the same work for no more energy.
/// schedutil and the energy estimate pass over these. Without an energy model there are none.
pub fn inefficient(cluster: &Cluster, release: Release) -> Vec<bool> {
    let Some(costs) = costs(cluster, release) else { return vec![false; cluster.opps.len()] };
    let least_above = |opp: usize| costs[opp + 1..].iter().min();
    let is_inefficient = |opp: usize| least_above(opp).is_some_and(|cost| costs[opp] >= *cost);
    (0..costs.len()).map(is_inefficient).collect()
}

/// What [`inefficient`] compares. Until 6.8 it was `fmax * power / freq`: of OPPs at one voltage,
/// which cost the same, rounding decides, and so the release.
fn costs(cluster: &Cluster, release: Release) -> Option<Vec<u64>> {
    if release != V6_1 {
        return Some(states(cluster)?.into_iter().map(|(_, cost)| cost).collect());
    }
    let fastest = u64::from(cluster.opps.last()?.freq_khz);
    let costs = cluster.opps.iter().map(|opp| {
        let power_uw = u64::try_from(opp.active_power?.0).ok()?;
        Some(fastest * power_uw / u64::from(opp.freq_khz).max(1))
    });
    costs.collect()
}

impl PerfDomain {
    /// `None` if the power of an OPP is not known.
    pub fn new(cluster: &Cluster) -> Option<PerfDomain> {
        let efficient = states(cluster)?.into_iter().zip(inefficient(cluster, Release::default()));
        Some(PerfDomain {
            capacity: cluster.capacity.into(),
            states: efficient
                .filter(|(_, is_inefficient)| !is_inefficient)
                .map(|(s, _)| s)
                .collect(),
        })
    }

    /// What the domain takes (in units of its own) with `sum_util` in all and `performance` asked
    /// for by its busiest CPU, headroom included: `em_cpu_energy()`.
    pub fn energy(&self, performance: u64, sum_util: u64) -> u64 {
        let wanted = performance.min(self.capacity);
        let state = self.states.partition_point(|(performance, _)| *performance < wanted);
        let (_, cost) = self.states[state.min(self.states.len() - 1)];
        cost * sum_util
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use torpor_platform::Opp;
    use torpor_units::{CpuId, Power};

    fn cluster(opps: &[(u32, f64)]) -> Cluster {
        let opp = |&(freq_khz, mw): &(u32, f64)| Opp {
            freq_khz,
            active_power: Some(Power::from_mw(mw)),
            static_power: Power::ZERO,
        };
        Cluster {
            name: "x".into(),
            cpus: vec![CpuId(0)],
            capacity: 512,
            opps: opps.iter().map(opp).collect(),
            clock: Default::default(),
            idle_states: vec![],
            smt: torpor_platform::Smt::NONE,
        }
    }

    /// Half the speed at half the power does the same work for the same energy, only later.
    #[test]
    fn an_opp_that_saves_nothing_is_passed_over() {
        let opps = cluster(&[(500_000, 5.0), (1_000_000, 10.0), (2_000_000, 40.0)]);
        assert_eq!(inefficient(&opps, Release::default()), [true, false, false]);
        let domain = PerfDomain::new(&opps).unwrap();
        assert_eq!(domain.energy(100, 300), domain.energy(256, 300));
        let unknown = Cluster { opps: vec![Opp { active_power: None, ..opps.opps[0] }], ..opps };
        assert_eq!(inefficient(&unknown, Release::default()), [false]);
    }

    /// The RK3399's lowest OPPs have one voltage: 1416 * 27769 / 408 = 96374.8 is below
    /// 1416 * 40837 / 600 = 96375.3, and 10 * 27769 / 109 = 2547 above 10 * 40837 / 161 = 2536.
    #[test]
    fn whether_an_opp_saves_anything_can_be_the_releases_rounding() {
        let opps = [(408_000, 27.769), (600_000, 40.837), (1_416_000, 179.212)];
        let little = Cluster { capacity: 381, ..cluster(&opps) };
        assert_eq!(inefficient(&little, V6_1), [false; 3]);
        assert_eq!(inefficient(&little, Release::default()), [true, false, false]);
    }

    #[test]
    fn energy_is_that_of_the_lowest_opp_that_will_do() {
        let domain = PerfDomain::new(&cluster(&[(1_000_000, 10.0), (2_000_000, 40.0)])).unwrap();
        // 256 at 10 mW: 10 * 10000 / 256 = 390; 512 at 40 mW: 781.
        assert_eq!((domain.energy(256, 300), domain.energy(257, 300)), (390 * 300, 781 * 300));
        assert_eq!(domain.energy(2_000, 300), 781 * 300, "there is no more");
        assert!(fits(409, 512) && !fits(410, 512));
    }
}
