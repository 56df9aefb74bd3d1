// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Thermal zones: what clusters consume heats them, and the kernel's `step_wise` governor limits
//! the clusters' frequencies for it (`drivers/thermal/gov_step_wise.c` of Linux 6.12).
//!
//! FIDELITY(sim-heat): a zone is one resistance and one capacity, and neither power nor speed
//! depends on its temperature.

use super::cpu::Mode;
use super::events::{EventSource, Listed};
use super::{Machine, Plan, Sink};
use crate::error::Halt;
use serde::{Deserialize, Serialize};
use torpor_engine::policy::Policy;
use torpor_platform::{ThermalZone, Trip};
use torpor_units::{Duration, Energy, Instant};

/// `THERMAL_TEMP_INVALID`: of a zone that has not been looked at.
const NEVER_SEEN_MC: i64 = -274_000;

/// Looks at thermal zones, as sources of events.
pub(super) struct Zones;

/// What a thermal zone came to in a run. Temperatures are in thousandths of a degree Celsius.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ZoneCounted {
    pub mean_mc: f64,
    pub max_mc: f64,
    pub end_mc: f64,
    /// Time with the frequency of one of its clusters limited.
    pub limited: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trend {
    Raising,
    Stable,
    Dropping,
}

/// A trip, and what it asks of a cluster: `struct thermal_instance`.
#[derive(Clone, Debug)]
struct Watched {
    trip: Trip,
    is_crossed: bool,
    is_initialized: bool,
    /// By cluster of the zone; none asks for nothing.
    targets: Vec<Option<u16>>,
}

pub(super) struct Zone {
    trips: Vec<Watched>,
    temperature_mc: f64,
    last_mc: i64,
    at: Instant,
    energy: Energy,
    integral_mc_ns: f64,
    max_mc: f64,
    limited: Duration,
}

/// `get_target_state()`: the cooling state that a trip asks for, from 0 to `upper`.
fn target_state(
    old: Option<u16>,
    is_initialized: bool,
    current: u16,
    upper: u16,
    trend: Trend,
    throttles: bool,
) -> Option<u16> {
    match (is_initialized, throttles, trend) {
        (false, true, _) | (true, true, Trend::Raising) => Some((current + 1).min(upper)),
        (false, false, _) => None,
        (true, false, Trend::Dropping) if current == 0 => None,
        (true, false, Trend::Dropping) => Some((current - 1).min(upper)),
        _ => old,
    }
}

impl Zone {
    pub(super) fn new(of: &ThermalZone) -> Zone {
        let watched = |trip: &Trip| Watched {
            trip: *trip,
            is_crossed: false,
            is_initialized: false,
            targets: vec![None; of.clusters.len()],
        };
        Zone {
            trips: of.trips.iter().map(watched).collect(),
            temperature_mc: of.initial_mc as f64,
            last_mc: NEVER_SEEN_MC,
            at: Instant(0),
            energy: Energy::ZERO,
            integral_mc_ns: 0.0,
            max_mc: of.initial_mc as f64,
            limited: Duration::ZERO,
        }
    }

    /// The zone has been heated by what is consumed since the last call: exactly, as far as that
    /// came evenly.
    fn heat(&mut self, of: &ThermalZone, energy: Energy, now: Instant) {
        let time_ns = now.since(self.at).0 as f64;
        if time_ns <= 0.0 {
            return;
        }
        let power_uw = (energy - self.energy).0 as f64 / time_ns;
        let end_mc = of.ambient_mc as f64 + of.resistance_c_per_w * power_uw / 1e3;
        let constant_ns = of.resistance_c_per_w * of.capacity_j_per_c * 1e9;
        let decay = libm::exp(-time_ns / constant_ns);
        let above = self.temperature_mc - end_mc;
        self.integral_mc_ns += end_mc * time_ns + above * constant_ns * (1.0 - decay);
        self.temperature_mc = end_mc + above * decay;
        self.max_mc = self.max_mc.max(self.temperature_mc);
        (self.at, self.energy) = (now, energy);
    }

    /// `step_wise_manage()`; `current` and `upper` are cooling states of its clusters.
    fn step(&mut self, current: &[u16], upper: &[u16]) {
        let now_mc = libm::round(self.temperature_mc) as i64;
        let trend = match now_mc.cmp(&self.last_mc) {
            std::cmp::Ordering::Greater => Trend::Raising,
            std::cmp::Ordering::Equal => Trend::Stable,
            std::cmp::Ordering::Less => Trend::Dropping,
        };
        self.last_mc = now_mc;
        for watched in &mut self.trips {
            let Trip { temperature_mc, hysteresis_mc } = watched.trip;
            let below = if watched.is_crossed { hysteresis_mc } else { 0 };
            watched.is_crossed = now_mc >= temperature_mc - below;
            let cooled = watched.targets.iter_mut().zip(current.iter().zip(upper));
            for (target, (&current, &upper)) in cooled {
                let (was, is_over) = (watched.is_initialized, watched.is_crossed);
                *target = target_state(*target, was, current, upper, trend, is_over);
            }
            let asks = watched.targets.iter().any(Option::is_some);
            watched.is_initialized |= asks;
        }
    }

    fn next_look(&self, of: &ThermalZone) -> Instant {
        let is_passive = self.trips.iter().any(|watched| watched.is_crossed);
        self.at + if is_passive { of.polling_delay_passive } else { of.polling_delay }
    }

    pub(super) fn close(self) -> ZoneCounted {
        ZoneCounted {
            mean_mc: self.integral_mc_ns / (self.at.0 as f64).max(1.0),
            max_mc: self.max_mc,
            end_mc: self.temperature_mc,
            limited: self.limited,
        }
    }
}

impl<P: Policy, S: Sink> EventSource<Machine<'_, P, S>> for Zones {
    fn count(plan: &Plan<'_>) -> usize {
        plan.platform.thermal_zones.len()
    }

    fn start(machine: &mut Machine<'_, P, S>, zone: usize) -> Result<(), Halt> {
        Zones::happen(machine, zone)
    }

    fn happen(machine: &mut Machine<'_, P, S>, zone: usize) -> Result<(), Halt> {
        machine.look_at(zone);
        Ok(())
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    fn look_at(&mut self, number: usize) {
        self.heat_up(number);
        let platform = self.world.plan.platform;
        let of = &platform.thermal_zones[number];
        let state_of = |cluster: &usize| self.domains[*cluster].cooling_state();
        let current: Vec<u16> = of.clusters.iter().map(state_of).collect();
        let deepest = |cluster: &usize| self.domains[*cluster].opp_count() as u16 - 1;
        let upper: Vec<u16> = of.clusters.iter().map(deepest).collect();
        self.zones[number].step(&current, &upper);
        for &cluster in &of.clusters {
            // A cooling device does what the most demanding of its trips asks for.
            let asked = self.zones.iter().zip(&platform.thermal_zones).flat_map(|(zone, of)| {
                let place = of.clusters.iter().position(|other| *other == cluster);
                zone.trips.iter().filter_map(move |watched| watched.targets[place?])
            });
            let state = asked.max().unwrap_or(0);
            self.cool(cluster, state);
        }
        let at = self.zones[number].next_look(of);
        self.world.agenda.set(Zones::nth(number), at);
    }

    /// Up to now.
    pub(super) fn heat_up(&mut self, number: usize) {
        let now = self.world.now;
        let of = &self.world.plan.platform.thermal_zones[number];
        let mut energy = Energy::ZERO;
        for &cluster in &of.clusters {
            energy += self.consumed(cluster);
        }
        let is_limited = of.clusters.iter().any(|c| self.domains[*c].cooling_state() > 0);
        let zone = &mut self.zones[number];
        if is_limited {
            zone.limited += now.since(zone.at);
        }
        zone.heat(of, energy, now);
    }

    /// By a cluster since the beginning; sleeps count when they are over.
    fn consumed(&mut self, cluster: usize) -> Energy {
        let (now, plan) = (self.world.now, self.world.plan);
        let mut energy = self.rest.energy(cluster, now);
        for &number in &plan.topology.clusters[cluster] {
            self.account(number);
            let cpu = &self.cpus[number];
            self.busy[number].settle(cpu, now);
            energy += cpu.idle.energy();
            let opps = self.busy[number].by_opp.iter().zip(&plan.platform.clusters[cluster].opps);
            for (time, opp) in opps {
                energy += opp.active_power.map_or(Energy::ZERO, |power| power.over(*time));
            }
            if cpu.mode == Mode::Running && cpu.running.is_some() {
                self.plan_ahead(number);
            }
        }
        energy
    }

    /// `cpufreq_set_cur_state()`: each state takes the highest OPP off that is left, and as much of
    /// the capacity (`cpufreq_update_pressure()`).
    fn cool(&mut self, cluster: usize, state: u16) {
        if state == self.domains[cluster].cooling_state() {
            return;
        }
        let share = self.domains[cluster].limit(state);
        for &number in &self.world.plan.topology.clusters[cluster] {
            let cpu = &mut self.cpus[number];
            cpu.available = share.of(cpu.capacity);
            self.publish_util(number);
        }
        self.approach(cluster);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone() -> ThermalZone {
        ThermalZone {
            name: "soc".to_owned(),
            clusters: vec![0],
            resistance_c_per_w: 10.0,
            capacity_j_per_c: 0.5,
            ambient_mc: 25_000,
            initial_mc: 25_000,
            polling_delay_passive: Duration(100_000_000),
            polling_delay: Duration(1_000_000_000),
            trips: vec![Trip { temperature_mc: 50_000, hysteresis_mc: 2_000 }],
        }
    }

    /// 3 W over 10 K/W: 30 K more in the end, 1 - 1/e of it after 5 s, however often one looks.
    #[test]
    fn a_step_of_power_heats_as_one_resistance_and_one_capacity_do() {
        let of = zone();
        for steps in [1, 7, 500] {
            let mut zone = Zone::new(&of);
            for step in 1..=steps {
                let at = Instant(5_000_000_000 * step / steps);
                zone.heat(&of, Energy(3_000_000 * i128::from(at.0)), at);
            }
            let risen = 30_000.0 * (1.0 - (-1.0_f64).exp());
            assert!((zone.temperature_mc - 25_000.0 - risen).abs() < 1e-3, "{steps}");
            // The integral of 1 - e^-t from 0 to 1 is 1/e.
            let mean = 25_000.0 + 30_000.0 * (-1.0_f64).exp();
            assert!((zone.close().mean_mc - mean).abs() < 1e-3, "{steps}");
        }
    }

    /// Each case is one of the kernel's rule, in its comment's order: above the trip and raising,
    /// dropping, stable; below it the same. The first look differs.
    #[test]
    fn steps_are_those_of_the_kernel() {
        use Trend::{Dropping, Raising, Stable};
        let next = |current, trend, throttles| {
            target_state(Some(current), true, current, 3, trend, throttles)
        };
        assert_eq!(next(1, Raising, true), Some(2));
        assert_eq!(next(3, Raising, true), Some(3));
        assert_eq!(next(1, Dropping, true), Some(1));
        assert_eq!(next(1, Stable, true), Some(1));
        assert_eq!(next(2, Raising, false), Some(2));
        assert_eq!(next(2, Stable, false), Some(2));
        assert_eq!(next(2, Dropping, false), Some(1));
        assert_eq!(next(1, Dropping, false), Some(0));
        assert_eq!(next(0, Dropping, false), None);
        assert_eq!(target_state(None, false, 0, 3, Stable, true), Some(1));
        assert_eq!(target_state(None, false, 0, 3, Raising, false), None);
    }

    /// Crossed at 50 degrees, it throttles on until 48, though only while the temperature rises.
    #[test]
    fn a_trip_is_over_below_its_hysteresis() {
        let mut zone = Zone::new(&zone());
        let mut state = 0;
        let mut look = |celsius: f64| {
            zone.temperature_mc = celsius * 1e3;
            zone.step(&[state], &[3]);
            state = zone.trips[0].targets[0].unwrap_or(0);
            state
        };
        let states: Vec<u16> = [49.9, 50.0, 50.1, 49.0, 49.5, 48.0, 47.9, 47.9, 47.0, 46.0, 45.0]
            .into_iter()
            .map(&mut look)
            .collect();
        assert_eq!(states, [0, 1, 2, 2, 3, 3, 2, 2, 1, 0, 0]);
    }
}
