// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! What sets the frequencies of the simulated machine.
//!
//! FIDELITY(sim-frequency): a change takes the time the platform tells, and nobody's work; idle
//! states, and ticks in them, take as long at any frequency.

mod schedutil;

pub use schedutil::{CpuDemand, Release, Schedutil, rate_limit, with_headroom};

use crate::error::SimError;
use std::fmt;
use std::str::FromStr;
use torpor_platform::CpufreqGovernor;
use torpor_units::{Duration, UnknownName};

/// A frequency policy as it is asked for: `schedutil@6.1,rate_limit_us=500`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpufreq {
    Performance,
    Powersave,
    /// Held where somebody has set it: of each perf domain, in the platform's order.
    Userspace(SetSpeeds),
    Schedutil {
        release: Release,
        /// In place of the platform's.
        rate_limit: Option<Duration>,
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

/// `rate_limit_us` is an unsigned int; no run lasts for longer.
const RATE_LIMIT_MAX_US: i64 = u32::MAX as i64;

impl Cpufreq {
    pub fn is_schedutil(self) -> bool {
        matches!(self, Cpufreq::Schedutil { .. })
    }

    /// The kernel whose order of steps the run follows.
    pub fn release(self) -> Release {
        match self {
            Cpufreq::Schedutil { release, .. } => release,
            _ => Release::default(),
        }
    }
}

impl From<CpufreqGovernor> for Cpufreq {
    fn from(governor: CpufreqGovernor) -> Cpufreq {
        match governor {
            CpufreqGovernor::Performance => Cpufreq::Performance,
            CpufreqGovernor::Powersave => Cpufreq::Powersave,
            CpufreqGovernor::Schedutil => {
                Cpufreq::Schedutil { release: Release::default(), rate_limit: None }
            }
        }
    }
}

impl fmt::Display for Cpufreq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cpufreq::Performance => f.write_str("performance"),
            Cpufreq::Powersave => f.write_str("powersave"),
            Cpufreq::Userspace(speeds) => write!(f, "userspace,freq_khz={speeds}"),
            Cpufreq::Schedutil { release, rate_limit } => {
                f.write_str("schedutil")?;
                if *release != Release::default() {
                    write!(f, "@{}", release.name())?;
                }
                match rate_limit {
                    Some(limit) => write!(f, ",rate_limit_us={}", limit.0 / 1_000),
                    None => Ok(()),
                }
            }
        }
    }
}

impl FromStr for Cpufreq {
    type Err = SimError;

    fn from_str(text: &str) -> Result<Cpufreq, SimError> {
        let wrong = |what| SimError::Option {
            what,
            given: text.to_owned(),
            hint: "--cpufreq schedutil@6.12,rate_limit_us=1000".to_owned(),
        };
        let mut parts = text.split(',');
        let head = parts.next().unwrap_or(text);
        let (name, release) = match head.split_once('@') {
            Some((name, release)) => (name, Some(release)),
            None => (head, None),
        };
        let mut cpufreq = match name {
            "performance" => Cpufreq::Performance,
            "powersave" => Cpufreq::Powersave,
            "schedutil" => CpufreqGovernor::Schedutil.into(),
            "userspace" => {
                let speeds = text.strip_prefix("userspace,freq_khz=").and_then(SetSpeeds::parse);
                let wanted = "userspace has freq_khz: of all perf domains, or of each, up to 4";
                return speeds.map(Cpufreq::Userspace).ok_or_else(|| SimError::Option {
                    what: wanted,
                    given: text.to_owned(),
                    hint: "--cpufreq userspace,freq_khz=408000/1008000".to_owned(),
                });
            }
            _ => {
                let known = ["performance", "powersave", "schedutil", "userspace"];
                let unknown = UnknownName::new("frequency policy", name, known, "");
                return Err(SimError::UnknownCpufreq(unknown));
            }
        };
        for param in release.map(Param::Release).into_iter().chain(parts.map(Param::Other)) {
            let Cpufreq::Schedutil { release, rate_limit } = &mut cpufreq else {
                return Err(wrong("only schedutil has a version and parameters"));
            };
            match param {
                Param::Release(name) => {
                    *release = Release::named(name)
                        .ok_or_else(|| wrong("schedutil is that of Linux 6.1 or 6.12"))?;
                }
                Param::Other(param) => {
                    let value =
                        param.strip_prefix("rate_limit_us=").filter(|_| rate_limit.is_none());
                    let value = value
                        .ok_or_else(|| wrong("schedutil's one parameter is rate_limit_us, once"))?;
                    let us = value.parse().ok().filter(|us| (0..=RATE_LIMIT_MAX_US).contains(us));
                    let us = us.ok_or_else(|| wrong("rate_limit_us is 0 to 4294967295"))?;
                    *rate_limit = Some(Duration::from_us(us));
                }
            }
        }
        Ok(cpufreq)
    }
}

/// What follows a policy's name: after `@`, or after a comma.
enum Param<'a> {
    Release(&'a str),
    Other(&'a str),
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
            "schedutil,rate_limit_us=500",
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
            ("ondemand", "performance, powersave, schedutil, userspace"),
            ("userspace", "has freq_khz"),
            ("userspace,freq_khz=fast", "has freq_khz"),
            ("userspace,freq_khz=1/2/3/4/5", "up to 4"),
            ("powersave,rate_limit_us=1", "only schedutil"),
            ("schedutil@5.4", "6.1 or 6.12"),
            ("schedutil,rate_limit_us=-1", "0 to 4294967295"),
            ("schedutil,up_rate_limit_us=1", "one parameter"),
            ("schedutil,@=6.1", "one parameter"),
            ("schedutil,rate_limit_us", "one parameter"),
            ("schedutil,rate_limit_us=1,rate_limit_us=2", "rate_limit_us, once"),
        ] {
            let error = text.parse::<Cpufreq>().unwrap_err().to_string();
            assert!(error.contains(allowed) && error.contains(text), "{error}");
        }
    }
}
