// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Performance hint sessions: user space steers the `uclamp_min` of the tasks of a flow by how
//! long the last one took. Constants and steps are those of Android 12's power HAL for Pixels
//! (hardware/google/pixel, power-libperfmgr, `PowerHintSession.cpp`, the defaults of its properties).
//!
//! FIDELITY(sim-hint): the HAL takes no time, and its batches are never longer than one flow.

use torpor_machine::units::Duration;

/// `vendor.powerhal.adpf.pid.*`; errors count in 100 us.
const PROPORTIONAL: f64 = 2.0;
const INTEGRAL: f64 = 0.001;
const DERIVATIVE: f64 = 100.0;
/// Limit of the integral term.
const INTEGRAL_MAX: i64 = 512_000;
/// `uclamp.cap_ratio`, a half.
const MIN_MAX: i64 = 512;
/// `uclamp.granularity`: smaller changes are left alone.
const GRANULARITY: i64 = 5;
const UNIT_NS: i64 = 100_000;

/// A session, which begins with the greatest clamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Session {
    integral: i64,
    previous: i64,
    min: i64,
}

impl Session {
    pub(super) fn new() -> Session {
        Session { integral: 0, previous: 0, min: MIN_MAX }
    }

    /// Returns the tasks' clamp.
    pub(super) fn min(&self) -> u16 {
        self.min as u16
    }

    /// Reports a flow that took `took`; returns the tasks' new clamp if it changes.
    pub(super) fn report(&mut self, took: Duration, target: Duration) -> Option<u16> {
        let step = (target.0 / UNIT_NS).max(1);
        let error = (took - target).0 / UNIT_NS;
        let slope = error - self.previous;
        self.previous = error;
        self.integral = (self.integral + error * step).clamp(-INTEGRAL_MAX, INTEGRAL_MAX);
        // Each part loses its fraction, as in the HAL.
        let proportional = (PROPORTIONAL * error as f64) as i64;
        let integral = (INTEGRAL * self.integral as f64) as i64;
        let derivative = (DERIVATIVE * slope as f64 / step as f64) as i64;
        let min = (self.min + proportional + integral + derivative).clamp(0, MIN_MAX);
        if (min - self.min).abs() <= GRANULARITY {
            return None;
        }
        self.min = min;
        Some(min as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 70 % of 16.6 ms, which is 116 units of 100 us.
    const TARGET: Duration = Duration(11_620_000);

    #[test]
    fn session_releases_on_short_flows_and_returns() {
        let mut session = Session::new();
        // 8.62 ms: an error of -30. -60, the integral's -30 * 116 / 1000 = -3, and the slope's
        // 100 * -30 / 116 = -25.
        assert_eq!(session.report(Duration(8_620_000), TARGET), Some(512 - 88));
        // The same again: -60, -6, and no slope.
        assert_eq!(session.report(Duration(8_620_000), TARGET), Some(424 - 66));
        // 13.62 ms: an error of 20. 40; (-6960 + 2320) / 1000 = -4; 100 * 50 / 116 = 43.
        assert_eq!(session.report(Duration(13_620_000), TARGET), Some(358 + 79));
    }

    #[test]
    fn small_change_keeps_the_clamp_in_bounds() {
        let mut session = Session::new();
        // An error of -1 in 116: -2, 0, and 100 * -1 / 116 = 0.
        assert_eq!(session.report(Duration(11_500_000), TARGET), None);
        assert_eq!(session.report(Duration(40_000_000), TARGET), None, "512 is the greatest");
        assert_eq!(session.report(Duration(0), TARGET), Some(0));
        assert_eq!(session.report(Duration(0), TARGET), None);
    }
}
