// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Cost of a sleep: `power · time + overhead`, by the break-even definition.

use torpor_machine::platform::{Cluster, IdleState, StatePower};
use torpor_machine::units::{Duration, Energy, Power};
use torpor_result::RELATIVE_UNIT;

/// Power and fixed overhead of one idle state at one OPP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StateCost {
    power: Power,
    /// Energy of entry and exit: the platform's, or chosen so that the state breaks even with the
    /// next shallower one exactly at its target residency.
    overhead: Energy,
}

/// Cost of the idle states of one cluster's CPUs, for every OPP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostTable {
    states: usize,
    /// `[opp][state]`, flat.
    costs: Vec<StateCost>,
    /// Power while the CPU handles a tick, by OPP.
    awake: Vec<Power>,
    known: bool,
}

impl CostTable {
    /// Builds the table. If the machine's power is not `known`, powers fall by equal steps of
    /// [`RELATIVE_UNIT`] from state to state. By the break-even definition the cheapest state for a
    /// sleep depends only on the target residencies, not on the powers, so choices stay meaningful
    /// and energies are relative to that unit; see [`CostTable::is_known`].
    ///
    /// Only reachable states share these steps: those that are enabled and whose target residency
    /// is at most `longest`, the longest time that a CPU was idle. A state beyond them has the
    /// power of the deepest of them, so it changes no figure.
    pub fn new(cluster: &Cluster, known: bool, longest: Duration) -> CostTable {
        let states = &cluster.idle_states;
        let is_had = |s: &IdleState| !s.is_disabled && s.target_residency <= longest;
        let had: Vec<usize> = states
            .iter()
            .enumerate()
            .filter(|(index, state)| *index == 0 || is_had(state))
            .map(|(index, _)| index)
            .collect();
        let steps_above = |index: usize| had.iter().filter(|&&h| h <= index).count() - 1;
        let opps = cluster.opps.len().max(1);
        let mut costs = Vec::with_capacity(opps * states.len());
        let mut awake = Vec::with_capacity(opps);
        for opp in 0..opps {
            let mut overhead = Energy::ZERO;
            let mut shallower: Option<Power> = None;
            for (index, state) in states.iter().enumerate() {
                let power = if known {
                    power_at(state, opp)
                } else {
                    stand_in(had.len(), steps_above(index))
                };
                if let Some(above) = shallower {
                    overhead += (above - power).over(state.break_even);
                }
                // The next deeper state breaks even with this one, whatever that takes.
                overhead = state.energy_per_entry.filter(|_| known).unwrap_or(overhead);
                costs.push(StateCost { power, overhead });
                shallower = Some(power);
            }
            let busy = cluster.opps.get(opp).and_then(|o| o.active_power);
            // Without a measured busy power, the shallowest state's is used: a lower bound for a
            // CPU that handles a tick.
            awake.push(busy.filter(|_| known).unwrap_or(costs[opp * states.len()].power));
        }
        CostTable { states: states.len(), costs, awake, known }
    }

    /// Returns true if the energies are the machine's, not relative ones.
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// Returns the energy of one sleep that lasted `residency`, entry and exit included.
    #[inline]
    pub fn sleep(&self, opp: u16, state: usize, residency: Duration) -> Energy {
        self.sleeps(opp, state, 1, residency)
    }

    /// Returns the energy of `count` sleeps that lasted `time` together.
    #[inline]
    pub fn sleeps(&self, opp: u16, state: usize, count: u64, time: Duration) -> Energy {
        let cost = &self.costs[opp as usize * self.states + state];
        cost.power.over(time) + Energy(cost.overhead.0 * i128::from(count))
    }

    /// Returns the energy of handling ticks for `time`.
    #[inline]
    pub fn awake(&self, opp: u16, time: Duration) -> Energy {
        self.awake[opp as usize].over(time)
    }

    pub fn opp_count(&self) -> usize {
        self.awake.len()
    }

    #[inline]
    pub fn power(&self, opp: u16, state: usize) -> Power {
        self.costs[opp as usize * self.states + state].power
    }

    /// Returns the least power of any state or tick.
    pub fn floor_power(&self, opp: u16) -> Power {
        self.row(opp).chain([self.awake[opp as usize]]).min().unwrap_or(Power::ZERO)
    }

    /// Returns the highest power of any state or tick.
    pub fn peak_power(&self, opp: u16) -> Power {
        self.row(opp).chain([self.awake[opp as usize]]).max().unwrap_or(Power::ZERO)
    }

    /// Returns true if entering and leaving the state costs nothing beyond its power, at every OPP.
    pub fn is_free_to_enter(&self, state: usize) -> bool {
        self.costs.chunks(self.states).all(|row| row[state].overhead <= Energy::ZERO)
    }

    fn row(&self, opp: u16) -> impl Iterator<Item = Power> {
        self.costs[opp as usize * self.states..][..self.states].iter().map(|c| c.power)
    }
}

fn power_at(state: &IdleState, opp: usize) -> Power {
    match &state.power {
        StatePower::Unknown => Power::ZERO,
        StatePower::Constant(power) => *power,
        StatePower::PerOpp(powers) => powers[opp],
    }
}

fn stand_in(states: usize, index: usize) -> Power {
    Power(RELATIVE_UNIT.0 * (states - index) as i64 / states as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn state_pays_off_exactly_at_its_target_residency() {
        // 10 mW against 0 mW with 2 ms: the overhead is 20 uJ.
        let table = CostTable::new(&testing::two_state_cluster(), true, Duration::MAX);
        let at = Duration::from_us(2_000);
        assert_eq!(table.sleep(0, 0, at), table.sleep(0, 1, at));
        assert_eq!(table.sleep(0, 1, at).as_uj_f64(), 20.0);
        let sooner = Duration::from_us(1_999);
        assert!(table.sleep(0, 0, sooner) < table.sleep(0, 1, sooner));
        let later = Duration::from_us(2_001);
        assert!(table.sleep(0, 0, later) > table.sleep(0, 1, later));
    }

    #[test]
    fn without_power_the_break_even_points_stay() {
        let mut cluster = testing::two_state_cluster();
        for state in &mut cluster.idle_states {
            state.power = StatePower::Unknown;
        }
        let table = CostTable::new(&cluster, false, Duration::MAX);
        assert!(!table.is_known());
        let at = Duration::from_us(2_000);
        assert_eq!(table.sleep(0, 0, at), table.sleep(0, 1, at));
        assert_eq!(table.power(0, 0), RELATIVE_UNIT);
    }

    #[test]
    fn a_state_beyond_reach_moves_no_relative_energy() {
        let mut cluster = testing::two_state_cluster();
        for state in &mut cluster.idle_states {
            state.power = StatePower::Unknown;
        }
        let longest = Duration::from_us(50_000);
        let without = CostTable::new(&cluster, false, longest);
        // As `s2idle` of an MT8196: 4,294 s.
        let mut never = cluster.idle_states[1].clone();
        never.target_residency = Duration::from_us(4_294_967_295);
        never.break_even = never.target_residency;
        cluster.idle_states.push(never);
        let with = CostTable::new(&cluster, false, longest);
        let slept = Duration::from_us(20_000);
        for state in [0, 1] {
            assert_eq!(with.sleep(0, state, slept), without.sleep(0, state, slept));
        }
        assert_eq!(with.sleep(0, 2, slept), with.sleep(0, 1, slept));
        assert!(CostTable::new(&cluster, false, Duration::MAX).power(0, 1) > with.power(0, 1));
    }

    #[test]
    fn measured_transition_replaces_the_implied_one() {
        // 10 mW against 0 mW: a 35 uJ round trip pays off after 3.5 ms, whatever the target
        // residency.
        let mut cluster = testing::two_state_cluster();
        cluster.idle_states[1].energy_per_entry = Some(Energy::from_uj(35.0));
        let table = CostTable::new(&cluster, true, Duration::MAX);
        let at = Duration::from_us(3_500);
        assert_eq!(table.sleep(0, 0, at), table.sleep(0, 1, at));
        assert_eq!(table.sleep(0, 1, Duration::ZERO).as_uj_f64(), 35.0);
    }
}
