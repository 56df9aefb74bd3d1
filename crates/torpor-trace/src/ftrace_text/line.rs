// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One line of text: CPU, time, event, and the text of its fields.
//!
//! In every layout a CPU in brackets is followed by at most one column of flags and a time that
//! ends in a colon:
//!
//! ```text
//!           <idle>-0       [001] d.h1.     4.196001: tick_stop: success=1 dependency=NONE
//!           <idle>-0     (-----) [001] .n.2   538.064937: cpu_idle: state=1 cpu_id=1
//!      rcu_preempt-18    [001]     4.196035904: timer_cancel:         timer=0xffa000000009be08
//!         swapper     0 [000]  2202.670828: power:cpu_idle: state=1 cpu_id=0
//! ```
//!
//! In the format of latencies the CPU precedes the flags without a space, and times count from the
//! start of the recording:
//!
//! ```text
//!   <idle>-0       1d..h1.. 2563695110us : local_timer_entry: vector=236
//!     bash-3916    0d..2    0us+: sched_waking: comm=sh pid=7 prio=120 target_cpu=000
//! ```
//!
//! The task's name before it is ignored, as it may hold nearly anything.

use crate::cursor::{after, ends, find, offset, rfind};
use memchr::memchr_iter;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub cpu: u32,
    pub time: Stamp,
    /// Name without the subsystem; empty for the function tracer.
    pub name: &'a [u8],
    /// True if a subsystem precedes the name, as perf prints it.
    pub has_subsystem: bool,
    pub text: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub ns: u64,
    pub unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Seconds of a clock, with a fraction.
    Seconds,
    /// Microseconds since the recording's start.
    Relative,
    /// A number without a fraction.
    Unknown,
}

impl Stamp {
    #[inline(always)]
    pub(super) fn has_unit(&self) -> bool {
        self.unit != Unit::Unknown
    }
}

/// Width of the column of flags: five in current kernels, more in old real-time kernels.
const FLAGS_MAX: usize = 9;

impl<'a> Line<'a> {
    #[inline(always)]
    pub(super) fn parse(line: &'a [u8]) -> Option<Line<'a>> {
        match Line::usual(line) {
            Some(line) => Some(line),
            None => Line::unusual(line),
        }
    }

    /// Parses a line whose first bracket is the CPU's. No step is a call, so a line stays in
    /// registers: one that goes through memory takes a tenth longer.
    #[inline(always)]
    fn usual(line: &'a [u8]) -> Option<Line<'a>> {
        let (cpu, rest) = number(after(line, find(line, b'[')?, 1))?;
        let text = rest.strip_prefix(b"]")?.trim_ascii_start();
        let is_time = text.first().is_some_and(u8::is_ascii_digit);
        let line = Line::from_time(cpu, if is_time { text } else { after_flags(text)? })?;
        line.time.has_unit().then_some(line)
    }

    #[cold]
    #[inline(never)]
    fn unusual(line: &'a [u8]) -> Option<Line<'a>> {
        Line::with_cpu(line, |line| line.time.has_unit())
            .or_else(|| Line::with_bare_cpu(line))
            // Last, as a task may be named `x [1] 2: y`.
            .or_else(|| Line::with_cpu(line, |_| true))
    }

    fn with_cpu(line: &'a [u8], is_right: impl Fn(&Line<'_>) -> bool) -> Option<Line<'a>> {
        let mut rest = line;
        while let Some(at) = find(rest, b'[') {
            rest = after(rest, at, 1);
            let cpu_and_rest =
                number(rest).and_then(|(cpu, rest)| Some((cpu, rest.strip_prefix(b"]")?)));
            let Some((cpu, text)) = cpu_and_rest else { continue };
            let text = text.trim_ascii_start();
            let is_time = text.first().is_some_and(u8::is_ascii_digit);
            let time = if is_time { Some(text) } else { after_flags(text) };
            let parsed = match time.and_then(|time| Line::from_time(cpu, time)) {
                None if is_time => Line::from_flags(cpu, text),
                parsed => parsed,
            };
            match parsed {
                Some(line) if is_right(&line) => return Some(line),
                _ => {}
            }
        }
        None
    }

    /// Parses a line of `trace-cmd report -l`, with flags right after a CPU without brackets:
    /// `<idle>-0       0d..1.     4.194178: cpu_idle: ...`.
    fn with_bare_cpu(line: &'a [u8]) -> Option<Line<'a>> {
        memchr_iter(b' ', line).find_map(|space| {
            let (cpu, rest) = number(after(line, space, 1))?;
            let has_flags = rest.first().is_some_and(|byte| !matches!(byte, b' ' | b':'));
            Line::from_flags(cpu, rest).filter(|line| has_flags && line.time.has_unit())
        })
    }

    #[cold]
    fn from_flags(cpu: u64, text: &'a [u8]) -> Option<Line<'a>> {
        let time = after_flags(text)?;
        Line::from_time(cpu, time).or_else(|| Line::from_latency(cpu, time))
    }

    /// Parses `2563695110us : tick_stop: success=1 dependency=NONE`. Instead of the space there may
    /// be a mark of how long it took until the next event.
    fn from_latency(cpu: u64, text: &'a [u8]) -> Option<Line<'a>> {
        let (us, rest) = number(text)?;
        let (_mark, rest) = rest.strip_prefix(b"us")?.split_first()?;
        let time = Stamp { ns: us.saturating_mul(1_000), unit: Unit::Relative };
        Line::from_name(cpu, time, rest.strip_prefix(b":")?)
    }

    /// Parses `4.196001: tick_stop: success=1 dependency=NONE`.
    #[inline(always)]
    fn from_time(cpu: u64, text: &'a [u8]) -> Option<Line<'a>> {
        let (time, rest) = stamp(text)?;
        Line::from_name(cpu, time, rest.strip_prefix(b":")?)
    }

    #[inline(always)]
    fn from_name(cpu: u64, time: Stamp, rest: &'a [u8]) -> Option<Line<'a>> {
        let (name, text) = name_and_text(rest.trim_ascii_start());
        let cpu = u32::try_from(cpu).unwrap_or(u32::MAX);
        let colon = rfind(name, b':');
        let has_subsystem = colon.is_some();
        let name = colon.map_or(name, |colon| after(name, colon, 1));
        Some(Line { cpu, time, name, has_subsystem, text })
    }
}

/// Returns the text after a column of flags.
#[inline(always)]
fn after_flags(text: &[u8]) -> Option<&[u8]> {
    let length = find(&text[..text.len().min(FLAGS_MAX + 1)], b' ')?;
    Some(text[length..].trim_ascii_start())
}

/// Parses a decimal number, saturating, and returns it with the rest.
#[inline(always)]
pub(super) fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    match eight_digits(word(text)) {
        (_, 0) => None,
        (value, 8) => {
            let behind = after(text, 8, 0);
            match eight_digits(word(behind)) {
                (_, 8) => any_number(text),
                // All digits are in one of the two words.
                (low, count) => {
                    let value = value.wrapping_mul(TENS[count]).wrapping_add(low);
                    Some((value, behind.get(count..)?))
                }
            }
        }
        (value, count) => Some((value, text.get(count..)?)),
    }
}

/// Returns the first eight bytes of a text, with zeros behind a shorter one.
#[inline(always)]
fn word(text: &[u8]) -> [u8; 8] {
    if let Some(word) = text.first_chunk::<8>() {
        return *word;
    }
    let (first, last) = ends(text);
    // The last bytes are four, or one of a text of less than four.
    let lasts = if text.len() < 4 { 1 } else { 4 };
    let place = text.len().saturating_sub(lasts) as u32 & 7;
    (first | last << (place << 3)).to_le_bytes()
}

const TENS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Returns the number that these bytes start with, and how many of them are digits.
#[inline(always)]
fn eight_digits(bytes: [u8; 8]) -> (u64, usize) {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let digits = u64::from_le_bytes(bytes) ^ u64::from_le_bytes([b'0'; 8]);
    // The top bit of every byte above 9.
    let others = ((digits & LOW).wrapping_add(u64::from_le_bytes([0x76; 8])) | digits) & !LOW;
    let bits = others.trailing_zeros() & !7;
    // The last digit moves to the last byte, zeros move in before the first.
    let digits = digits.checked_shl(u64::BITS.wrapping_sub(bits)).unwrap_or(0);
    // Pairs of digits, of four, of eight.
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    let eight = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff;
    (eight, bits as usize >> 3)
}

/// Parses a number of any length.
fn any_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.saturating_mul(10).saturating_add(digit.into());
        rest = after;
    }
    (rest.len() < text.len()).then_some((value, rest))
}

/// Value of a fraction's last digit, by the number of its digits.
const NS_OF_LAST_PLACE: [u64; 10] =
    [0, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];

/// Digits of a time's fraction, at least. Fewer are part of a task's name: `x [1] 2.5: y`.
const PLACES_MIN: usize = 6;

/// Parses seconds with a fraction of up to nine digits, or a number in a clock's own unit.
#[inline(always)]
fn stamp(text: &[u8]) -> Option<(Stamp, &[u8])> {
    let (whole, rest) = number(text)?;
    let Some(rest) = rest.strip_prefix(b".") else {
        return Some((Stamp { ns: whole, unit: Unit::Unknown }, rest));
    };
    let (fraction, after) = number(rest)?;
    let places = offset(rest, after);
    let scale = NS_OF_LAST_PLACE.get(places)?;
    let ns = whole.saturating_mul(1_000_000_000).saturating_add(fraction.saturating_mul(*scale));
    let unit = if places >= PLACES_MIN { Unit::Seconds } else { Unit::Unknown };
    Some((Stamp { ns, unit }, after))
}

/// Splits `cpu_idle: state=1` into name and text. `do_idle <-cpu_startup_entry`, a line of the
/// function tracer, has no name.
#[inline(always)]
fn name_and_text(text: &[u8]) -> (&[u8], &[u8]) {
    let end = find(text, b' ').unwrap_or(text.len());
    match text[..end].strip_suffix(b":") {
        Some(name) => (name, text[end..].trim_ascii_start()),
        None => (b"", text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, cpu: u32, ns: u64, name: &str, text: &str) {
        let parsed = Line::parse(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
        assert_eq!((parsed.cpu, parsed.time), (cpu, Stamp { ns, unit: Unit::Seconds }), "{line}");
        assert_eq!((parsed.name, parsed.text), (name.as_bytes(), text.as_bytes()), "{line}");
        assert_eq!(parsed.has_subsystem, line.contains("power:"), "{line}");
    }

    #[test]
    fn every_layout_is_parsed() {
        let layouts = [
            // Linux before 3.0 and trace-cmd: no flags; later four, then five.
            "          <idle>-0     [001]     4.196001: ",
            "          <idle>-0     [001] d.h1     4.196001: ",
            "          <idle>-0       [001] d.h1.     4.196001: ",
            // With the thread group, known or not.
            "          <idle>-0     (-----) [001] d.h1.     4.196001: ",
            "RenderThread-7591 ( 7459) [001] ...1   4.196001: ",
            "\t  <idle>-0     [001]     4.196001000: ",
            // `trace-cmd report -l`
            "  <idle>-0       1d..2.     4.196001: ",
            // perf script, with a pid, a pid and a tid, or nothing before the CPU.
            "         swapper     0 [001]     4.196001: power:",
            "   Chrome_IOThread   812/830 [001]     4.196001000: power:",
            "[001]     4.196001:   power:",
        ];
        for start in layouts {
            let line = format!("{start}cpu_idle:             state=1 cpu_id=0");
            check(&line, 1, 4_196_001_000, "cpu_idle", "state=1 cpu_id=0");
        }
    }

    #[test]
    fn task_names_may_hold_anything() {
        for task in ["a b-c", "[kworker/0:1]", "x [1] 2: y", "12:30:00", "1.5: a", "Binder:[3]_2"] {
            let line = format!("{task:>16}-77    [012] d..2.   538.000001: tick_stop: success=1");
            check(&line, 12, 538_000_001_000, "tick_stop", "success=1");
        }
    }

    #[test]
    fn numbers_of_all_lengths_are_parsed() {
        let digits = "12345678901234567890123";
        for length in 0..=digits.len() {
            for behind in
                ["", ":", " x", "/9876543210", "\u{ff}\u{ff}\u{ff}", ":;<=>?@AB", "      "]
            {
                for start in [&digits[..length], &"0".repeat(length), &"9".repeat(length)] {
                    let text = format!("{start}{behind}");
                    assert_eq!(number(text.as_bytes()), any_number(text.as_bytes()), "{text}");
                }
            }
        }
    }

    #[test]
    fn a_time_without_a_fraction_has_no_unit() {
        let line =
            Line::parse(b"  a-1  [000] d...  812345678: cpu_idle: state=1 cpu_id=0").unwrap();
        assert_eq!(line.time, Stamp { ns: 812_345_678, unit: Unit::Unknown });
    }

    #[test]
    fn latency_format_counts_from_the_start() {
        for mark in [" ", "+", "!", "#", "$"] {
            let line = format!("    bash-3916    3d.h2..   17us{mark}: softirq_exit: vec=1 [x]");
            let parsed = Line::parse(line.as_bytes()).unwrap_or_else(|| panic!("{line}"));
            let time = Stamp { ns: 17_000, unit: Unit::Relative };
            assert_eq!((parsed.cpu, parsed.time, parsed.name), (3, time, &b"softirq_exit"[..]));
        }
        assert_eq!(Line::parse(b"  bash-3916    3d.h2..   17us"), None);
    }

    #[test]
    fn other_lines_are_no_event() {
        for line in ["", "[", "[001]", "[001] 4.1", "a-1 [001] d... 4.1234567890: x: y", " => f"] {
            assert_eq!(Line::parse(line.as_bytes()), None, "{line}");
        }
        check("a-1 [001] 1.500000: do_idle <-f", 1, 1_500_000_000, "", "do_idle <-f");
        check("a-1 [001] 1.500000: ipi_exit:", 1, 1_500_000_000, "ipi_exit", "");
    }
}
