// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A machine as the engine sees it: clusters of like CPUs, their idle states and their power.

use crate::platform::{Demotion, IoDevice, Limits, PlatformError, PollLoop, Turbo};
use crate::toml::Distribution;
use crate::units::{CpuId, Duration, Energy, Hz, Power, UnknownName};
use std::collections::HashMap;

/// A machine. Built only by this crate's readers, which have checked every invariant below.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    /// Short name, as typed after `--platform`.
    pub name: String,
    pub title: String,
    /// Sources of the numbers, one line each.
    pub sources: Vec<String>,
    /// SHA-256 of the text it was read from.
    pub sha256: String,
    /// The tick rate its kernels are usually built with.
    pub hz: Hz,
    /// Time the CPU is busy with one tick interrupt that wakes it from idle.
    pub tick_handling: Duration,
    /// Time that an idle governor takes to start a timer of its own and to cancel it.
    pub timer_start: Duration,
    pub overheads: Overheads,
    /// Parts of the machine whose power the numbers include, by their names in a file.
    pub power_includes: Vec<String>,
    /// Power that they do not contain, one line each.
    pub power_missing: Vec<String>,
    /// Power of the package when every CPU is in its deepest state; constant, on top of the CPUs'
    /// own power. Zero when the CPUs' numbers already hold everything that was measured.
    pub floor_power: Power,
    /// Extra power of the package while any CPU works or polls; simulations only.
    pub awake_power: Power,
    /// The time from nothing to all of that, and back; in between it is in proportion.
    pub awake_rise: Duration,
    /// What limits frequencies below the kernel; simulations only.
    pub limits: Option<Limits>,
    /// Whether its kernel has an idle driver. Without one no governor chooses: CPUs enter the
    /// shallowest state that rests, the architecture's default.
    pub has_idle_driver: bool,
    /// Default cpufreq governor.
    pub cpufreq_governor: CpufreqGovernor,
    /// In order of their first CPU; together they cover CPUs 0..n without gap or overlap.
    pub clusters: Vec<Cluster>,
    pub io_devices: Vec<IoDevice>,
}

/// Time that a simulated kernel spends on its own work, on the biggest CPU at its highest
/// frequency; 0 if not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    pub context_switch: Duration,
    /// On the sending CPU.
    pub ipi_send: Duration,
    /// From there to the interrupt on the other CPU.
    pub ipi_delivery: Duration,
    /// On the receiving CPU, once it is out of its idle state.
    pub ipi_handling: Duration,
    /// On the sending CPU, in a virtual machine.
    pub virt_exit: Duration,
    /// To set the clock event device, which exits to the hypervisor in many virtual machines.
    pub timer_programming: Duration,
}

/// cpufreq governor, by its name in sysfs' `scaling_governor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpufreqGovernor {
    #[default]
    Performance,
    Powersave,
    Schedutil,
}

/// CPUs that share a clock, an idle-state table and power numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub name: String,
    pub cpus: Vec<CpuId>,
    /// `arch_scale_cpu_capacity()`, 1024 for the biggest CPU.
    pub capacity: u32,
    /// Ascending in frequency; empty when the machine's OPPs are not known.
    pub opps: Vec<Opp>,
    /// Changes of its clock.
    pub clock: Clock,
    /// Shallowest first, 1 to 10 of them (`CPUIDLE_STATE_MAX`).
    pub idle_states: Vec<IdleState>,
    pub smt: Smt,
    /// Its highest frequencies by the number of active cores.
    pub turbo: Option<Turbo>,
}

/// Threads of a cluster's cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Smt {
    /// Threads of one core; 1 if CPUs are cores.
    pub threads: usize,
    /// From one thread of a core to the next, counted in the cluster's CPUs.
    pub stride: usize,
    /// Speed of a thread while another of its core works, in percent of its speed alone.
    pub speed_pct: u32,
}

impl Smt {
    pub const NONE: Smt = Smt { threads: 1, stride: 1, speed_pct: 100 };

    /// The core of a cluster's nth CPU, among the cluster's.
    #[expect(clippy::arithmetic_side_effects, reason = "readers reject factors of 0")]
    pub fn core_of(&self, nth: usize) -> usize {
        nth / (self.stride * self.threads) * self.stride + nth % self.stride
    }
}

/// Speed of frequency changes, as cpufreq knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// `cpuinfo_transition_latency`; zero when it is not known.
    pub transition_latency: Duration,
    /// `transition_delay_us`: the driver's own bound between two changes.
    pub transition_delay: Option<Duration>,
    /// The scheduler changes it by itself, at once (`fast_switch_possible`).
    pub has_fast_switch: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Opp {
    pub freq_khz: u32,
    /// Power of one busy CPU.
    pub active_power: Option<Power>,
    /// Power in the kernel's energy model, from which EAS places tasks; by default `active_power`.
    pub energy_model_power: Option<Power>,
    /// Power the cluster takes, on top of its CPUs', unless all of them are in their deepest
    /// state. Zero if it was not measured apart from the CPUs.
    pub static_power: Power,
}

/// The CPUs that must all be in a state before it saves energy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Cpu,
    /// All threads of a core.
    Core,
    Cluster,
    Package,
}

#[derive(Clone, Debug, PartialEq)]
pub struct IdleState {
    /// Name as in sysfs, such as `WFI` or `C1E`.
    pub name: String,
    /// Time from the decision until the state is reached; it cannot be interrupted before. The mean
    /// of the measured one, where there is one.
    pub entry_latency: Duration,
    /// Time from the wake-up event until the CPU runs again; measured likewise.
    pub exit_latency: Duration,
    pub measured: MeasuredLatency,
    /// Latency that a governor sees as `exit_latency_ns` (sysfs `latency`): the worst case, so
    /// `wakeup-latency-us`, or entry plus exit.
    pub latency: Duration,
    /// Residency that a governor sees as `target_residency_ns` (sysfs `residency`,
    /// `min-residency-us`).
    pub target_residency: Duration,
    /// The stay from which it uses less energy than the next shallower state: the target
    /// residency, in proportion to the measured part of the advertised latency. A polling driver
    /// may show governors another target residency.
    pub break_even: Duration,
    /// Poll loop, if it polls (`CPUIDLE_FLAG_POLLING`).
    pub poll_loop: Option<PollLoop>,
    /// Off in the machine's default configuration (sysfs `default_status` = disabled).
    pub is_disabled: bool,
    pub scope: Scope,
    /// Its latencies for a CPU that is not the last in, or not the first out, of those in `scope`.
    pub own: Option<OwnLatency>,
    pub power: StatePower,
    /// Energy of going in and out, on top of the power; `None`: what its break-even implies.
    pub energy_per_entry: Option<Energy>,
    /// Time that the first task after a sleep in it loses to cold caches, on the biggest CPU at its
    /// highest frequency; a simulation's.
    pub refill: Duration,
    /// Refusals by the driver; simulations only.
    pub rejects: Option<Rejects>,
    /// When the hardware enters a shallower state instead.
    pub demotion: Option<Demotion>,
}

/// Latencies as measured; without them, the hardware takes what it advertises.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredLatency {
    pub entry: Option<Distribution>,
    pub exit: Option<Distribution>,
}

/// A driver that does not always enter the state that a governor has selected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rejects {
    /// Share of the entries, in percent.
    pub pct: f64,
    /// Time of an attempt.
    pub time: Duration,
}

/// The CPU's own part of a shared state's latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnLatency {
    pub entry: Duration,
    pub exit: Duration,
}

/// Power of one CPU resting in an idle state.
#[derive(Clone, Debug, PartialEq)]
pub enum StatePower {
    /// Not measured. Energy on this machine is then not known.
    Unknown,
    /// The same at every OPP.
    Constant(Power),
    /// One value for each of the cluster's OPPs, in their order.
    PerOpp(Vec<Power>),
}

impl IdleState {
    pub fn is_polling(&self) -> bool {
        self.poll_loop.is_some()
    }

    /// Whether its exit takes time that nobody has measured.
    pub fn is_advertised(&self) -> bool {
        !self.is_polling() && self.measured.exit.is_none() && self.exit_latency > Duration::ZERO
    }
}

impl Cluster {
    /// The deepest state that can be entered: the last one not disabled by default.
    pub fn deepest(&self) -> usize {
        self.idle_states.iter().rposition(|state| !state.is_disabled).unwrap_or(0)
    }

    /// Whether the CPUs of a core, the cluster or the package must be in a state together.
    pub fn has_shared_states(&self) -> bool {
        self.idle_states.iter().skip(1).any(|state| state.scope != Scope::Cpu)
    }
}

impl Platform {
    /// Enables a state that is off by default, in every cluster that has it. `which` is its name or
    /// index, and is appended to the machine's name.
    pub fn enable_state(&mut self, which: &str) -> Result<(), PlatformError> {
        let index: Option<usize> = which.parse().ok();
        let mut is_there = false;
        for cluster in &mut self.clusters {
            for (number, state) in cluster.idle_states.iter_mut().enumerate() {
                if state.name == which || index == Some(number) {
                    state.is_disabled = false;
                    is_there = true;
                }
            }
        }
        if !is_there {
            let clusters = self.clusters.iter();
            let mut known: Vec<&str> = Vec::new();
            for state in clusters.flat_map(|c| &c.idle_states) {
                if !known.contains(&&*state.name) {
                    known.push(&state.name);
                }
            }
            let otherwise = "give a state's name, or its index, which begins at 0";
            return Err(UnknownName::new("idle state", which, known, otherwise).into());
        }
        self.name += &format!(",enable_state={which}");
        Ok(())
    }

    pub fn cpu_count(&self) -> usize {
        self.clusters.iter().map(|c| c.cpus.len()).sum()
    }

    /// The position in [`Platform::clusters`] of a CPU's cluster.
    pub fn cluster_of(&self, cpu: CpuId) -> Option<usize> {
        self.clusters.iter().position(|c| c.cpus.contains(&cpu))
    }

    /// The first thread of each CPU's core: itself, where CPUs are cores.
    pub fn core_of(&self) -> Vec<usize> {
        let mut core_of: Vec<usize> = (0..self.cpu_count()).collect();
        for cluster in &self.clusters {
            let mut first_of = HashMap::new();
            for (nth, cpu) in cluster.cpus.iter().enumerate() {
                let core = cluster.smt.core_of(nth);
                core_of[cpu.index()] = *first_of.entry(core).or_insert(cpu.index());
            }
        }
        core_of
    }

    /// Returns the names of the states that rest, by whether their exit latency was measured.
    /// Instant exits count as neither.
    pub fn states_by_latency(&self) -> (Vec<&str>, Vec<&str>) {
        let (mut measured, mut advertised) = (Vec::new(), Vec::new());
        for state in self.clusters.iter().flat_map(|c| &c.idle_states).filter(|s| !s.is_polling()) {
            let names = match state.measured.exit {
                Some(_) => &mut measured,
                None if state.is_advertised() => &mut advertised,
                None => continue,
            };
            if !names.contains(&&*state.name) {
                names.push(&*state.name);
            }
        }
        (measured, advertised)
    }

    /// Whether the package consumes power apart from CPUs and clusters.
    pub fn has_package_power(&self) -> bool {
        self.floor_power.max(self.awake_power) > Power::ZERO
    }

    /// Whether every idle state's power is known.
    pub fn has_power(&self) -> bool {
        self.clusters.iter().flat_map(|c| &c.idle_states).all(|s| s.power != StatePower::Unknown)
    }
}
