// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One CPU's share of a machine, whatever it was read from, and the machine they make.

use crate::platform::Scope;
use crate::units::CpuId;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// CPUs of different domains never share a cluster, however alike they are.
    pub domain: Option<String>,
    pub states: Vec<State>,
    /// `None` if the kernel has no `cpu_capacity`, because all CPUs are equal to it.
    pub capacity: Option<u32>,
    /// Ascending in frequency.
    pub opps: Vec<Opp>,
    /// The longest time of a frequency change; `None` if unknown.
    pub clock_latency_ns: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opp {
    pub freq_khz: u32,
    /// One busy CPU, by the kernel's energy model.
    pub power_uw: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub name: String,
    pub desc: String,
    pub latency: Latency,
    pub residency_us: u32,
    pub is_disabled: bool,
    pub is_polling: bool,
    pub scope: Scope,
}

impl State {
    /// Why the idle loop never enters it, if it does not: `residency_us` is at the type's limit, as
    /// states have it that are for suspend-to-idle alone.
    pub(super) fn never_entered(&self) -> Option<String> {
        if self.residency_us == u32::MAX {
            return Some(format!("its target residency is {} us, the longest there is", u32::MAX));
        }
        let is_named = [&self.name, &self.desc].iter().any(|t| t.eq_ignore_ascii_case("s2idle"));
        is_named.then(|| "it is for suspend-to-idle".to_owned())
    }
}

/// Knowledge about a state's entry and exit latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Latency {
    /// sysfs has one number.
    Whole { us: u32 },
    /// Device tree has up to three.
    Parts { entry_us: u32, exit_us: u32, wakeup_us: Option<u32> },
}

impl Latency {
    /// Returns the latency that a governor sees.
    pub(super) fn governor_us(self) -> u64 {
        match self {
            Latency::Whole { us } | Latency::Parts { wakeup_us: Some(us), .. } => us.into(),
            Latency::Parts { entry_us, exit_us, .. } => {
                u64::from(entry_us).saturating_add(exit_us.into())
            }
        }
    }
}

/// A capacity scaled so that the biggest is 1024; at least 1.
pub(super) fn scaled_capacity(capacity: u64, biggest: u64) -> u32 {
    let scaled = u128::from(capacity).saturating_mul(1024).checked_div(biggest.max(1).into());
    (scaled.unwrap_or(0) as u32).max(1)
}

/// CPUs that are alike.
#[derive(Debug)]
pub(super) struct Group {
    pub cpus: Vec<CpuId>,
    pub like: Share,
}

/// In the order of each group's first CPU.
pub(super) fn group(cpus: &BTreeMap<CpuId, Share>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (id, cpu) in cpus {
        match groups.iter_mut().find(|group| group.like == *cpu) {
            Some(group) => group.cpus.push(*id),
            None => groups.push(Group { cpus: vec![*id], like: cpu.clone() }),
        }
    }
    groups
}

/// A machine as it was read, ready to be written as TOML.
#[derive(Debug)]
pub(super) struct Machine {
    /// Source, as in "imported from sysfs".
    pub origin: &'static str,
    pub title: Option<String>,
    pub cpus: BTreeMap<CpuId, Share>,
    pub sources: Sources,
}

/// Sources of each kind of number; numbers that no CPU has need no source.
#[derive(Debug)]
pub(super) struct Sources {
    pub machine: String,
    pub capacity: String,
    pub idle_states: String,
    pub opps: String,
    pub power: String,
}
