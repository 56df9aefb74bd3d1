// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The energy model that placement goes by (`include/linux/energy_model.h` of Linux 6.12).

use torpor_platform::Cluster;

/// Part of a CPU's capacity that is left free: `fits_capacity()`.
const MARGIN_NUMERATOR: u64 = 1280;
const SCALE: u64 = 1024;

/// The OPPs of CPUs that share a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfDomain {
    capacity: u64,
    /// Capacity at each OPP, and what a unit of utilization costs there.
    states: Vec<(u64, u64)>,
}

/// Whether `util` fits a CPU of this capacity with a fifth to spare.
pub fn fits(util: u64, capacity: u64) -> bool {
    util * MARGIN_NUMERATOR < capacity * SCALE
}

impl PerfDomain {
    /// `None` if the power of an OPP is not known.
    pub fn new(cluster: &Cluster) -> Option<PerfDomain> {
        let fastest = u64::from(cluster.opps.last()?.freq_khz);
        let capacity = u64::from(cluster.capacity);
        let states = cluster.opps.iter().map(|opp| {
            let performance = (capacity * u64::from(opp.freq_khz) / fastest).max(1);
            let power_uw = u64::try_from(opp.active_power?.0).ok()?;
            Some((performance, 10 * power_uw / performance))
        });
        Some(PerfDomain { capacity, states: states.collect::<Option<_>>()? })
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

    #[test]
    fn energy_is_that_of_the_lowest_opp_that_will_do() {
        let opp = |freq_khz, mw| Opp {
            freq_khz,
            active_power: Some(Power::from_mw(mw)),
            static_power: Power::ZERO,
        };
        let cluster = Cluster {
            name: "x".into(),
            cpus: vec![CpuId(0)],
            capacity: 512,
            opps: vec![opp(1_000_000, 10.0), opp(2_000_000, 40.0)],
            clock: Default::default(),
            idle_states: vec![],
        };
        let domain = PerfDomain::new(&cluster).unwrap();
        // 256 at 10 mW: 10 * 10000 / 256 = 390; 512 at 40 mW: 781.
        assert_eq!((domain.energy(256, 300), domain.energy(257, 300)), (390 * 300, 781 * 300));
        assert_eq!(domain.energy(2_000, 300), 781 * 300, "there is no more");
        assert!(fits(409, 512) && !fits(410, 512));
    }
}
