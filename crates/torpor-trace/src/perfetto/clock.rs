// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Which clock the events are in.
//!
//! A trace keeps the clock of its first bundle. Times move to it only where a later bundle was
//! recorded in another clock, which a recorder does not do by itself but a merged file may.

use super::wire::{Fields, Value};

/// Clock of a bundle: `ftrace_clock` and a pair of readings taken together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BundleClock {
    /// `FtraceClock`: 0 the boot clock, 1 unknown, 2 global, 3 local, 4 `CLOCK_MONOTONIC_RAW`.
    pub clock: u64,
    pub ftrace_ns: Option<i64>,
    pub boot_ns: Option<i64>,
}

impl BundleClock {
    /// Boot time minus this clock's.
    fn to_boot_ns(self) -> Option<i64> {
        if self.clock == 0 {
            return Some(0);
        }
        self.boot_ns?.checked_sub(self.ftrace_ns?)
    }
}

/// The clock of the first bundle, which all events are given in.
#[derive(Debug, Default)]
pub(crate) struct FtraceClock {
    first: Option<BundleClock>,
}

impl FtraceClock {
    /// Returns the offset to add to a bundle's times; `None` if its clock cannot be tied to the
    /// first one's.
    pub(crate) fn offset_ns(&mut self, bundle: &BundleClock) -> Option<i64> {
        let first = self.first.get_or_insert(*bundle);
        if first.clock == bundle.clock {
            return Some(0);
        }
        bundle.to_boot_ns()?.checked_sub(first.to_boot_ns()?)
    }

    /// Spelled as the kernel's `trace_clock` file spells it.
    pub(crate) fn name(&self) -> &'static str {
        match self.first.map_or(0, |first| first.clock) {
            0 => "boot",
            2 => "global",
            3 => "local",
            4 => "mono_raw",
            _ => "unknown",
        }
    }
}

/// Boot time minus `CLOCK_MONOTONIC` in one `ClockSnapshot`: the time spent suspended.
pub(crate) fn boot_minus_mono_ns(snapshot: &[u8]) -> Option<i64> {
    let (mut boot, mut mono) = (None, None);
    for (number, value) in Fields::new(snapshot) {
        if let (1, Value::Bytes(clock)) = (number, value) {
            let (mut id, mut time) = (None, None);
            for (number, value) in Fields::new(clock) {
                match number {
                    1 => id = value.number(),
                    2 => time = value.number().and_then(|time| i64::try_from(time).ok()),
                    _ => {}
                }
            }
            match id {
                Some(3) => mono = time,
                Some(6) => boot = time,
                _ => {}
            }
        }
    }
    let suspended = i64::checked_sub(boot?, mono?)?;
    // The two are read one after the other. A machine that never slept shows only that delay,
    // and no suspend lasts under a millisecond.
    Some(if suspended.abs() < 1_000_000 { 0 } else { suspended })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_clock_is_kept() {
        let mut clock = FtraceClock::default();
        let local = BundleClock { clock: 3, ftrace_ns: Some(100), boot_ns: Some(700) };
        assert_eq!(clock.offset_ns(&local), Some(0));
        // Boot 700 is local 100, so a boot time moves back by 600.
        assert_eq!(clock.offset_ns(&BundleClock::default()), Some(-600));
        let raw = BundleClock { clock: 4, ..BundleClock::default() };
        assert_eq!(clock.offset_ns(&raw), None);
        assert_eq!(clock.name(), "local");
    }

    /// Clock 6 (boot) at 5,000,000 ns, clock 3 (monotonic) at 2,000,000 ns.
    #[test]
    fn time_suspended_is_boot_minus_monotonic() {
        let snapshot = [
            0x0a, 6, 0x08, 6, 0x10, 0xc0, 0x96, 0xb1, 0x02, // 5_000_000
        ];
        assert_eq!(boot_minus_mono_ns(&snapshot), None);
        let snapshot =
            [0x0a, 7, 8, 6, 0x10, 0xc0, 0x96, 0xb1, 0x02, 0x0a, 6, 8, 3, 0x10, 0x80, 0x89, 0x7a];
        assert_eq!(boot_minus_mono_ns(&snapshot), Some(3_000_000));
    }
}
