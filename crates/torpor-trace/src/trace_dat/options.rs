// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Options: facts about the recording, each with a number and a length.

use crate::builder::CPUS_MAX;
use crate::cursor::{Cursor, Endian};
use crate::model::Meta;

pub(crate) const DONE: u16 = 0;
const CPUSTAT: u16 = 2;
pub(crate) const BUFFER: u16 = 3;
const TRACECLOCK: u16 = 4;
const UNAME: u16 = 5;
const OFFSET: u16 = 7;
const CPUCOUNT: u16 = 8;
const TSC2NSEC: u16 = 14;
pub(crate) const HEADER_INFO: u16 = 16;
pub(crate) const FTRACE_EVENTS: u16 = 17;
pub(crate) const EVENT_FORMATS: u16 = 18;
pub(crate) const KALLSYMS: u16 = 19;
pub(crate) const PRINTK: u16 = 20;
pub(crate) const BUFFER_TEXT: u16 = 22;

#[derive(Debug, Default)]
pub(crate) struct Options {
    pub stats: Stats,
    pub clock: Option<String>,
    /// In version 6, the clock's name follows the CPUs' data.
    pub has_clock: bool,
    pub cpu_count: Option<u32>,
    /// Offset that `trace-cmd record --ts-offset` adds to each time.
    pub offset_ns: i64,
    pub tsc: Option<Tsc>,
    release: Option<String>,
    arch: Option<String>,
}

/// The kernel's counts of lost events, summed over CPUs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    pub overrun: u64,
    pub commit_overrun: u64,
    pub dropped: u64,
}

/// Conversion of cycles to ns: a factor and a right shift.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tsc {
    multiplier: u32,
    shift: u32,
}

impl Tsc {
    #[inline]
    pub(crate) fn ns(self, cycles: u64) -> u64 {
        let product = u128::from(cycles).wrapping_mul(self.multiplier.into());
        u64::try_from(product >> self.shift).unwrap_or(u64::MAX)
    }
}

impl Options {
    /// Takes one option. Those that locate sections are for the version's reader.
    pub(crate) fn take(&mut self, id: u16, data: &[u8], endian: Endian) {
        let mut cursor = Cursor::ordered(data, endian);
        match id {
            CPUSTAT => self.stats.add(text(data).as_deref().unwrap_or_default()),
            TRACECLOCK => {
                self.has_clock = true;
                self.clock = text(data).as_deref().and_then(chosen_clock).or(self.clock.take());
            }
            UNAME => {
                // Linux, node name, release, machine
                let text = text(data).unwrap_or_default();
                let mut words = text.split_whitespace().skip(2).map(str::to_owned);
                self.release = words.next();
                self.arch = words.last();
            }
            OFFSET => self.offset_ns = text(data).as_deref().and_then(integer).unwrap_or(0),
            CPUCOUNT => self.cpu_count = cursor.u32(),
            TSC2NSEC => {
                if let (Some(multiplier), Some(shift)) = (cursor.u32(), cursor.u32()) {
                    let is_usable = multiplier > 0 && shift < 128;
                    self.tsc = is_usable.then_some(Tsc { multiplier, shift });
                }
            }
            _ => {}
        }
    }

    pub(crate) fn note(&mut self, meta: &mut Meta) {
        meta.kernel_release = self.release.take();
        meta.arch = self.arch.take();
        meta.cpu_count = self.cpu_count.unwrap_or(0).min(CPUS_MAX);
    }
}

impl Stats {
    /// Adds the lines of a `per_cpu/cpu*/stats`, such as `commit overrun: 0`.
    fn add(&mut self, text: &str) {
        for line in text.lines() {
            let Some((key, count)) = line.split_once(':') else { continue };
            let Ok(count) = count.trim().parse::<u64>() else { continue };
            let sum = match key {
                "overrun" => &mut self.overrun,
                "commit overrun" => &mut self.commit_overrun,
                "dropped events" => &mut self.dropped,
                _ => continue,
            };
            *sum = sum.saturating_add(count);
        }
    }
}

/// Returns the clock in brackets: `local global [mono] boot`.
pub(crate) fn chosen_clock(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (clock, _) = rest.split_once(']')?;
    Some(clock.to_owned())
}

/// Parses a decimal number, or a hexadecimal one after `0x`.
fn integer(text: &str) -> Option<i64> {
    let text = text.trim();
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let magnitude = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    let magnitude = magnitude.ok()?;
    if is_negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Returns the text before the first NUL, `None` if it is empty.
pub(crate) fn text(data: &[u8]) -> Option<String> {
    let text = data.split(|&byte| byte == 0).next()?;
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_may_be_any_i64() {
        assert_eq!(integer("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer("-0x8000000000000000"), Some(i64::MIN));
        assert_eq!(integer(" 0x7fffffffffffffff\n"), Some(i64::MAX));
        for none in ["9223372036854775808", "-9223372036854775809", "--1", "", "x"] {
            assert_eq!(integer(none), None, "{none}");
        }
    }

    #[test]
    fn options_describe_the_recording() {
        let mut options = Options::default();
        let mut take = |id, data: &[u8]| options.take(id, data, Endian::Big);
        take(TRACECLOCK, b"local global [mono_raw] boot\n\0");
        take(UNAME, b"Linux a-host 6.12.1+deb12 aarch64\0");
        take(OFFSET, b"-0x10\0");
        take(CPUCOUNT, &[0, 0, 0, 4]);
        take(CPUSTAT, b"CPU: 0\nentries: 9\noverrun: 3\ncommit overrun: 1\ndropped events: 5\n");
        take(CPUSTAT, b"CPU: 1\noverrun: 4\n");
        // 2.5 GHz: a cycle is 0.4 ns, and 0.4 * 2^32 the factor.
        take(TSC2NSEC, &[0x66, 0x66, 0x66, 0x66, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0]);
        let mut meta = Meta::default();
        options.note(&mut meta);
        assert_eq!(options.clock.as_deref(), Some("mono_raw"));
        assert_eq!(meta.kernel_release.as_deref(), Some("6.12.1+deb12"));
        assert_eq!(meta.arch.as_deref(), Some("aarch64"));
        assert_eq!(meta.cpu_count, 4);
        assert_eq!(options.offset_ns, -16);
        assert_eq!(options.stats, Stats { overrun: 7, commit_overrun: 1, dropped: 5 });
        assert_eq!(options.tsc.map(|tsc| tsc.ns(2_500_000_000)), Some(999_999_999));
    }
}
