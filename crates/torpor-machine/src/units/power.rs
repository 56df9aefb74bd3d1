// SPDX-License-Identifier: MIT OR GPL-2.0-only
use crate::units::Duration;
use crate::units::ids::operators;
use serde::{Deserialize, Serialize};
use std::iter::Sum;
use std::ops::Add;

/// Power in microwatts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Power(pub i64);

/// Energy in femtojoules, the product of microwatts and nanoseconds, so sums stay exact.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Energy(pub i128);

impl Power {
    pub const ZERO: Power = Power(0);

    /// Rounds to the nearest microwatt.
    pub fn from_mw(mw: f64) -> Power {
        Power((mw * 1_000.0).round() as i64)
    }

    pub fn as_mw_f64(self) -> f64 {
        self.0 as f64 / 1_000.0
    }

    /// The energy this power takes over `time`.
    #[inline]
    pub const fn over(self, time: Duration) -> Energy {
        // Two 64-bit numbers cannot exceed it.
        Energy((self.0 as i128).wrapping_mul(time.0 as i128))
    }
}

impl Energy {
    pub const ZERO: Energy = Energy(0);

    pub fn from_uj(uj: f64) -> Energy {
        Energy((uj * 1e9).round() as i128)
    }

    pub fn as_uj_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

operators! {
    Power: Sub::sub, SubAssign::sub_assign(Power), |a, b| a.saturating_sub(b);
    Energy: Add::add, AddAssign::add_assign(Energy), |a, b| a.saturating_add(b);
    Energy: Sub::sub, SubAssign::sub_assign(Energy), |a, b| a.saturating_sub(b);
}

impl Sum for Energy {
    fn sum<I: Iterator<Item = Energy>>(iter: I) -> Energy {
        iter.fold(Energy::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_watt_for_one_second_is_one_joule() {
        let energy = Power::from_mw(1_000.0).over(Duration(1_000_000_000));
        assert_eq!(energy.as_uj_f64(), 1_000_000.0);
    }
}
