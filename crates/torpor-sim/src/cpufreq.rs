// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What sets the frequencies of the simulated machine.
//!
//! FIDELITY(sim-frequency): a change takes the time the platform tells, and nobody's work; idle
//! states, and ticks in them, take as long at any frequency.

use crate::error::SimError;
use std::fmt;
use std::str::FromStr;
use torpor_governor::{Catalog, CpufreqSpec, Place, Release};
use torpor_platform::CpufreqGovernor;
use torpor_units::UnknownName;

/// The other kernel than the default whose order of steps is known.
pub const V6_1: Release = CpufreqSpec::RELEASES[0];
/// What follows utilization where nothing else is named.
const SCHEDUTIL: &str = "schedutil";

/// A frequency policy as it is asked for: `schedutil@6.1,rate_limit_us=500`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpufreq {
    Performance,
    Powersave,
    /// Held where somebody has set it: of each perf domain, in the platform's order.
    Userspace(SetSpeeds),
    /// A C file decides.
    Policy(CpufreqSpec),
    /// One that a hosted kernel has itself, with what is written to its files in sysfs.
    OfKernel {
        name: &'static str,
        tunables: Vec<(String, String)>,
    },
}

/// What was written to `scaling_setspeed` of each perf domain; the last goes for all that follow.
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

    /// `CPUFREQ_RELATION_L`: the lowest OPP at or above what was set, or the highest.
    pub fn opp(&self, domain: usize, freqs_khz: &[u32]) -> usize {
        let khz = self.khz(domain);
        let highest = freqs_khz.len().saturating_sub(1);
        freqs_khz.partition_point(|freq| *freq < khz).min(highest)
    }
}

impl fmt::Display for SetSpeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [.., last] = self.0;
        let told = self.0.iter().rposition(|khz| *khz != last).map_or(1, |index| index + 2);
        let texts: Vec<String> = self.0[..told].iter().map(u32::to_string).collect();
        f.write_str(&texts.join("/"))
    }
}

impl Cpufreq {
    /// What is no file: it decides nothing.
    pub const HELD: [&str; 3] = ["performance", "powersave", "userspace"];

    /// What hosted kernels alone have.
    pub const OF_KERNELS: [&str; 2] = ["conservative", "ondemand"];

    /// The policy that decides, if one does.
    pub fn policy(&self) -> Option<&CpufreqSpec> {
        match self {
            Cpufreq::Policy(spec) => Some(spec),
            _ => None,
        }
    }

    /// Nothing decides.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self, Cpufreq::Performance | Cpufreq::Powersave | Cpufreq::Userspace(_))
    }

    /// The kernel whose order of steps the run follows.
    pub fn release(&self) -> Release {
        self.policy().map_or(Release::default(), CpufreqSpec::release)
    }

    /// The file that a hosted kernel is linked with, if it does not have the governor itself.
    pub(crate) fn linked(&self) -> Option<&CpufreqSpec> {
        self.policy().filter(|spec| !matches!(spec.place(), Place::Builtin { .. }))
    }

    /// In a hosted kernel.
    pub(crate) fn hosted(&self, clusters: usize) -> torpor_kernel::Cpufreq {
        let of = torpor_kernel::Cpufreq::of;
        match self {
            Cpufreq::Performance => of("performance"),
            Cpufreq::Powersave => of("powersave"),
            Cpufreq::Userspace(speeds) => torpor_kernel::Cpufreq {
                set_khz: (0..clusters).map(|n| speeds.khz(n)).collect(),
                ..of("userspace")
            },
            Cpufreq::Policy(spec) => {
                torpor_kernel::Cpufreq { tunables: spec.params().to_vec(), ..of(SCHEDUTIL) }
            }
            Cpufreq::OfKernel { name, tunables } => {
                torpor_kernel::Cpufreq { tunables: tunables.clone(), ..of(name) }
            }
        }
    }
}

impl From<CpufreqGovernor> for Cpufreq {
    fn from(governor: CpufreqGovernor) -> Cpufreq {
        match governor {
            CpufreqGovernor::Performance => Cpufreq::Performance,
            CpufreqGovernor::Powersave => Cpufreq::Powersave,
            CpufreqGovernor::Schedutil => Cpufreq::Policy(SCHEDUTIL.parse().expect("it is a name")),
        }
    }
}

impl fmt::Display for Cpufreq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cpufreq::Performance => f.write_str("performance"),
            Cpufreq::Powersave => f.write_str("powersave"),
            Cpufreq::Userspace(speeds) => write!(f, "userspace,freq_khz={speeds}"),
            Cpufreq::Policy(spec) => spec.fmt(f),
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
        let held = match name {
            "performance" => Cpufreq::Performance,
            "powersave" => Cpufreq::Powersave,
            "userspace" => {
                let speeds = rest.strip_prefix(",freq_khz=").and_then(SetSpeeds::parse);
                let wanted = "userspace has freq_khz: of all perf domains, or of each, up to 4";
                return speeds.map(Cpufreq::Userspace).ok_or_else(|| SimError::Option {
                    what: wanted,
                    given: text.to_owned(),
                    hint: "--cpufreq userspace,freq_khz=408000/1008000".to_owned(),
                });
            }
            _ => {
                if let Some(name) = Cpufreq::OF_KERNELS.into_iter().find(|known| *known == name) {
                    let tunables = tunables(text, rest)?;
                    return Ok(Cpufreq::OfKernel { name, tunables });
                }
                let spec: CpufreqSpec = text.parse()?;
                return match spec.place() {
                    Place::Builtin { name } if Catalog::cpufreq_names().all(|n| n != name) => {
                        let known = Cpufreq::HELD.into_iter().chain(Cpufreq::OF_KERNELS);
                        let known = known.chain(Catalog::cpufreq_names());
                        let otherwise = format!("a file needs a path with `.c` (`./{name}.c`)");
                        let unknown = UnknownName::new("frequency policy", name, known, otherwise);
                        Err(SimError::UnknownCpufreq(unknown))
                    }
                    _ => Ok(Cpufreq::Policy(spec)),
                };
            }
        };
        if rest.is_empty() {
            return Ok(held);
        }
        Err(SimError::Option {
            what: "performance and powersave have no version and no parameters",
            given: text.to_owned(),
            hint: format!("--cpufreq {name}"),
        })
    }
}

/// `,NAME=VALUE...`
fn tunables(text: &str, rest: &str) -> Result<Vec<(String, String)>, SimError> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    let wrong = || SimError::Option {
        what: "a tunable of a frequency governor is NAME=VALUE, as its file in sysfs has them",
        given: text.to_owned(),
        hint: "--cpufreq ondemand,up_threshold=90".to_owned(),
    };
    match rest.strip_prefix(',') {
        Some(list) => list.split(',').map(pair).collect::<Option<_>>().ok_or_else(wrong),
        None if rest.is_empty() => Ok(Vec::new()),
        None => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_reads_as_it_prints() {
        for text in [
            "performance",
            "powersave",
            "userspace,freq_khz=1008000",
            "userspace,freq_khz=408000/1008000",
            "userspace,freq_khz=1/2/2/1",
            "schedutil",
            "schedutil@6.1",
            "schedutil@6.1,rate_limit_us=500",
            "schedutil,rate_limit_us=500",
            "ondemand",
            "conservative,up_threshold=90,down_threshold=30",
            "./mine.c",
            "./a@b/mine.c@6.1,x=1",
        ] {
            assert_eq!(text.parse::<Cpufreq>().unwrap().to_string(), text);
        }
        assert_eq!("schedutil@6.12".parse::<Cpufreq>().unwrap().to_string(), "schedutil");
    }

    #[test]
    fn a_set_speed_is_the_lowest_opp_that_is_not_below_it() {
        let Ok(Cpufreq::Userspace(speeds)) = "userspace,freq_khz=600000/1000000".parse() else {
            panic!("a policy");
        };
        let opps = [408_000, 600_000, 816_000];
        let chosen: Vec<usize> = (0..5).map(|domain| speeds.opp(domain, &opps)).collect();
        assert_eq!(chosen, [1, 2, 2, 2, 2], "the highest where none is high enough");
        assert_eq!(speeds.opp(0, &[]), 0, "OPPs that are not known");
    }

    #[test]
    fn a_wrong_policy_says_what_is_allowed() {
        for (text, allowed) in [
            ("interactive", "performance, powersave, userspace, conservative, ondemand, schedutil"),
            ("ondemand,up_threshold", "is NAME=VALUE"),
            ("ondemand@6.1", "is NAME=VALUE"),
            ("userspace", "has freq_khz"),
            ("userspace,freq_khz=fast", "has freq_khz"),
            ("userspace,freq_khz=1/2/3/4/5", "up to 4"),
            ("powersave,rate_limit_us=1", "no parameters"),
            ("performance@6.1", "no version"),
            ("schedutil@5.4", "`@6.1` or `@6.12`"),
            ("./mine.c@", "`@6.1` or `@6.12`"),
            ("schedutil,rate_limit_us", "a parameter is NAME=VALUE"),
            ("schedutil,rate_limit_us=1,rate_limit_us=2", "given twice"),
        ] {
            let error = text.parse::<Cpufreq>().unwrap_err().to_string();
            assert!(error.contains(allowed) && error.contains(text), "{error}");
        }
    }
}
