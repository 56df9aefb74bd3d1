// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The content of a CTF trace as babeltrace prints it: LTTng's kernel events, or perf's by
//! `perf data convert --to-ctf`.
//!
//! ```text
//! [1700000000.123456789] (+0.1) host power_cpu_idle: { cpu_id = 3 }, { state = 1, cpu_id = 3 }
//! [11:36:08.994950214] (+0.0) host sched_switch: { cpu_id = 1 }, { prev_comm = "sh", ... }
//! [4.123456789] (+0.1) power:cpu_idle: { perf_ip = 0x0, perf_cpu = 3, state = 1, cpu_id = 3 }
//! ```
//!
//! These are the kernel's tracepoints, LTTng's under other names, so each line is rewritten as one
//! of `perf script`.

use crate::cursor::split;
use memchr::memmem;
use std::borrow::Cow;
use std::io::Write;

/// The CPU of an LTTng event, a context before its fields.
const CPU: &[u8] = b"cpu_id = ";
const DAY_S: u64 = 86_400;

/// Counts midnights in a trace whose times have no date.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    latest_s: u64,
    days: u64,
}

/// Prefixes of tracepoints' names: LTTng's, and the kernel's.
const PREFIXES: &[(&[u8], &[u8])] = &[
    (b"power_cpu_", b"cpu_"),
    (b"timer_hrtimer_", b"hrtimer_"),
    (b"irq_softirq_", b"softirq_"),
    (b"x86_irq_vectors_", b""),
];

/// Names of fields: LTTng's, and those of the kernel's text.
const KEYS: &[(&[u8], &[u8])] =
    &[(b"prev_tid", b"prev_pid"), (b"next_tid", b"next_pid"), (b"tid", b"pid")];

/// Fields that the kernel prints in hexadecimal; LTTng before 2.8 described them as decimal.
const POINTERS: [&[u8]; 4] = [b"hrtimer", b"timer", b"function", b"callback"];

pub(super) fn is_event(line: &[u8]) -> bool {
    rewritten(line, &mut Clock::default()).is_some()
}

/// Rewrites a line in the form of `perf script`. Returns `None` if it is not babeltrace's.
#[cold]
pub(super) fn rewritten(line: &[u8], clock: &mut Clock) -> Option<Vec<u8>> {
    // A mail may quote it.
    let quotes = line.iter().take_while(|byte| matches!(byte, b'>' | b' ')).count();
    let rest = line.get(quotes..)?.strip_prefix(b"[")?;
    let (stamp, rest) = split(rest, b"]")?;
    let (seconds, fraction) = time(stamp, clock)?;
    let (head, rest) = split(rest, b": { ")?;
    let name = head.rsplit(|byte| matches!(byte, b' ' | b':')).next();
    let name = name.filter(|name| !name.is_empty())?;
    let (cpu, fields) = match rest.strip_prefix(CPU) {
        Some(rest) => {
            let (cpu, rest) = split(rest, b" }")?;
            // The event's contexts, such as its process, may precede the fields.
            let fields = memmem::rfind(rest, b"{ ").and_then(|at| rest.get(at.saturating_add(2)..));
            (cpu, fields.unwrap_or_default())
        }
        None => (Fields(rest).find(|(key, _)| key == b"perf_cpu")?.1, rest),
    };
    if cpu.is_empty() || !cpu.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let renamed = PREFIXES
        .iter()
        .find_map(|(theirs, ours)| Some((*ours, name.strip_prefix(*theirs)?)))
        .unwrap_or((b"", name));
    let mut out = Vec::with_capacity(line.len());
    out.extend_from_slice(b"[");
    out.extend_from_slice(cpu);
    write!(out, "] {seconds}.").ok()?;
    out.extend_from_slice(fraction);
    out.extend_from_slice(b": ctf:");
    out.extend_from_slice(renamed.0);
    out.extend_from_slice(renamed.1);
    out.extend_from_slice(b": ");
    for (key, value) in Fields(fields.strip_suffix(b" }").unwrap_or(fields)) {
        let key = KEYS.iter().find(|(theirs, _)| *theirs == key).map_or(key, |(_, ours)| ours);
        out.extend_from_slice(key);
        out.push(b'=');
        match decimal(value).filter(|_| POINTERS.contains(&key)) {
            Some(address) => write!(out, "{address:#x}").ok()?,
            None => out.extend_from_slice(&plain(value)),
        }
        out.push(b' ');
    }
    Some(out)
}

fn decimal(value: &[u8]) -> Option<u64> {
    let is_decimal = value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| is_decimal)?.parse().ok()
}

/// Parses `1700000000.123456789` or `11:36:08.994950214` into seconds and nine digits.
fn time<'a>(stamp: &'a [u8], clock: &mut Clock) -> Option<(u64, &'a [u8])> {
    let (whole, fraction) = split(stamp, b".")?;
    if fraction.len() != 9 || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut seconds: u64 = 0;
    let parts: Vec<&[u8]> = whole.split(|byte| *byte == b':').collect();
    if !matches!(parts.len(), 1 | 3) {
        return None;
    }
    for part in &parts {
        let number: u64 = std::str::from_utf8(part).ok()?.parse().ok()?;
        seconds = seconds.checked_mul(60)?.checked_add(number)?;
    }
    if parts.len() == 3 {
        // A step back by half a day is midnight; clocks of CPUs disagree by less.
        if seconds.saturating_add(DAY_S / 2) < clock.latest_s {
            clock.days = clock.days.saturating_add(1);
            clock.latest_s = seconds;
        }
        clock.latest_s = clock.latest_s.max(seconds);
        seconds = seconds.checked_add(clock.days.checked_mul(DAY_S)?)?;
    }
    Some((seconds, fraction))
}

/// Fields of `key = value, key = "a, b", key = ( "NAME" : container = 1 )`.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, rest) = split(self.0.trim_ascii_start(), b" = ")?;
        let (mut is_text, mut is_escaped, mut depth) = (false, false, 0_u32);
        let mut end = rest.len();
        for (at, byte) in rest.iter().enumerate() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_text => is_escaped = true,
                b'"' => is_text = !is_text,
                _ if is_text => {}
                b'(' | b'[' | b'{' => depth = depth.saturating_add(1),
                b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                b',' if depth == 0 => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        let (value, rest) = rest.split_at(end);
        self.0 = rest.strip_prefix(b",").unwrap_or(rest);
        Some((key, value.trim_ascii()))
    }
}

/// Returns a text without its quotes, and an enumeration's number.
fn plain(value: &[u8]) -> Cow<'_, [u8]> {
    if let Some(text) = value.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")) {
        return Cow::Borrowed(text);
    }
    if let Some(at) = memmem::rfind(value, b"container = ") {
        let number = &value[at.saturating_add(b"container = ".len())..];
        return Cow::Borrowed(number.split(|byte| *byte == b' ').next().unwrap_or(number));
    }
    Cow::Borrowed(value)
}
