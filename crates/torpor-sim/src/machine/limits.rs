// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What hardware does below the kernel to keep its limits of power and of active cores.
//!
//! At every interval it looks back at the last one. Of the energy consumed in it follows the running
//! average of each limit of power, and the power that the next interval may have without moving
//! that average above the limit. The highest frequencies follow for which the last interval's work
//! would not have taken more: the same step below the highest in all clusters. A cluster's cores
//! that were active in the mean decide on its turbo.

use super::active::ActiveCores;
use super::domain::Limit;
use super::{Event, Machine, Sink};
use torpor_machine::platform::{Cluster, Platform, PowerLimit};
use torpor_machine::units::{Duration, Energy, Instant, Power};

/// The CPU in whose queue the hardware's next look waits.
const QUEUE: usize = 0;

pub(super) struct LimitsState {
    interval: Duration,
    /// Each limit of power, and its running average in mW.
    power: Vec<(PowerLimit, f64)>,
    last: Instant,
    /// What had been consumed and done at the last look, since counting began.
    energy: Energy,
    busy: Vec<Vec<Duration>>,
    active: Option<ActiveCores>,
}

impl LimitsState {
    /// Returns none for a machine without limits.
    pub(super) fn of_platform(
        platform: &Platform,
        active: Option<ActiveCores>,
    ) -> Option<LimitsState> {
        let limits = platform.limits.as_ref()?;
        let opps = |cluster: &Cluster| vec![Duration::ZERO; cluster.opps.len().max(1)];
        Some(LimitsState {
            interval: limits.interval,
            power: limits.power.iter().map(|limit| (limit.clone(), 0.0)).collect(),
            last: Instant(0),
            energy: Energy::ZERO,
            busy: platform.clusters.iter().map(opps).collect(),
            active,
        })
    }

    pub(super) fn change(&mut self, cpu: usize, state: usize, now: Instant, enters: bool) {
        if let Some(active) = &mut self.active {
            active.change(cpu, state, now, enters);
        }
    }

    /// Moves the running averages by an interval with that mean power, and returns the highest mean
    /// power of the next one, in mW.
    fn allowed_mw(&mut self, mean_mw: f64, time: Duration) -> f64 {
        let time = time.0 as f64;
        let mut allowed = f64::INFINITY;
        for (limit, average) in &mut self.power {
            let weight = time / (limit.window.0 as f64 + time);
            *average += (mean_mw - *average) * weight;
            allowed = allowed.min(*average + (limit.power.as_mw_f64() - *average) / weight);
        }
        allowed
    }
}

impl<S: Sink> Machine<'_, S> {
    pub(super) fn start_limits(&mut self) {
        if let Some(limits) = &self.limits {
            self.world.queue.push(self.world.now + limits.interval, QUEUE, Event::Limits);
        }
    }

    /// The hardware looks at its limits.
    pub(super) fn keep_limits(&mut self) {
        let Some(mut limits) = self.limits.take() else { return };
        let now = self.world.now;
        let platform = self.world.plan.platform;
        if !limits.power.is_empty() {
            let steps = self.steps_down(&mut limits);
            for (number, cluster) in platform.clusters.iter().enumerate() {
                let highest = cluster.opps.len().saturating_sub(1);
                let cap = highest.saturating_sub(steps) as u16;
                self.cap_cluster(number, Limit::Power, cap);
            }
        }
        if let Some(active) = &mut limits.active {
            for (number, cluster) in platform.clusters.iter().enumerate() {
                let cores = active.take_mean(number, now, limits.last);
                if let Some(turbo) = &cluster.turbo {
                    self.cap_cluster(number, Limit::Turbo, turbo.opp(cores));
                }
            }
        }
        limits.last = now;
        self.world.queue.push(now + limits.interval, QUEUE, Event::Limits);
        self.limits = Some(limits);
    }

    /// Runs `reset`, which resets counters: the hardware knows of no such thing.
    pub(super) fn across_reset<T>(&mut self, reset: impl FnOnce(&mut Self) -> T) -> T {
        if self.limits.is_none() {
            return reset(self);
        }
        let (energy, busy) = (self.energy_so_far(), self.busy_so_far());
        let result = reset(self);
        let (energy, busy_now) = (self.energy_so_far() - energy, self.busy_so_far());
        if let Some(limits) = &mut self.limits {
            limits.energy += energy;
            let times = busy_now.iter().flatten().zip(busy.iter().flatten());
            for (seen, (now, before)) in limits.busy.iter_mut().flatten().zip(times) {
                *seen += *now - *before;
            }
        }
        result
    }

    fn cap_cluster(&mut self, number: usize, limit: Limit, cap: u16) {
        if self.domains[number].set_cap(limit, cap, self.world.now) {
            let platform = self.world.plan.platform;
            for cpu in &platform.clusters[number].cpus {
                self.deliver_frequency(cpu.index());
            }
        }
    }

    // FIDELITY(sim-limits): hardware that predicts otherwise, and tells the kernel what it got.
    /// Returns by how many OPPs all clusters have to stay below their highest.
    fn steps_down(&mut self, limits: &mut LimitsState) -> usize {
        let time = self.world.now.since(limits.last);
        let energy = self.energy_so_far();
        let mean_mw = (energy - limits.energy).as_uj_f64() * 1e6 / time.0 as f64;
        limits.energy = energy;
        let all = self.busy_so_far();
        let before = std::mem::replace(&mut limits.busy, all);
        let allowed_mw = limits.allowed_mw(mean_mw, time);
        let clusters = &self.world.plan.platform.clusters;
        let power =
            |cluster: &Cluster, opp: usize| cluster.opps[opp].active_power.unwrap_or(Power::ZERO);
        // By cluster: how long its CPUs worked, and the power of that work.
        let mut worked = Vec::new();
        let mut rest = energy_of(mean_mw, time);
        for ((cluster, now), before) in clusters.iter().zip(&limits.busy).zip(&before) {
            let mut sum = Duration::ZERO;
            for (opp, (now, before)) in now.iter().zip(before).enumerate() {
                let busy = (*now - *before).max(Duration::ZERO);
                rest -= power(cluster, opp).over(busy);
                sum += busy;
            }
            worked.push(sum);
        }
        let at = |steps: usize| {
            let work = clusters.iter().zip(&self.domains).zip(&worked);
            let of_cluster = |((cluster, domain), worked): ((&Cluster, &super::Domain), &_)| {
                let cap = (cluster.opps.len() - 1).saturating_sub(steps);
                let opp = usize::from(domain.requested()).min(cap);
                power(cluster, opp).over(*worked)
            };
            rest + work.map(of_cluster).sum()
        };
        let most = clusters.iter().map(|cluster| cluster.opps.len() - 1).max().unwrap_or(0);
        let allowed = energy_of(allowed_mw, time);
        (0..most).find(|steps| at(*steps) <= allowed).unwrap_or(most)
    }

    /// Returns the energy of the whole machine since counting began.
    fn energy_so_far(&mut self) -> Energy {
        let now = self.world.now;
        let platform = self.world.plan.platform;
        let mut energy = self.rest.so_far(now);
        energy += platform.floor_power.over(now.since(self.world.counts_from));
        for cpu in &self.cpus {
            energy += cpu.tally.energy(&cpu.model);
            let sleep = cpu.asleep.as_ref().filter(|s| s.is_entered && !s.is_rejected);
            for (state, time) in sleep.into_iter().flat_map(|sleep| sleep.parts(now)) {
                energy += cpu.model.costs.sleep(cpu.opp, state, time);
            }
        }
        let busy = self.busy_so_far();
        for (cluster, busy) in platform.clusters.iter().zip(busy) {
            for (opp, time) in cluster.opps.iter().zip(busy) {
                energy += opp.active_power.unwrap_or(Power::ZERO).over(time);
            }
        }
        energy
    }

    /// Returns for how long the CPUs of each cluster have worked at each OPP since counting began.
    fn busy_so_far(&self) -> Vec<Vec<Duration>> {
        let now = self.world.now;
        let of_domain = |domain: &super::Domain| vec![Duration::ZERO; domain.opp_count()];
        let mut busy: Vec<Vec<Duration>> = self.domains.iter().map(of_domain).collect();
        for cpu in &self.cpus {
            let of_cluster = &mut busy[cpu.cluster];
            for (sum, time) in of_cluster.iter_mut().zip(&cpu.busy_at) {
                *sum += *time;
            }
            if cpu.task != 0 && now > cpu.from {
                of_cluster[usize::from(cpu.opp)] += now.since(cpu.from);
            }
        }
        busy
    }
}

/// Returns the energy of a power in mW.
fn energy_of(mw: f64, time: Duration) -> Energy {
    // More than any machine takes, in place of no limit.
    Energy((mw.clamp(-1e12, 1e12) * 1e3 * time.0 as f64).round() as i128)
}
