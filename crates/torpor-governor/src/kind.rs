// SPDX-License-Identifier: MIT OR GPL-2.0-only
use std::fmt;
use torpor_machine::units::shown;

/// Kind of policy, by the structure that its C file registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Kind {
    /// Idle states: a `struct cpuidle_governor`.
    Governor,
    /// Boost of utilization after a wait for IO: a `struct ioboost_ops`.
    IoBoost,
    /// The frequency of a clock: a `struct cpufreq_governor`.
    Cpufreq,
    /// Which task runs where: a `struct sched_ext_ops`.
    Scheduler,
}

impl Kind {
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Kind::Governor => "governor",
            Kind::IoBoost => "IO boost",
            Kind::Cpufreq => "frequency policy",
            Kind::Scheduler => "scheduler",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.noun())
    }
}

/// Kind and name of a policy in messages: "governor `teo`".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub kind: Kind,
    pub text: Box<str>,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind, shown::line(&self.text))
    }
}
