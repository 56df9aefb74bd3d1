// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Frequencies: who asks for one, and what happens when it changes.
//!
//! FIDELITY(sim-schedutil): of `effective_cpu_util()` there is the fair class alone; interrupts count
//! as the tasks' time.

use super::boost::Arrival;
use super::cpu::{Cpu, Mode};
use super::events::{EventSource, Listed};
use super::task::{FULL_SPEED, State};
use super::{Machine, Plan, Sink};
use crate::cpufreq::{Cpufreq, V6_1};
use crate::error::Halt;
use crate::sched::{Clamp, Topology, inefficient};
use torpor_engine::policy::Policy;
use torpor_governor::{
    CpufreqCpu, CpufreqInstance, CpufreqPolicy, CpufreqSetup, FreqDomain, FreqOpp, GovernorError,
    Release,
};
use torpor_platform::{Cluster, Platform};
use torpor_units::{CpuId, Duration, Instant};

/// Utilization and frequency scales: all of it.
const SCALE: u64 = 1024;

/// Clocks on their way to another frequency, as sources of events.
pub(super) struct Clocks;

/// CPUs that share a clock: a platform's cluster.
pub(super) struct Domain {
    /// Of the OPPs, rising; empty where they are not known.
    pub freqs_khz: Vec<u32>,
    pub opp: u16,
    /// The OPP that the clock is on its way to.
    coming: Option<u16>,
    /// What was decided last.
    wanted: u16,
    /// The highest OPP that heat leaves.
    highest: u16,
    latency: Duration,
    since: Instant,
    time_at: Vec<Duration>,
    transitions: u64,
}

/// A part of a capacity.
#[derive(Clone, Copy)]
pub(super) struct Share {
    left: u64,
    of: u64,
}

impl Share {
    pub(super) fn of(self, capacity: u64) -> u64 {
        capacity * self.left / self.of
    }
}

/// A frequency policy's private image for one run.
pub(crate) fn govern(
    policy: &CpufreqPolicy,
    platform: &Platform,
    topology: &Topology,
    release: Release,
) -> Result<CpufreqInstance, GovernorError> {
    let ids: Vec<Vec<CpuId>> = topology
        .clusters
        .iter()
        .map(|cpus| cpus.iter().map(|&cpu| CpuId(cpu as u32)).collect())
        .collect();
    let opps = platform.clusters.iter().map(|cluster| {
        let opps = cluster.opps.iter().zip(inefficient(cluster, release));
        opps.map(|(opp, is_inefficient)| FreqOpp { freq_khz: opp.freq_khz, is_inefficient })
            .collect()
    });
    let opps: Vec<Vec<FreqOpp>> = opps.collect();
    let domains = platform.clusters.iter().zip(ids.iter().zip(&opps));
    let domains: Vec<FreqDomain<'_>> = domains
        .map(|(cluster, (cpus, opps))| FreqDomain {
            cpus,
            capacity: cluster.capacity.into(),
            opps,
            transition_latency: cluster.clock.transition_latency,
            transition_delay: cluster.clock.transition_delay,
        })
        .collect();
    policy.instantiate(&CpufreqSetup { domains: &domains, release })
}

/// What a clock did in a run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DomainCounted {
    pub transitions: u64,
    /// Time at each OPP; one entry where none is known.
    pub time_at: Vec<Duration>,
}

impl Domain {
    /// A governed clock starts at its lowest frequency.
    pub(super) fn new(number: usize, cluster: &Cluster, cpufreq: &Cpufreq) -> Domain {
        let freqs_khz: Vec<u32> = cluster.opps.iter().map(|opp| opp.freq_khz).collect();
        let opp = match cpufreq {
            Cpufreq::Performance => freqs_khz.len().saturating_sub(1) as u16,
            Cpufreq::Userspace(speeds) => speeds.opp(number, &freqs_khz) as u16,
            Cpufreq::Powersave | Cpufreq::Policy(_) | Cpufreq::OfKernel { .. } => 0,
        };
        let clock = cluster.clock;
        Domain {
            opp,
            coming: None,
            wanted: opp,
            highest: freqs_khz.len().saturating_sub(1) as u16,
            latency: if clock.has_fast_switch { Duration::ZERO } else { clock.transition_latency },
            since: Instant(0),
            time_at: vec![Duration::ZERO; freqs_khz.len().max(1)],
            transitions: 0,
            freqs_khz,
        }
    }

    pub(super) fn opp_count(&self) -> usize {
        self.time_at.len()
    }

    pub(super) fn freq_khz(&self) -> Option<u32> {
        self.freqs_khz.get(usize::from(self.opp)).copied()
    }

    /// How many of its OPPs heat has taken off: the state of its cooling device.
    pub(super) fn cooling_state(&self) -> u16 {
        self.time_at.len() as u16 - 1 - self.highest
    }

    /// Limits it to the OPPs that this cooling state leaves; what of the capacity is left.
    pub(super) fn limit(&mut self, state: u16) -> Share {
        self.highest = (self.time_at.len() as u16 - 1).saturating_sub(state);
        let khz = |opp: usize| self.freqs_khz.get(opp).copied().map_or(1, u64::from);
        Share { of: khz(self.time_at.len() - 1), left: khz(usize::from(self.highest)) }
    }

    /// 0 stands for the highest.
    pub(super) fn opp_of(&self, khz: u32) -> u16 {
        let last = self.time_at.len() - 1;
        let found = self.freqs_khz.iter().position(|freq| *freq >= khz && khz > 0);
        found.unwrap_or(last) as u16
    }

    /// The clock gets to another OPP, if it is another.
    pub(super) fn change(&mut self, opp: u16, now: Instant) -> bool {
        if opp == self.opp {
            return false;
        }
        self.pass(now);
        self.opp = opp;
        self.transitions += 1;
        true
    }

    /// `arch_scale_freq_capacity()`.
    pub(super) fn freq_scale(&self) -> u32 {
        match (self.freq_khz(), self.freqs_khz.last()) {
            (Some(khz), Some(highest)) => (u64::from(khz) * SCALE / u64::from(*highest)) as u32,
            _ => SCALE as u32,
        }
    }

    /// Work done in a ns by a CPU of this capacity.
    pub(super) fn speed(&self, capacity: u32) -> i64 {
        let full = i64::from(capacity) * (FULL_SPEED / SCALE as i64);
        match (self.freq_khz(), self.freqs_khz.last()) {
            (Some(khz), Some(&highest)) => (full * i64::from(khz) / i64::from(highest)).max(1),
            _ => full,
        }
    }

    fn pass(&mut self, now: Instant) {
        self.time_at[usize::from(self.opp)] += now.since(self.since);
        self.since = now;
    }

    pub(super) fn close(mut self, now: Instant) -> DomainCounted {
        self.pass(now);
        DomainCounted { transitions: self.transitions, time_at: self.time_at }
    }
}

/// What a CPU was busy with, by OPP.
pub(super) struct BusyAt {
    pub by_opp: Vec<Duration>,
    settled: Duration,
}

impl BusyAt {
    pub(super) fn new(opps: usize) -> BusyAt {
        BusyAt { by_opp: vec![Duration::ZERO; opps], settled: Duration::ZERO }
    }

    /// What it was since the last call is put down to the OPP that it has had.
    pub(super) fn settle(&mut self, cpu: &Cpu<'_>, now: Instant) {
        let busy = cpu.busy(now);
        self.by_opp[usize::from(cpu.span.opp)] += busy - self.settled;
        self.settled = busy;
    }
}

impl<P: Policy, S: Sink> EventSource<Machine<'_, P, S>> for Clocks {
    fn count(plan: &Plan<'_>) -> usize {
        plan.topology.clusters.len()
    }

    fn start(_: &mut Machine<'_, P, S>, _: usize) -> Result<(), Halt> {
        Ok(())
    }

    fn happen(machine: &mut Machine<'_, P, S>, cluster: usize) -> Result<(), Halt> {
        machine.change_frequency(cluster);
        Ok(())
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// `cpufreq_update_util()`.
    #[inline]
    pub(super) fn cpufreq_update(&mut self, number: usize, is_iowait: bool) {
        if self.governed.is_some() {
            self.govern(number, is_iowait);
        }
    }

    fn govern(&mut self, number: usize, is_iowait: bool) {
        let now = self.world.now;
        self.boost.update(number, now, is_iowait);
        let (cluster, place) = self.world.plan.topology.cluster_of[number];
        let Some(policy) = &self.governed else { return };
        if self.domains[cluster].freqs_khz.is_empty() || !policy.is_due(cluster, now) {
            return;
        }
        self.show_domain(cluster);
        let Some(policy) = &mut self.governed else { return };
        // A fault ends the run once the event is over.
        if let Ok(Some(opp)) = policy.update(cluster, place, now, is_iowait) {
            self.domains[cluster].wanted = opp as u16;
            self.approach(cluster);
        }
    }

    /// Shows the frequency policy the CPUs of a domain as they are.
    pub(super) fn show_domain(&mut self, cluster: usize) {
        let topology = self.world.plan.topology;
        for (place, &number) in topology.clusters[cluster].iter().enumerate() {
            let cpu = &self.cpus[number];
            let clamp = if self.has_uclamp { self.clamps[number].get() } else { Clamp::NONE };
            let mut shown = CpufreqCpu {
                util: cpu.util(),
                runnable: cpu.load.averages().1,
                idle_calls: cpu.idle_calls,
                uclamp_min: clamp.min.into(),
                uclamp_max: clamp.max.into(),
                ..CpufreqCpu::idle(number as u32, cpu.capacity)
            };
            if self.boost.raises_frequency {
                shown.boost = self.boost.cpu_boost(number, self.world.now, cpu.capacity);
                shown.perf_min = self.boost.perf_min(number);
            }
            let policy = self.governed.as_ref().expect("who shows has somebody to show it to");
            policy.show(cluster, place, shown);
        }
    }

    /// Sets the clock on its way to what is wanted, unless it is on its way already: then it goes
    /// on from there.
    pub(super) fn approach(&mut self, cluster: usize) {
        let domain = &mut self.domains[cluster];
        let to = domain.wanted.min(domain.highest);
        if domain.coming.is_none() && to != domain.opp {
            domain.coming = Some(to);
            let at = self.world.now + domain.latency;
            self.world.agenda.set(Clocks::nth(cluster), at);
        }
    }

    /// The clock has got to another OPP: what is under way is accounted for, and planned anew.
    fn change_frequency(&mut self, cluster: usize) {
        let now = self.world.now;
        self.world.agenda.set(Clocks::nth(cluster), Instant::NEVER);
        let domain = &mut self.domains[cluster];
        let coming = domain.coming.take().expect("a clock that changes is on its way");
        domain.change(coming, now);
        let (opp, freq_scale) = (domain.opp, domain.freq_scale());
        self.rest.set_opp(cluster, opp, now);
        for &number in &self.world.plan.topology.clusters[cluster] {
            self.account(number);
            let cpu = &mut self.cpus[number];
            self.busy[number].settle(cpu, now);
            if let Some(pending) = &cpu.pending {
                cpu.idle.change_opp(pending, cpu.span.opp, opp, now);
            }
            cpu.span.opp = opp;
            cpu.load.scale_freq(freq_scale);
            let is_running = cpu.mode == Mode::Running;
            self.set_speed(number);
            if is_running {
                self.plan_ahead(number);
            }
            if S::RECORDS {
                self.record_frequency(number);
            }
        }
        self.approach(cluster);
    }

    /// By its clock, and by what the other threads of its core do.
    fn set_speed(&mut self, number: usize) {
        let topology = self.world.plan.topology;
        let domain = &self.domains[topology.cluster_of[number].0];
        let alone = domain.speed(self.world.plan.models[number].capacity);
        let works = |other: usize| self.cpus[other].mode == Mode::Running;
        self.cpus[number].speed = topology.shared_speed(number, alone, works);
    }

    /// The CPU has got tasks to run, or has none any more: the other threads of its core have
    /// less of it then, or more.
    #[inline]
    pub(super) fn share_core(&mut self, number: usize) {
        if let Some(siblings) = self.world.plan.topology.siblings.get(number) {
            self.set_speed(number);
            for &other in siblings {
                self.account(other);
                self.set_speed(other);
                if self.cpus[other].mode == Mode::Running && self.cpus[other].running.is_some() {
                    self.plan_ahead(other);
                }
            }
        }
    }

    /// A runnable task's queue takes its new clamp at once, and its frequency follows with the next
    /// update.
    pub(super) fn set_clamp(&mut self, id: u32) {
        let task = &mut self.world.tasks[id as usize];
        if task.state == State::Runnable {
            let new = task.uclamp.min.max(self.boost.task_uclamp_min(id));
            let queue = &mut self.clamps[task.cpu];
            queue.remove(task.clamp);
            task.clamp.min = new;
            queue.add(task.clamp);
        }
    }

    /// A task has been put on a CPU's queue; `is_renewed` if its utilization is another for it.
    #[inline]
    pub(super) fn enqueued(&mut self, id: u32, number: usize, arrival: Arrival, is_renewed: bool) {
        if self.is_watched {
            self.watch_enqueued(id, number, arrival, is_renewed);
        }
    }

    fn watch_enqueued(&mut self, id: u32, number: usize, arrival: Arrival, is_renewed: bool) {
        let task = &mut self.world.tasks[id as usize];
        let in_iowait = task.in_iowait;
        self.boost.enqueue(number, id, self.world.now, arrival, in_iowait);
        if self.has_uclamp {
            task.clamp.min = task.uclamp.min.max(self.boost.task_uclamp_min(id));
        }
        let clamp = task.clamp;
        // 6.12 counts the clamp after the class has called cpufreq, 6.1 before.
        let counts_first = self.world.plan.cpufreq.release() == V6_1;
        if self.has_uclamp && counts_first {
            self.clamps[number].add(clamp);
        }
        if in_iowait {
            self.cpufreq_update(number, true);
        }
        if is_renewed {
            self.cpufreq_update(number, false);
        }
        if self.has_uclamp && !counts_first {
            self.clamps[number].add(clamp);
        }
    }

    /// A task has been taken off a CPU's queue.
    #[inline]
    pub(super) fn dequeued(&mut self, id: u32, number: usize, is_renewed: bool) {
        if self.is_watched {
            self.watch_dequeued(id, number, is_renewed);
        }
    }

    fn watch_dequeued(&mut self, id: u32, number: usize, is_renewed: bool) {
        let task = &self.world.tasks[id as usize];
        self.boost.dequeue(number, id, self.world.now, task.state, task.in_iowait);
        if self.has_uclamp {
            self.clamps[number].remove(task.clamp);
        }
        if is_renewed {
            self.cpufreq_update(number, false);
        }
    }
}
