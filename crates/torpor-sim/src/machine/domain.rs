// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Clocks: the frequency of a cluster's CPUs, and how long they had it.

use super::task::FULL_SPEED;
use torpor_machine::platform::Cluster;
use torpor_machine::units::{Duration, Instant};

/// `SCHED_CAPACITY_SCALE`.
const SCALE: i64 = 1024;

/// The clock that a cluster's CPUs share.
pub(super) struct Domain {
    /// The frequencies of its OPPs, ascending; empty if unknown.
    freqs_khz: Vec<u32>,
    pub opp: u16,
    /// The OPP that the kernel has requested, and the highest that each limit allows.
    requested: u16,
    caps: [u16; Limit::COUNT],
    since: Instant,
    time_at: Vec<Duration>,
    transitions: u64,
    limited: [Duration; Limit::COUNT],
}

/// What holds a clock below the frequency that the kernel has requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Power of the package.
    Power,
    /// The number of active cores.
    Turbo,
}

impl Limit {
    pub const COUNT: usize = 2;
}

/// Counters of a clock over a run.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DomainCounted {
    pub transitions: u64,
    /// Time at each OPP; one entry if no OPP is known.
    pub time_at: Vec<Duration>,
    /// Time below the requested frequency, by the limit that held it there.
    pub limited: [Duration; Limit::COUNT],
}

impl Domain {
    /// Starts at the highest frequency, which lasts until the governor's first decision.
    pub(super) fn new(cluster: &Cluster) -> Domain {
        let freqs_khz: Vec<u32> = cluster.opps.iter().map(|opp| opp.freq_khz).collect();
        let highest = freqs_khz.len().saturating_sub(1) as u16;
        Domain {
            opp: highest,
            requested: highest,
            caps: [highest; Limit::COUNT],
            limited: [Duration::ZERO; Limit::COUNT],
            since: Instant(0),
            time_at: vec![Duration::ZERO; freqs_khz.len().max(1)],
            transitions: 0,
            freqs_khz,
        }
    }

    pub(super) fn opp_count(&self) -> usize {
        self.time_at.len()
    }

    /// The highest frequency; 0 if unknown.
    pub(super) fn khz_max(&self) -> u64 {
        self.freqs_khz.last().map_or(0, |khz| u64::from(*khz))
    }

    pub(super) fn freq_khz(&self) -> Option<u32> {
        self.freqs_khz.get(usize::from(self.opp)).copied()
    }

    /// Returns the OPP of a frequency; 0 kHz stands for the highest.
    pub(super) fn opp_of(&self, khz: u32) -> u16 {
        let last = self.time_at.len() - 1;
        let found = self.freqs_khz.iter().position(|freq| *freq >= khz && khz > 0);
        found.unwrap_or(last) as u16
    }

    pub(super) fn requested(&self) -> u16 {
        self.requested
    }

    /// Returns the frequency that the kernel has requested.
    pub(super) fn requested_khz(&self) -> Option<u32> {
        self.freqs_khz.get(usize::from(self.requested)).copied()
    }

    /// Returns the OPP that the clock has if the kernel requests this one.
    pub(super) fn within_limits(&self, requested: u16) -> u16 {
        self.caps.iter().fold(requested, |opp, cap| opp.min(*cap))
    }

    /// Sets the highest OPP that a limit allows; false if it was that already.
    pub(super) fn set_cap(&mut self, limit: Limit, cap: u16, now: Instant) -> bool {
        if self.caps[limit as usize] == cap {
            return false;
        }
        self.pass(now);
        self.caps[limit as usize] = cap;
        true
    }

    /// Changes to what the kernel requests, within the limits; false if the clock has that already.
    pub(super) fn request(&mut self, requested: u16, now: Instant) -> bool {
        if requested != self.requested {
            self.pass(now);
            self.requested = requested;
        }
        let opp = self.within_limits(requested);
        if opp == self.opp {
            return false;
        }
        self.pass(now);
        self.opp = opp;
        // The governor's first choice comes with its start.
        self.transitions += u64::from(now > Instant(0));
        true
    }

    /// Returns the work that a CPU of this capacity does in a ns.
    pub(super) fn speed(&self, capacity: u32) -> i64 {
        let full = i64::from(capacity) * (FULL_SPEED / SCALE);
        match (self.freq_khz(), self.freqs_khz.last()) {
            (Some(khz), Some(&highest)) => (full * i64::from(khz) / i64::from(highest)).max(1),
            _ => full,
        }
    }

    fn pass(&mut self, now: Instant) {
        let time = now.since(self.since);
        self.time_at[usize::from(self.opp)] += time;
        if self.opp < self.requested {
            let [power, turbo] = self.caps;
            let limit = if power < turbo { Limit::Power } else { Limit::Turbo };
            self.limited[limit as usize] += time;
        }
        self.since = now;
    }

    /// Resets the counters.
    pub(super) fn start_over(&mut self, now: Instant) {
        self.take(now);
    }

    /// Takes what has been counted.
    pub(super) fn take(&mut self, now: Instant) -> DomainCounted {
        self.pass(now);
        let none = vec![Duration::ZERO; self.time_at.len()];
        DomainCounted {
            transitions: std::mem::take(&mut self.transitions),
            time_at: std::mem::replace(&mut self.time_at, none),
            limited: std::mem::replace(&mut self.limited, [Duration::ZERO; Limit::COUNT]),
        }
    }
}
