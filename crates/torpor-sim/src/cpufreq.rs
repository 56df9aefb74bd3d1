// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Names of cpufreq governors.
//!
//! FIDELITY(sim-frequency): the kernel's thread sleeps while a clock changes; idle states, and ticks
//! in them, take as long at any frequency.

use crate::error::SimError;
use std::fmt;
use std::str::FromStr;
use torpor_governor::{CpufreqSpec, Place};
use torpor_machine::platform::CpufreqGovernor;
use torpor_machine::units::UnknownName;

/// A cpufreq governor as a user names it: `schedutil,rate_limit_us=500`, `./my_governor.c`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpufreq {
    /// A governor of the kernel, with what is written to its files in sysfs.
    OfKernel { name: &'static str, tunables: Vec<(String, String)> },
    /// `userspace`, with what is written to `scaling_setspeed`.
    Userspace(SetSpeeds),
    /// A file that registers a `struct cpufreq_governor`.
    File(CpufreqSpec),
}

/// Values for `scaling_setspeed` of each perf domain; the last holds for all that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetSpeeds([u32; 4]);

impl SetSpeeds {
    fn parse(text: &str) -> Option<SetSpeeds> {
        let given: Vec<u32> = text.split('/').map(|khz| khz.parse().ok()).collect::<Option<_>>()?;
        let mut speeds = [*given.last()?; 4];
        speeds.get_mut(..given.len())?.copy_from_slice(&given);
        Some(SetSpeeds(speeds))
    }

    pub fn khz(&self, domain: usize) -> u32 {
        self.0[domain.min(self.0.len() - 1)]
    }
}

impl fmt::Display for SetSpeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [.., last] = self.0;
        let count = self.0.iter().rposition(|khz| *khz != last).map_or(1, |index| index + 2);
        let texts: Vec<String> = self.0[..count].iter().map(u32::to_string).collect();
        f.write_str(&texts.join("/"))
    }
}

impl Cpufreq {
    /// The governors of a kernel, each in a sentence.
    pub const SUMMARIES: [(&str, &str); 6] = [
        ("conservative", "Moves the frequency in steps, by the share of time that CPUs were busy."),
        ("ondemand", "Sets the frequency by the share of time that CPUs were busy."),
        ("performance", "Holds the highest OPP."),
        ("powersave", "Holds the lowest OPP."),
        ("schedutil", "Sets the frequency by the scheduler's utilization (PELT)."),
        (
            "userspace",
            "Holds the lowest OPP that is not below `freq_khz`, N or N/M for each cluster.",
        ),
    ];
    const NAMES: [&str; 6] = {
        let mut names = [""; 6];
        let mut number = 0;
        while number < names.len() {
            names[number] = Cpufreq::SUMMARIES[number].0;
            number += 1;
        }
        names
    };
    /// Governors without tunables.
    const WITHOUT_TUNABLES: [&str; 2] = ["performance", "powersave"];

    fn of_kernel(name: &'static str) -> Cpufreq {
        Cpufreq::OfKernel { name, tunables: Vec::new() }
    }

    /// Whether the frequency is fixed, so that nothing follows utilization.
    pub(crate) fn is_held(&self) -> bool {
        match self {
            Cpufreq::OfKernel { name, .. } => Cpufreq::WITHOUT_TUNABLES.contains(name),
            Cpufreq::Userspace(_) => true,
            Cpufreq::File(_) => false,
        }
    }

    /// The file that the kernel is linked with, if it does not have the governor itself.
    pub(crate) fn file(&self) -> Option<&CpufreqSpec> {
        match self {
            Cpufreq::File(spec) => Some(spec),
            _ => None,
        }
    }

    /// Returns the settings of the kernel's cpufreq core, for so many clusters.
    pub(crate) fn settings(&self, clusters: usize) -> crate::kernel::Cpufreq {
        let of = crate::kernel::Cpufreq::of;
        match self {
            Cpufreq::Userspace(speeds) => crate::kernel::Cpufreq {
                set_khz: (0..clusters).map(|n| speeds.khz(n)).collect(),
                ..of("userspace")
            },
            // The governor of the file wins, whatever its name.
            Cpufreq::File(spec) => {
                crate::kernel::Cpufreq { tunables: spec.params().to_vec(), ..of("schedutil") }
            }
            Cpufreq::OfKernel { name, tunables } => {
                crate::kernel::Cpufreq { tunables: tunables.clone(), ..of(name) }
            }
        }
    }
}

impl From<CpufreqGovernor> for Cpufreq {
    fn from(governor: CpufreqGovernor) -> Cpufreq {
        Cpufreq::of_kernel(match governor {
            CpufreqGovernor::Performance => "performance",
            CpufreqGovernor::Powersave => "powersave",
            CpufreqGovernor::Schedutil => "schedutil",
        })
    }
}

impl fmt::Display for Cpufreq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cpufreq::Userspace(speeds) => write!(f, "userspace,freq_khz={speeds}"),
            Cpufreq::File(spec) => spec.fmt(f),
            Cpufreq::OfKernel { name, tunables } => {
                f.write_str(name)?;
                tunables.iter().try_for_each(|(name, value)| write!(f, ",{name}={value}"))
            }
        }
    }
}

impl FromStr for Cpufreq {
    type Err = SimError;

    fn from_str(text: &str) -> Result<Cpufreq, SimError> {
        let end = text.find([',', '@']).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if let Some(release) = rest.strip_prefix('@').filter(|_| Cpufreq::NAMES.contains(&name)) {
            return Err(SimError::Option {
                what: "a cpufreq governor is that of the kernel that runs",
                given: text.to_owned(),
                hint: format!("option `cpufreq` {name} with option `kernels` {release}"),
            });
        }
        match Cpufreq::NAMES.into_iter().find(|known| *known == name) {
            Some("userspace") => {
                let speeds = rest.strip_prefix(",freq_khz=").and_then(SetSpeeds::parse);
                speeds.map(Cpufreq::Userspace).ok_or_else(|| SimError::Option {
                    what: "userspace has freq_khz: of all perf domains, or of each, up to 4",
                    given: text.to_owned(),
                    hint: "--cpufreq userspace,freq_khz=408000/1008000".to_owned(),
                })
            }
            Some(held) if Cpufreq::WITHOUT_TUNABLES.contains(&held) && !rest.is_empty() => {
                Err(SimError::Option {
                    what: "performance and powersave have no tunables",
                    given: text.to_owned(),
                    hint: format!("--cpufreq {held}"),
                })
            }
            Some(name) => Ok(Cpufreq::OfKernel { name, tunables: tunables(text, rest)? }),
            None => {
                let spec: CpufreqSpec = text.parse()?;
                match spec.place() {
                    Place::Builtin { name } => {
                        let otherwise = format!("a file needs a path with `.c` (`./{name}.c`)");
                        let unknown =
                            UnknownName::new("cpufreq governor", name, Cpufreq::NAMES, otherwise);
                        Err(SimError::UnknownCpufreq(unknown))
                    }
                    _ => Ok(Cpufreq::File(spec)),
                }
            }
        }
    }
}

/// Reads `,NAME=VALUE...`.
fn tunables(text: &str, rest: &str) -> Result<Vec<(String, String)>, SimError> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    let wrong = || SimError::Option {
        what: "a tunable of a cpufreq governor is NAME=VALUE, as its file in sysfs has them",
        given: text.to_owned(),
        hint: "--cpufreq ondemand,up_threshold=90".to_owned(),
    };
    match rest.strip_prefix(',') {
        Some(list) => list.split(',').map(pair).collect::<Option<_>>().ok_or_else(wrong),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_governor_parses_back() {
        for text in [
            "performance",
            "powersave",
            "userspace,freq_khz=1008000",
            "userspace,freq_khz=408000/1008000",
            "userspace,freq_khz=1/2/2/1",
            "schedutil",
            "schedutil,rate_limit_us=500",
            "ondemand",
            "conservative,up_threshold=90,down_threshold=30",
            "./mine.c",
            "./a@b/mine.c,x=1",
        ] {
            assert_eq!(text.parse::<Cpufreq>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn wrong_governor_lists_allowed_ones() {
        for (text, allowed) in [
            ("interactive", "conservative, ondemand, performance, powersave, schedutil, userspace"),
            ("ondemand,up_threshold", "is NAME=VALUE"),
            ("schedutil@6.1", "option `kernels` 6.1"),
            ("userspace", "has freq_khz"),
            ("userspace,freq_khz=fast", "has freq_khz"),
            ("userspace,freq_khz=1/2/3/4/5", "up to 4"),
            ("powersave,rate_limit_us=1", "no tunables"),
            ("schedutil,rate_limit_us", "is NAME=VALUE"),
            ("./mine.c,x", "a parameter is NAME=VALUE"),
        ] {
            let error = text.parse::<Cpufreq>().unwrap_err().to_string();
            assert!(error.contains(allowed) && error.contains(text), "{error}");
        }
    }
}
