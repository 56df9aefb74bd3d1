// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One decaying average: of a task, or of a CPU's runqueue.

/// Units of time (1024 ns each) in a period.
const PERIOD: u64 = 1024;
const HALF_LIFE_PERIODS: u64 = 32;
/// Sums vanish after this many periods.
const MEMORY_PERIODS: u64 = 63 * HALF_LIFE_PERIODS;
/// Sum of a signal that is always on, with the rounding of [`decay`].
pub(super) const SUM_MAX: u32 = 47_742;
/// `SUM_MAX` at the very start of a period.
pub(super) const DIVIDER_MIN: u32 = SUM_MAX - PERIOD as u32;
/// Utilization is in 1024ths of the biggest CPU.
pub(super) const SCALE_SHIFT: u32 = 10;

/// 2^(-n/32) of 2^32 - 1, rounded down.
const DECAY: [u32; HALF_LIFE_PERIODS as usize] = [
    0xffffffff, 0xfa83b2da, 0xf5257d14, 0xefe4b99a, 0xeac0c6e6, 0xe5b906e6, 0xe0ccdeeb, 0xdbfbb796,
    0xd744fcc9, 0xd2a81d91, 0xce248c14, 0xc9b9bd85, 0xc5672a10, 0xc12c4cc9, 0xbd08a39e, 0xb8fbaf46,
    0xb504f333, 0xb123f581, 0xad583ee9, 0xa9a15ab4, 0xa5fed6a9, 0xa2704302, 0x9ef5325f, 0x9b8d39b9,
    0x9837f050, 0x94f4efa8, 0x91c3d373, 0x8ea4398a, 0x8b95c1e3, 0x88980e80, 0x85aac367, 0x82cd8698,
];

/// Returns the rest of `sum` after `periods`: half of it after 32.
pub(crate) fn decay(sum: u64, periods: u64) -> u64 {
    if periods > MEMORY_PERIODS {
        return 0;
    }
    let halved = sum >> (periods / HALF_LIFE_PERIODS);
    let factor = DECAY[(periods % HALF_LIFE_PERIODS) as usize];
    ((u128::from(halved) * u128::from(factor)) >> 32) as u64
}

/// Returns the sum of a signal that has been on since the middle of a period, across `periods`
/// borders: the rest of the first period, the full ones between, and the part of the last.
fn accrued(first: u64, periods: u64, last: u64) -> u32 {
    let full = SUM_MAX - decay(u64::from(SUM_MAX), periods) as u32 - PERIOD as u32;
    decay(first, periods) as u32 + full + last as u32
}

/// `struct sched_avg`. Averages are sums divided by their maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Average {
    /// On the [`Clock`](super::Clock) of the CPU, in whole units since it was first set.
    pub updated_ns: u64,
    /// Units of the current period that have passed.
    pub period_units: u32,
    pub load_sum: u64,
    pub runnable_sum: u64,
    pub util_sum: u32,
    pub load_avg: u64,
    pub runnable_avg: u64,
    pub util_avg: u64,
}

impl Average {
    /// Brings the sums up to `now_ns`; `load`, `runnable` and `is_running` held until then. Returns
    /// true if a period has ended: only then the kernel renews the averages.
    pub fn accumulate(&mut self, now_ns: u64, load: u64, runnable: u64, is_running: bool) -> bool {
        let passed_ns = now_ns.wrapping_sub(self.updated_ns);
        if (passed_ns as i64) < 0 {
            self.updated_ns = now_ns;
            return false;
        }
        let units = passed_ns >> 10;
        if units == 0 {
            return false;
        }
        self.updated_ns = self.updated_ns.wrapping_add(units << 10);

        let since_border = units + u64::from(self.period_units);
        let (periods, last) = (since_border / PERIOD, since_border % PERIOD);
        let mut weight = units as u32;
        if periods > 0 {
            self.load_sum = decay(self.load_sum, periods);
            self.runnable_sum = decay(self.runnable_sum, periods);
            self.util_sum = decay(u64::from(self.util_sum), periods) as u32;
            if load > 0 {
                weight = accrued(PERIOD - u64::from(self.period_units), periods, last);
            }
        }
        self.period_units = last as u32;

        // A task without load neither runs nor waits.
        if load > 0 {
            let weight = u64::from(weight);
            self.load_sum = self.load_sum.wrapping_add(load.wrapping_mul(weight));
            let runnable = runnable.wrapping_mul(weight) << SCALE_SHIFT;
            self.runnable_sum = self.runnable_sum.wrapping_add(runnable);
            if is_running {
                self.util_sum = self.util_sum.wrapping_add((weight << SCALE_SHIFT) as u32);
            }
        }
        periods > 0
    }

    /// Renews the averages; `load` is the weight of what `load_sum` counts.
    pub fn average(&mut self, load: u64) {
        let divider = u64::from(self.divider());
        self.load_avg = load.wrapping_mul(self.load_sum) / divider;
        self.runnable_avg = self.runnable_sum / divider;
        self.util_avg = u64::from(self.util_sum) / divider;
    }

    /// Brings the sums up to `now_ns`, and renews the averages if a period has ended.
    pub fn update(&mut self, now_ns: u64, is_running: bool) {
        let running = u64::from(is_running);
        if self.accumulate(now_ns, running, running, is_running) {
            self.average(1);
        }
    }

    /// Returns the maximum of a sum at this point of the period.
    pub fn divider(&self) -> u32 {
        DIVIDER_MIN + self.period_units
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: u64 = 1_048_576;

    #[test]
    fn factors_are_the_powers_of_the_half_life() {
        for (n, factor) in DECAY.iter().enumerate() {
            let exact = f64::from(u32::MAX) * 0.5_f64.powf(n as f64 / 32.0);
            assert_eq!(*factor, exact as u32, "after {n} periods");
        }
        assert_eq!(decay(1 << 20, 64), (1 << 18) - 1, "a quarter, rounded down");
        assert_eq!(decay(u64::MAX, 2017), 0);
    }

    /// Returns the periods of running, one update each, until the average is at least `util`.
    fn periods_to_reach(util: u64) -> u64 {
        let mut average = Average::default();
        let reached = |n: &u64| {
            average.update(n * PERIOD_NS, true);
            average.util_avg >= util
        };
        (1..1_000).find(reached).expect("it gets there")
    }

    #[test]
    fn busy_cpu_is_half_utilized_after_one_half_life() {
        assert_eq!(periods_to_reach(512), 32, "33.6 ms");
        assert_eq!(periods_to_reach(816), 74, "77.6 ms, four fifths");
    }

    #[test]
    fn utilization_decays_in_200_ms() {
        let mut average = Average::default();
        average.update(1_000 * PERIOD_NS, true);
        assert_eq!(average.util_avg, 1024);
        let left = |periods: u64| {
            let mut idle = average;
            idle.update((1_000 + periods) * PERIOD_NS, false);
            idle.util_avg
        };
        assert_eq!(left(32), 511);
        // Six half-lives: 1024 / 64 = 16.
        assert_eq!((left(191), left(192), left(193)), (16, 15, 15));
    }

    #[test]
    fn averages_are_renewed_only_when_a_period_ends() {
        let mut average = Average::default();
        average.update(PERIOD_NS - 1, true);
        // 1023 whole units of 1024 ns.
        assert_eq!((average.util_sum, average.util_avg), (1023 << 10, 0));
        average.update(PERIOD_NS, true);
        assert_eq!(average.util_avg, u64::from(average.util_sum) / 46_718);
        assert_eq!(average.updated_ns, PERIOD_NS);
    }
}
