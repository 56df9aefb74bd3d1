// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Hardware that puts a CPU into another state than the one requested.
//!
//! Intel describes its own (`MSR_PKG_CST_CONFIG_CONTROL`, C1 and C3 auto-demotion and undemotion): a
//! request for a deep state gets a shallower one until the core's recent residency is long enough,
//! and a demoted core that stays idle enters the deep state by itself. The thresholds are not
//! published; a platform file sets them. C1E promotion (`MSR_IA32_POWER_CTL`, bit 1) gives each
//! request for C1 the deeper C1E.

use crate::units::Duration;

/// Demotion of requests for one state, or their promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demotion {
    /// The state entered instead.
    pub to: usize,
    /// Number of consecutive sleeps shorter than `short` after which requests are demoted, until a
    /// sleep is longer; 0 if each request is moved.
    pub after: u32,
    pub short: Duration,
    /// Time after which a demoted CPU enters the requested state.
    pub undemote: Option<Duration>,
}

/// Hardware's memory of one CPU's sleeps.
#[derive(Clone, Debug, Default)]
pub struct SleepHistory {
    /// By requested state, short sleeps in a row.
    short: [u32; 10],
}

impl Demotion {
    /// Every request enters the deeper state `to`.
    pub fn promotion(to: usize) -> Demotion {
        Demotion { to, after: 0, short: Duration::ZERO, undemote: None }
    }
}

impl SleepHistory {
    /// Returns the state that a request for `state` gets.
    pub fn got(&self, state: usize, demotion: Option<Demotion>) -> usize {
        demotion.filter(|rule| self.short[state] >= rule.after).map_or(state, |rule| rule.to)
    }

    /// Records the residency of a sleep for which `state` was requested.
    pub fn slept(&mut self, state: usize, demotion: Option<Demotion>, residency: Duration) {
        let Some(rule) = demotion else { return };
        let short = &mut self.short[state];
        *short = if residency < rule.short { short.saturating_add(1) } else { 0 };
    }
}
