// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Limits that hardware puts on frequencies, whatever the kernel requests: of the package's power
//! (RAPL), and of the cores that are active at a time (turbo).

use crate::units::{Duration, Power};

/// Limits of the package's power, and how often the hardware looks at them and at active cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub interval: Duration,
    /// All of them apply.
    pub power: Vec<PowerLimit>,
}

/// A constraint of RAPL: the running average of the package's power stays at or below `power`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerLimit {
    /// `long_term` or `short_term` in powercap's sysfs.
    pub name: String,
    pub power: Power,
    /// Time constant of the average.
    pub window: Duration,
}

/// The highest frequencies of a cluster, by the number of its active cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turbo {
    /// OPP for 1 active core, 2 and so on; the last one is for all others, too.
    pub opps: Vec<u16>,
    /// A core whose threads are all in this state or a deeper one is not active.
    pub inactive_from: usize,
}

impl Turbo {
    /// Returns the highest OPP with that many active cores.
    pub fn opp(&self, active: usize) -> u16 {
        let last = self.opps.len().saturating_sub(1);
        self.opps.get(active.saturating_sub(1).min(last)).copied().unwrap_or(u16::MAX)
    }
}
