// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The clock of the events.
//!
//! A trace keeps the clock of its first bundle. The times of later bundles are converted if their
//! clock differs, as it may in a merged file.

use super::wire::{Fields, Value, pick};

/// The clock of a bundle: `ftrace_clock`, and readings of it and of boot time taken together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BundleClock {
    /// `FtraceClock`: 0 the boot clock, 1 unknown, 2 global, 3 local, 4 `CLOCK_MONOTONIC_RAW`.
    pub clock: u64,
    pub ftrace_ns: Option<i64>,
    pub boot_ns: Option<i64>,
}

impl BundleClock {
    /// Returns boot time minus this clock's time.
    fn to_boot_ns(self) -> Option<i64> {
        if self.clock == 0 {
            return Some(0);
        }
        self.boot_ns?.checked_sub(self.ftrace_ns?)
    }
}

/// The clock of the first bundle, to which all times are converted.
#[derive(Debug, Default)]
pub(crate) struct FtraceClock {
    first: Option<BundleClock>,
}

impl FtraceClock {
    /// Returns the offset to add to a bundle's times; `None` if its clock cannot be converted.
    pub(crate) fn offset_ns(&mut self, bundle: &BundleClock) -> Option<i64> {
        let first = self.first.get_or_insert(*bundle);
        if first.clock == bundle.clock {
            return Some(0);
        }
        bundle.to_boot_ns()?.checked_sub(first.to_boot_ns()?)
    }

    /// Returns the number of the clock, if it is known.
    pub(crate) fn number(&self) -> Option<u64> {
        self.first.map(|first| first.clock)
    }

    /// Returns the name in the kernel's `trace_clock`.
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

/// Returns boot time minus `CLOCK_MONOTONIC` of a `ClockSnapshot`: the time spent suspended.
pub(crate) fn boot_minus_mono_ns(snapshot: &[u8]) -> Option<i64> {
    let (mut boot, mut mono) = (None, None);
    for (number, value) in Fields::new(snapshot) {
        if let (1, Value::Bytes(clock)) = (number, value) {
            let [id, time] = pick(clock, [1, 2]).map(|value| value.and_then(Value::number));
            let time = time.and_then(|time| i64::try_from(time).ok());
            match id {
                Some(3) => mono = time,
                Some(6) => boot = time,
                _ => {}
            }
        }
    }
    let suspended = i64::checked_sub(boot?, mono?)?;
    // Without a suspend, the difference is the delay between the two readings. No suspend lasts
    // less than a millisecond.
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
