// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Hardware that a hosted kernel starts on, including the parts that the kernel does not see.

use crate::kernel::abi::{CPUS_MAX, OPPS_MAX, STATES_MAX};
use crate::kernel::files::Write;
use torpor_machine::platform::{Clock, CpufreqGovernor, Demotion, Platform, PollLoop};
use torpor_machine::units::{CpuId, Duration};

#[derive(Clone, Debug)]
pub struct Hardware {
    pub clusters: Vec<Cluster>,
    /// Whether the kernel has an idle driver. Without one its CPUs enter their default idle state.
    pub has_idle_driver: bool,
    /// Cluster of each CPU, and the first thread of its core.
    pub cluster_of: Vec<usize>,
    pub core_of: Vec<usize>,
    pub cpufreq: Cpufreq,
    /// Latency limit of PM QoS, and those of single CPUs.
    pub latency_limit: Option<Duration>,
    pub cpu_latency_limits: Vec<(CpuId, Duration)>,
    /// Whether each CPU is online. CPU 0 always is.
    pub is_online: Vec<bool>,
    /// Idle states of each CPU that are disabled in sysfs, a bit each.
    pub states_off: Vec<u16>,
    /// Time from sending an IPI to the interrupt.
    pub ipi_delivery: Duration,
    pub overheads: Overheads,
    /// Whether the kernel's tracepoints are recorded.
    pub records: bool,
    /// The user's part of the kernel's command line.
    pub arguments: String,
    /// Paths of control groups from the root, in the order in which they are made.
    pub cgroups: Vec<String>,
    /// Seed of the kernel's random numbers: the phases of quotas' periods.
    pub seed: u64,
    /// What is written to the kernel's files at the end of its start.
    pub writes: Vec<Write>,
    /// Whether the workload writes to such files later, at its changes.
    pub has_later_writes: bool,
}

/// Linux 6.12 on the development machine, a cloud's 2.6 GHz Xeon (family 6, model 167): between 8
/// and 256 CPUs of `benches/benches/kernel.rs` an event takes 148 steps and 1071 ns more, and by
/// callgrind 12,200 instructions more. An event's other instructions, some 2,250, are what the
/// platforms have figures of.
const STEP_PS: u32 = 7_200;
/// Two pinned threads there: to read a cache line that the other has just written takes 34.8 ns,
/// one's own 4.8 ns.
const LINE_PS: u32 = 30_000;

/// Frequency governor, and the values written to its sysfs files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpufreq {
    /// Name in sysfs. A linked governor ([`crate::kernel::Kernels::with_cpufreq`]) is used
    /// whatever its name is.
    pub governor: String,
    /// Files of its folder, and their values.
    pub tunables: Vec<(String, String)>,
    /// Value of each cluster's `scaling_setspeed`, in kHz; empty if it is not written.
    pub set_khz: Vec<u32>,
    /// Whether it receives `SCHED_CPUFREQ_IOWAIT`.
    pub hears_iowait: bool,
}

impl Cpufreq {
    pub fn of(governor: &str) -> Cpufreq {
        let governor = governor.to_owned();
        Cpufreq { governor, tunables: Vec::new(), set_khz: Vec::new(), hears_iowait: true }
    }
}

impl From<CpufreqGovernor> for Cpufreq {
    fn from(governor: CpufreqGovernor) -> Cpufreq {
        Cpufreq::of(match governor {
            CpufreqGovernor::Performance => "performance",
            CpufreqGovernor::Powersave => "powersave",
            CpufreqGovernor::Schedutil => "schedutil",
        })
    }
}

/// Costs of the kernel's own work on the biggest CPU at its highest frequency.
#[derive(Clone, Copy, Debug)]
pub struct Overheads {
    /// Cost of an interrupt: the tick, a timer.
    pub interrupt: Duration,
    pub context_switch: Duration,
    /// Costs on the CPU that sends an IPI, and on the one that receives it.
    pub ipi_send: Duration,
    pub ipi_handling: Duration,
    /// Cost of an idle governor's own timer.
    pub governor_timer: Duration,
    /// Cost of setting the clock event device.
    pub timer_programming: Duration,
    /// Cost of one step of the kernel, and of one with data in another CPU's cache. See
    /// `khost/src/clock.c` for steps.
    pub step_ps: u32,
    pub remote_step_ps: u32,
}

/// CPUs that share their idle states, their OPPs and their capacity.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub capacity: u32,
    /// CPUs with the same number share a last-level cache.
    pub cache: u32,
    pub states: Vec<State>,
    /// OPPs by ascending frequency.
    pub opps: Vec<Opp>,
    /// Speed of a thread while its sibling is busy.
    pub smt_speed_pct: u32,
    pub clock: Clock,
}

#[derive(Clone, Debug)]
pub struct State {
    pub name: String,
    /// Latency that the kernel sees.
    pub latency: Duration,
    pub target_residency: Duration,
    /// Latency of the hardware.
    pub entry_latency: Duration,
    pub exit_latency: Duration,
    /// Time that the first task after it loses to cold caches, on the biggest CPU at its highest
    /// frequency.
    pub refill: Duration,
    pub poll_loop: Option<PollLoop>,
    /// Rule by which the hardware enters a shallower state instead.
    pub demotion: Option<Demotion>,
}

#[derive(Clone, Copy, Debug)]
pub struct Opp {
    pub khz: u32,
    /// Power of one busy CPU; 0 if not measured, which disables energy-aware placement.
    pub power_uw: u32,
}

impl Hardware {
    pub fn of_platform(platform: &Platform) -> Hardware {
        let is_asymmetric =
            platform.clusters.iter().any(|c| c.capacity != platform.clusters[0].capacity);
        let mut cluster_of = vec![0; platform.cpu_count()];
        for (index, cluster) in platform.clusters.iter().enumerate() {
            cluster.cpus.iter().for_each(|cpu| cluster_of[cpu.index()] = index);
        }
        let clusters = platform.clusters.iter().enumerate().map(|(index, cluster)| Cluster {
            capacity: cluster.capacity,
            // Phones have one last-level cache.
            cache: if is_asymmetric { 0 } else { index as u32 },
            states: cluster.idle_states.iter().map(State::of).collect(),
            opps: cluster.opps.iter().map(Opp::of).collect(),
            clock: cluster.clock,
            smt_speed_pct: cluster.smt.speed_pct,
        });
        let off = |cluster: &usize| {
            let states = platform.clusters[*cluster].idle_states.iter().enumerate();
            states.filter(|(_, s)| s.is_disabled).fold(0, |off, (n, _)| off | 1 << n)
        };
        Hardware {
            clusters: clusters.collect(),
            has_idle_driver: platform.has_idle_driver,
            states_off: cluster_of.iter().map(off).collect(),
            is_online: vec![true; cluster_of.len()],
            cluster_of,
            core_of: platform.core_of(),
            cpufreq: platform.cpufreq_governor.into(),
            latency_limit: None,
            cpu_latency_limits: Vec::new(),
            ipi_delivery: platform.overheads.ipi_delivery,
            overheads: Overheads {
                interrupt: platform.tick_handling,
                context_switch: platform.overheads.context_switch,
                ipi_send: platform.overheads.ipi_send + platform.overheads.virt_exit,
                ipi_handling: platform.overheads.ipi_handling,
                governor_timer: platform.timer_start,
                timer_programming: platform.overheads.timer_programming,
                step_ps: STEP_PS,
                remote_step_ps: STEP_PS + LINE_PS,
            },
            records: false,
            arguments: String::new(),
            cgroups: Vec::new(),
            seed: 0,
            writes: Vec::new(),
            has_later_writes: false,
        }
    }

    /// Whether its settings include some that are written to files.
    pub(crate) fn has_writes(&self) -> bool {
        !self.cpufreq.tunables.is_empty()
            || !self.cpufreq.set_khz.is_empty()
            || self.latency_limit.is_some()
            || !self.cpu_latency_limits.is_empty()
            || self.states_off.iter().any(|off| *off != 0)
            || !self.writes.is_empty()
    }

    /// Checks that the machine fits into the host's tables.
    pub(crate) fn check(&self) -> Result<(), String> {
        let cpus = self.cluster_of.len();
        let last = self.is_online.iter().rposition(|is_online| *is_online);
        if cpus == 0 || last.is_some_and(|last| last >= CPUS_MAX) {
            return Err(format!(
                "it has {cpus} CPUs; a hosted kernel has 1 to {CPUS_MAX}, and ignores others if \
                 they are offline (option `cpus`)"
            ));
        }
        for (index, cluster) in self.clusters.iter().enumerate() {
            let (states, opps) = (cluster.states.len(), cluster.opps.len());
            if states > STATES_MAX || opps > OPPS_MAX {
                return Err(format!(
                    "cluster {index} has {states} idle states and {opps} OPPs; a hosted kernel \
                     has up to {STATES_MAX} and {OPPS_MAX}"
                ));
            }
        }
        if self.is_online.len() != cpus || self.states_off.len() != cpus {
            return Err(format!("it says of other CPUs than its {cpus} whether they are online"));
        }
        if !self.is_online[0] {
            return Err("CPU 0 is offline; it is the one that a hosted kernel starts on".to_owned());
        }
        if self.core_of.len() != cpus || self.core_of.iter().any(|core| *core >= cpus) {
            return Err("a CPU is in no core".to_owned());
        }
        if self.cluster_of.iter().any(|cluster| *cluster >= self.clusters.len()) {
            return Err("a CPU is in no cluster".to_owned());
        }
        Ok(())
    }
}

impl Cluster {
    /// Returns the state that a kernel without an idle driver enters: the shallowest that rests.
    pub(crate) fn default_idle(&self) -> usize {
        self.states.iter().position(|state| state.poll_loop.is_none()).unwrap_or(0)
    }
}

impl State {
    fn of(state: &torpor_machine::platform::IdleState) -> State {
        State {
            name: state.name.clone(),
            latency: state.latency,
            target_residency: state.target_residency,
            entry_latency: state.entry_latency,
            exit_latency: state.exit_latency,
            refill: state.refill,
            poll_loop: state.poll_loop,
            demotion: state.demotion,
        }
    }
}

impl Opp {
    fn of(opp: &torpor_machine::platform::Opp) -> Opp {
        let power_uw =
            opp.energy_model_power.map_or(0, |power| power.0.clamp(0, i64::from(u32::MAX)) as u32);
        Opp { khz: opp.freq_khz, power_uw }
    }
}
