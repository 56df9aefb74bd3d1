// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Meaning of a path of sysfs or procfs, however much of its beginning is there.

use crate::units::CpuId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key<'a> {
    /// `cpu` is `None` if the path begins below the CPU, as in `state0/usage`.
    State {
        cpu: Option<CpuId>,
        state: u32,
        attr: &'a str,
    },
    /// `driver`, `freqs`, or one of [`CPU_ATTRS`].
    Cpu {
        cpu: CpuId,
        attr: &'a str,
    },
    /// `current_driver` and its neighbours.
    Cpuidle {
        attr: &'a str,
    },
    /// `related_cpus` or `freqs` of a cpufreq policy.
    Policy {
        policy: u32,
        attr: &'a str,
    },
    /// A domain of the energy model in debugfs.
    PerfDomain {
        domain: &'a str,
        attr: DomainAttr,
    },
    /// One of its OPPs, by its folder's name.
    PerfState {
        domain: &'a str,
        state: &'a str,
        attr: StateAttr,
    },
    Fact(Fact),
    /// A CPU or a state that no kernel has.
    OutOfRange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DomainAttr {
    Cpus,
    Flags,
    Units,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateAttr {
    Frequency,
    Power,
}

/// The files of a domain and of its OPPs that are read.
pub(crate) const DOMAIN_ATTRS: [&str; 3] = ["cpus", "flags", "units"];
pub(crate) const PERF_STATE_ATTRS: [&str; 2] = ["frequency", "power"];

/// Fact about the machine outside of `/sys/devices/system/cpu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    KernelRelease,
    BootId,
    Uptime,
}

/// Files with facts, below a filesystem's root.
pub(crate) const FACTS: [(Fact, &str); 3] = [
    (Fact::KernelRelease, "proc/sys/kernel/osrelease"),
    (Fact::BootId, "proc/sys/kernel/random/boot_id"),
    (Fact::Uptime, "proc/uptime"),
];

pub(crate) const FREQS: &str = "scaling_available_frequencies";

/// Other files of a CPU that are read.
pub(crate) const CPU_ATTRS: [&str; 6] = [
    "acpi_cppc/highest_perf",
    "cache/index2/size",
    "cpu_capacity",
    "cpufreq/cpuinfo_max_freq",
    "cpufreq/scaling_driver",
    "online",
];

/// The files of a state that are read, in the order in which a shell lists them.
pub(crate) const STATE_ATTRS: [&str; 13] = [
    "above",
    "below",
    "default_status",
    "desc",
    "disable",
    "latency",
    "name",
    "rejected",
    "residency",
    "s2idle/time",
    "s2idle/usage",
    "time",
    "usage",
];

/// Returns `None` for a path that Torpor does not read.
pub(crate) fn parse(path: &str) -> Option<Key<'_>> {
    if let Some((fact, _)) = FACTS.iter().find(|(_, tail)| has_tail(path, tail)) {
        return Some(Key::Fact(*fact));
    }
    // The longest tail that means anything has five parts: cpu0/cpuidle/state0/s2idle/time.
    let mut parts: Vec<&str> = path.rsplit('/').take(6).filter(|part| !part.is_empty()).collect();
    parts.reverse();
    // A longer tail is more specific, so it comes first.
    (0..parts.len()).find_map(|start| tail(&parts[start..], start == 0))
}

fn has_tail(path: &str, tail: &str) -> bool {
    path.strip_suffix(tail).is_some_and(|head| head.is_empty() || head.ends_with('/'))
}

fn tail<'a>(parts: &[&'a str], is_whole: bool) -> Option<Key<'a>> {
    match *parts {
        [cpu, "cpuidle", "driver", "name"] => cpu_key(number(cpu, "cpu")?, "driver"),
        [cpu, "cpuidle", state, attr] => state_key(Some(cpu), state, attr),
        [cpu, "cpuidle", state, "s2idle", attr] => state_key(Some(cpu), state, s2idle(attr)?),
        [state, attr] | ["." | "cpuidle", state, attr]
            if is_whole && state.starts_with("state") =>
        {
            state_key(None, state, attr)
        }
        [cpu, "cpufreq", FREQS] => cpu_key(number(cpu, "cpu")?, "freqs"),
        [cpu, ref attr @ ..] if cpu_attr(attr).is_some() => {
            cpu_key(number(cpu, "cpu")?, cpu_attr(attr)?)
        }
        ["cpuidle", attr @ ("current_driver" | "current_governor" | "current_governor_ro")] => {
            Some(Key::Cpuidle { attr })
        }
        ["energy_model", domain, attr] => domain_key(domain, attr),
        [domain, state, attr] if is_perf_state(state) => {
            let attr = match attr {
                "frequency" => StateAttr::Frequency,
                "power" => StateAttr::Power,
                _ => return None,
            };
            Some(Key::PerfState { domain, state, attr })
        }
        [policy, "related_cpus"] => policy_key(policy, "related_cpus"),
        [policy, FREQS] => policy_key(policy, "freqs"),
        // From within the folder, as `grep -r . .` writes it.
        [".", domain, attr] | [domain, attr] if is_whole => domain_key(domain, attr),
        _ => None,
    }
}

pub(crate) fn is_perf_state(folder: &str) -> bool {
    number(folder, "ps:").or_else(|| number(folder, "cs:")).is_some()
}

fn domain_key<'a>(domain: &'a str, attr: &str) -> Option<Key<'a>> {
    let attr = match attr {
        "cpus" => DomainAttr::Cpus,
        "flags" => DomainAttr::Flags,
        "units" => DomainAttr::Units,
        _ => return None,
    };
    Some(Key::PerfDomain { domain, attr })
}

fn cpu_attr(parts: &[&str]) -> Option<&'static str> {
    CPU_ATTRS.into_iter().find(|known| known.split('/').eq(parts.iter().copied()))
}

fn s2idle(attr: &str) -> Option<&'static str> {
    ["s2idle/time", "s2idle/usage"]
        .into_iter()
        .find(|known| known.strip_prefix("s2idle/") == Some(attr))
}

fn state_key<'a>(cpu: Option<&str>, state: &str, attr: &'a str) -> Option<Key<'a>> {
    let state = number(state, "state")?;
    let cpu = match cpu {
        None => None,
        Some(cpu) => match checked_cpu(number(cpu, "cpu")?) {
            None => return Some(Key::OutOfRange),
            cpu => cpu,
        },
    };
    match u32::try_from(state) {
        Ok(state @ 0..=crate::counters::STATE_MAX) => Some(Key::State { cpu, state, attr }),
        _ => Some(Key::OutOfRange),
    }
}

fn cpu_key(cpu: u64, attr: &str) -> Option<Key<'_>> {
    Some(checked_cpu(cpu).map_or(Key::OutOfRange, |cpu| Key::Cpu { cpu, attr }))
}

fn policy_key<'a>(policy: &str, attr: &'a str) -> Option<Key<'a>> {
    let policy = number(policy, "policy")?;
    Some(u32::try_from(policy).map_or(Key::OutOfRange, |policy| Key::Policy { policy, attr }))
}

fn checked_cpu(cpu: u64) -> Option<CpuId> {
    u32::try_from(cpu).ok().filter(|cpu| *cpu <= crate::counters::CPU_MAX).map(CpuId)
}

/// The number after a prefix as the kernel writes it: `cpu01` is none, and would shadow `cpu1`.
pub(crate) fn number(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let is_plain = !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    // More digits than fit are a number that no kernel has, not another name.
    is_plain.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_prefix_does_not_matter() {
        let key = Key::State { cpu: Some(CpuId(12)), state: 3, attr: "usage" };
        assert_eq!(parse("cpu0/online"), Some(Key::Cpu { cpu: CpuId(0), attr: "online" }));
        assert_eq!(parse("cpuidle/current_driver"), Some(Key::Cpuidle { attr: "current_driver" }));
        for head in ["/sys/devices/system/cpu/", "./", "", "copy of it/cpu/", "sys/"] {
            assert_eq!(parse(&format!("{head}cpu12/cpuidle/state3/usage")), Some(key), "{head}");
        }
        for path in ["state3/usage", "./state3/usage", "cpuidle/state3/usage"] {
            let key = Key::State { cpu: None, state: 3, attr: "usage" };
            assert_eq!(parse(path), Some(key), "{path}");
        }
        assert_eq!(
            parse("/sys/devices/system/cpu/cpu0/cpuidle/state1/s2idle/time"),
            Some(Key::State { cpu: Some(CpuId(0)), state: 1, attr: "s2idle/time" })
        );
        let key = Key::PerfState { domain: "cpu4", state: "ps:408000", attr: StateAttr::Power };
        for head in ["/sys/kernel/debug/energy_model/", "energy_model/", "./", ""] {
            assert_eq!(parse(&format!("{head}cpu4/ps:408000/power")), Some(key), "{head}");
            let key = Key::PerfDomain { domain: "cpu4", attr: DomainAttr::Cpus };
            assert_eq!(parse(&format!("{head}cpu4/cpus")), Some(key), "{head}");
        }
        assert_eq!(parse("/proc/uptime"), Some(Key::Fact(Fact::Uptime)));
    }

    #[test]
    fn other_folders_are_not_states() {
        for path in [
            "cpu0/cpuidle/driver/desc",
            "cpu0/cpuidle/state01/usage",
            "cpu0/cache/index0/size",
            "cpu0/index2/size",
            "state3",
            "",
            "/",
        ] {
            assert_eq!(parse(path), None, "{path}");
        }
        for path in [
            "cpu8192/cpuidle/state0/usage",
            "cpu0/cpuidle/state10/usage",
            "cpu99999999999999999999999/online",
        ] {
            assert_eq!(parse(path), Some(Key::OutOfRange), "{path}");
        }
    }
}
