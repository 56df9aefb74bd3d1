// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Hardware that puts a CPU into a shallower state than the one requested.
//!
//! Intel describes its own (`MSR_PKG_CST_CONFIG_CONTROL`, C1 and C3 auto-demotion and undemotion): a
//! request for a deep state gets a shallower one until the core's recent residency is long enough,
//! and a demoted core that stays idle goes on to the deep state by itself. How much of either is
//! nowhere published; a platform's file says it.

use crate::units::Duration;

/// Demotion of requests for one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demotion {
    /// The state entered instead.
    pub to: usize,
    /// So many sleeps in a row, each shorter than `short`, and the next requests are demoted; a
    /// longer one ends that.
    pub after: u32,
    pub short: Duration,
    /// From then on a demoted CPU enters the requested state after all.
    pub undemote: Option<Duration>,
}

/// Hardware's memory of one CPU's sleeps.
#[derive(Clone, Debug, Default)]
pub struct SleepHistory {
    /// By requested state, short sleeps in a row.
    short: [u32; 10],
}

impl SleepHistory {
    /// The state that a request for `state` gets.
    pub fn got(&self, state: usize, demotion: Option<Demotion>) -> usize {
        demotion.filter(|rule| self.short[state] >= rule.after).map_or(state, |rule| rule.to)
    }

    /// A sleep for which `state` was requested has lasted so long.
    pub fn slept(&mut self, state: usize, demotion: Option<Demotion>, residency: Duration) {
        let Some(rule) = demotion else { return };
        let short = &mut self.short[state];
        *short = if residency < rule.short { short.saturating_add(1) } else { 0 };
    }
}
