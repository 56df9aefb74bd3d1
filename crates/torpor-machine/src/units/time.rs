// SPDX-License-Identifier: MIT OR GPL-2.0-only
use crate::units::ids::{number, operators};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;
use std::ops::Neg;

pub const NSEC_PER_USEC: i64 = 1_000;
pub const NSEC_PER_SEC: i64 = 1_000_000_000;

number! {
    /// A point in time: nanoseconds of the recording's clock (or since the start of a simulation).
    pub struct Instant(i64);
}

number! {
    /// A signed length of time in nanoseconds.
    ///
    /// Signed because the kernel's sleep length is: a timer may already be overdue.
    pub struct Duration(i64);
}

impl Instant {
    /// Later than every event: "no timer armed".
    pub const NEVER: Instant = Instant(i64::MAX);

    /// Time since `earlier`; `Duration::MAX` when `self` is [`Instant::NEVER`].
    #[inline]
    pub const fn since(self, earlier: Instant) -> Duration {
        if self.0 == i64::MAX { Duration::MAX } else { Duration(self.0.saturating_sub(earlier.0)) }
    }

    /// The same for a time that is not in the future, without a check, because a replay does it at
    /// every step.
    #[inline]
    pub fn passed_since(self, earlier: Instant) -> Duration {
        Duration(difference(self.0, earlier.0))
    }
}

impl Duration {
    pub const ZERO: Duration = Duration(0);
    /// The kernel's `KTIME_MAX`: no bound.
    pub const MAX: Duration = Duration(i64::MAX);

    pub const fn from_us(us: i64) -> Duration {
        Duration(us.saturating_mul(NSEC_PER_USEC))
    }

    pub const fn ns(self) -> i64 {
        self.0
    }

    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / NSEC_PER_USEC as f64
    }

    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }
}

/// `saturating_add`, with a branch that is never taken instead of a select that always runs,
/// because a replay adds times at every step.
#[inline]
fn sum(a: i64, b: i64) -> i64 {
    a.checked_add(b).unwrap_or_else(|| end_of_time(b.is_negative()))
}

#[inline]
fn difference(a: i64, b: i64) -> i64 {
    a.checked_sub(b).unwrap_or_else(|| end_of_time(!b.is_negative()))
}

#[cold]
fn end_of_time(is_first: bool) -> i64 {
    if is_first { i64::MIN } else { i64::MAX }
}

operators! {
    // Saturates, so that `Instant::NEVER` and `Duration::MAX` stay what they mean.
    Instant: Add::add, AddAssign::add_assign(Duration), |a, b| sum(a, b);
    Duration: Add::add, AddAssign::add_assign(Duration), |a, b| sum(a, b);
    Instant: Sub::sub, SubAssign::sub_assign(Duration), |a, b| difference(a, b);
    Duration: Sub::sub, SubAssign::sub_assign(Duration), |a, b| difference(a, b);
}

impl Neg for Duration {
    type Output = Duration;
    #[inline]
    fn neg(self) -> Duration {
        Duration(self.0.saturating_neg())
    }
}

impl fmt::Display for Instant {
    /// Seconds with nanosecond digits, as trace tools print stamps.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Instant::NEVER {
            return f.write_str("never");
        }
        let sign = if self.0 < 0 { "-" } else { "" };
        let (ns, second) = (self.0.unsigned_abs(), NSEC_PER_SEC.unsigned_abs());
        write!(f, "{sign}{}.{:09} s", ns.div_euclid(second), ns.rem_euclid(second))
    }
}

impl fmt::Display for Duration {
    /// The largest unit that keeps the value at or above 1, three digits after the point.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        if *self == Duration::MAX {
            f.write_str("unbounded")
        } else if magnitude >= 1_000_000_000 {
            write!(f, "{:.3} s", self.0 as f64 / 1e9)
        } else if magnitude >= 1_000_000 {
            write!(f, "{:.3} ms", self.0 as f64 / 1e6)
        } else if magnitude >= 1_000 {
            write!(f, "{:.3} us", self.0 as f64 / 1e3)
        } else {
            write!(f, "{} ns", self.0)
        }
    }
}

/// The kernel's tick rate. Only the rates that `kernel/Kconfig.hz` offers exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize)]
#[serde(into = "u32")]
pub enum Hz {
    H100,
    H250,
    H300,
    H1000,
}

impl Hz {
    pub const ALL: [Hz; 4] = [Hz::H100, Hz::H250, Hz::H300, Hz::H1000];

    pub const fn get(self) -> u32 {
        match self {
            Hz::H100 => 100,
            Hz::H250 => 250,
            Hz::H300 => 300,
            Hz::H1000 => 1000,
        }
    }

    pub fn from_u32(hz: u32) -> Option<Hz> {
        Hz::ALL.into_iter().find(|h| h.get() == hz)
    }

    /// `TICK_NSEC`: (10⁹ + HZ/2) / HZ, the kernel's rounding.
    #[inline]
    pub const fn tick(self) -> Duration {
        Duration(match self {
            Hz::H100 => 10_000_000,
            Hz::H250 => 4_000_000,
            Hz::H300 => 3_333_333,
            Hz::H1000 => 1_000_000,
        })
    }
}

impl From<Hz> for u32 {
    fn from(hz: Hz) -> u32 {
        hz.get()
    }
}

impl fmt::Display for Hz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Hz", self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_is_rounded_as_the_kernel_rounds_it() {
        assert_eq!(Hz::H300.tick(), Duration(3_333_333));
        assert_eq!(Hz::H250.tick(), Duration(4_000_000));
    }

    #[test]
    fn never_stays_never() {
        assert_eq!(Instant::NEVER + Duration(5), Instant::NEVER);
        assert_eq!(Instant::NEVER.since(Instant(5)), Duration::MAX);
    }

    #[test]
    fn a_duration_prints_with_its_unit() {
        assert_eq!(Duration(1_500).to_string(), "1.500 us");
        assert_eq!(Duration(-2_000_000).to_string(), "-2.000 ms");
        assert_eq!(Instant(1_000_000_042).to_string(), "1.000000042 s");
    }
}
