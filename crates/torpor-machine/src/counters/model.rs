// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The snapshot: a machine's idle states and what was counted of them, at one time.

use crate::counters::energy_model::PerfDomain;
use crate::units::CpuId;
use serde::{Deserialize, Serialize};

/// The largest CPU number any kernel can be built for (x86 `NR_CPUS_RANGE_END` is 8192).
pub const CPU_MAX: u32 = 8191;
/// `CPUIDLE_STATE_MAX` of the kernel is 10.
pub const STATE_MAX: u32 = 9;

/// A value that was not given is `None`, never 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    pub machine: Machine,
    /// Ascending by CPU. A CPU whose folder has no idle states has none here.
    pub cpus: Vec<Cpu>,
    /// By the name of the folder; empty if the kernel has none, or if only root could see it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub energy_model: Vec<PerfDomain>,
    /// Values that are there and cannot be used.
    pub problems: Vec<Problem>,
    /// Notes on how this was read; one sentence each.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The CPU's model name.
    pub title: Option<String>,
    /// `cpuidle/current_driver`, or else the CPUs' own `cpuidle/driver/name`.
    pub driver: Option<String>,
    /// `cpuidle/current_governor`, or `current_governor_ro` of older kernels.
    pub governor: Option<String>,
    pub kernel_release: Option<String>,
    /// `CONFIG_HZ`.
    pub hz: Option<u32>,
    pub boot_id: Option<String>,
    /// Wall clock, since 1970.
    pub taken_at_ns: Option<i64>,
    /// `CLOCK_MONOTONIC`, which leaves out suspend, as `time` of an idle state does.
    pub monotonic_ns: Option<i64>,
    /// `/proc/uptime`, in steps of 10 ms.
    pub uptime_ns: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    #[serde(with = "cpu_number")]
    pub cpu: CpuId,
    /// `cpuidle/driver/name`, which kernels with a driver a CPU have.
    pub driver: Option<String>,
    pub is_online: Option<bool>,
    /// `None` if the kernel has no `cpu_capacity`, because all CPUs are equal to it.
    pub capacity: Option<u32>,
    /// `acpi_cppc/highest_perf`: its performance at its highest frequency, in firmware's units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_perf: Option<u32>,
    /// `cpufreq/scaling_driver`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling_driver: Option<String>,
    /// `cpufreq/cpuinfo_max_freq`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freq_max_khz: Option<u32>,
    /// `cache/index2/size`, which is L2 on every machine with caches of its own, such as `1280K`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_size: Option<String>,
    /// Ascending.
    pub freqs_khz: Vec<u32>,
    /// Ascending by index. A hole is possible: the dump may lack a state.
    pub states: Vec<State>,
}

/// One `cpuN/cpuidle/stateM`. `power` is left out: it holds no power on any machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    pub index: u32,
    pub name: Option<String>,
    pub desc: Option<String>,
    pub latency_us: Option<u32>,
    pub residency_us: Option<u32>,
    pub usage: Option<u64>,
    pub time_us: Option<u64>,
    pub above: Option<u64>,
    pub below: Option<u64>,
    pub rejected: Option<u64>,
    /// Not 0: switched off, by a user or by the driver.
    pub disable: Option<u64>,
    /// `enabled` or `disabled`; absent before Linux 5.6.
    pub default_status: Option<String>,
    pub s2idle_usage: Option<u64>,
    pub s2idle_time_us: Option<u64>,
}

impl State {
    /// The state's name, or its folder's if the dump has no name.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("state{}", self.index))
    }

    pub fn is_off(&self) -> bool {
        self.disable.is_some_and(|disable| disable != 0)
    }

    /// Returns how often the driver refused it, if it refused it every time.
    pub fn only_refused(&self) -> Option<u64> {
        only_refused(self.usage, self.rejected)
    }
}

pub(crate) fn only_refused(usage: Option<u64>, rejected: Option<u64>) -> Option<u64> {
    rejected.filter(|rejected| *rejected > 0 && usage == Some(0))
}

/// A value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// Below `/sys/devices/system/cpu`.
    pub path: String,
    /// Such as ``holds `x`, not a number from 0 to 4294967295``.
    pub reason: String,
}

impl Snapshot {
    pub fn cpu(&self, cpu: CpuId) -> Option<&Cpu> {
        let place = self.cpus.binary_search_by_key(&cpu, |cpu| cpu.cpu).ok()?;
        Some(&self.cpus[place])
    }

    pub fn problem_at(&self, path: &str) -> Option<&Problem> {
        self.problems.iter().find(|problem| problem.path == path)
    }
}

mod cpu_number {
    use crate::units::CpuId;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(cpu: &CpuId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(cpu.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<CpuId, D::Error> {
        u32::deserialize(deserializer).map(CpuId)
    }
}

pub(crate) mod cpu_numbers {
    use crate::units::CpuId;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        cpus: &[CpuId],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(cpus.iter().map(|cpu| cpu.0))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<CpuId>, D::Error> {
        Ok(Vec::<u32>::deserialize(deserializer)?.into_iter().map(CpuId).collect())
    }
}
