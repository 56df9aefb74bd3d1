// SPDX-License-Identifier: MIT OR GPL-2.0-only
use std::fmt;
use torpor_machine::units::shown;

/// What a C file decides about, and so what it registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Kind {
    /// Idle states: a `struct cpuidle_governor`.
    Governor,
    /// How far waiting for IO raises utilization: a `struct ioboost_ops`.
    IoBoost,
    /// The frequency of a clock: a `struct cpufreq_governor`.
    Cpufreq,
}

impl Kind {
    /// What such a policy is called.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Kind::Governor => "governor",
            Kind::IoBoost => "IO boost",
            Kind::Cpufreq => "frequency policy",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.noun())
    }
}

/// What a message is about, as the user named it. Prints as "governor `teo`".
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
