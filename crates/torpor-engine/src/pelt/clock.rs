// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A runqueue's clock, which runs slower on a small or slow CPU.

use super::average::{DIVIDER_MIN, SCALE_SHIFT, SUM_MAX};

/// `rq_clock_pelt()`. While a task runs it advances as fast as work gets done; when the CPU falls
/// idle it catches up with real time, as if the work had been done sooner and the rest had been
/// idle time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    real_ns: u64,
    scaled_ns: u64,
    /// A CPU without idle time cannot catch up: this time is lost.
    lost_ns: u64,
}

impl Clock {
    /// Advances to `real_ns`. `capacity` and `freq` are 1024 for the biggest CPU at its highest
    /// frequency.
    pub fn advance(&mut self, real_ns: u64, is_idle: bool, capacity: u32, freq: u32) {
        let passed = real_ns.wrapping_sub(self.real_ns);
        self.real_ns = real_ns;
        if is_idle {
            self.scaled_ns = real_ns;
        } else {
            let scaled = (passed.wrapping_mul(u64::from(capacity))) >> SCALE_SHIFT;
            let scaled = (scaled.wrapping_mul(u64::from(freq))) >> SCALE_SHIFT;
            self.scaled_ns = self.scaled_ns.wrapping_add(scaled);
        }
    }

    /// Goes idle after the last task; `util_sum` is that of all classes.
    pub fn fall_idle(&mut self, util_sum: u32) {
        if util_sum >= (DIVIDER_MIN << SCALE_SHIFT) - SUM_MAX {
            let behind = self.real_ns.wrapping_sub(self.scaled_ns);
            self.lost_ns = self.lost_ns.wrapping_add(behind);
        }
        self.scaled_ns = self.real_ns;
    }

    pub fn real_ns(&self) -> u64 {
        self.real_ns
    }

    pub fn now_ns(&self) -> u64 {
        self.scaled_ns.wrapping_sub(self.lost_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_capacity_takes_twice_as_long() {
        let mut clock = Clock::default();
        clock.advance(1_000, true, 512, 1024);
        clock.advance(3_000, false, 512, 1024);
        assert_eq!(clock.now_ns(), 2_000);
        // Half the frequency on top: a quarter.
        clock.advance(7_000, false, 512, 512);
        assert_eq!(clock.now_ns(), 3_000);
        clock.fall_idle(1_000);
        assert_eq!(clock.now_ns(), 7_000);
        clock.advance(8_000, true, 512, 512);
        assert_eq!(clock.now_ns(), 8_000);
    }

    #[test]
    fn always_busy_cpu_has_no_idle_time() {
        let mut clock = Clock::default();
        clock.advance(8_000, false, 512, 1024);
        clock.fall_idle(46_718 << 10);
        assert_eq!(clock.now_ns(), 4_000);
        clock.advance(9_000, true, 512, 1024);
        assert_eq!(clock.now_ns(), 5_000);
    }
}
