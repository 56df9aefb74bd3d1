// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Events as text: the kernel's `trace` file, `trace-cmd report`, `perf script`, and CTF traces by
//! babeltrace.
//!
//! The first three differ in the columns before an event's name, parsed by `line`, and in the form
//! of some fields, parsed by `fields`. Text holds less than a binary recording: the kernel's has
//! microseconds, functions without addresses, and often hidden timers.

mod babeltrace;
mod events;
mod fields;
mod html;
mod line;
mod scratch;
mod timers;
mod values;
mod write;

pub(crate) use html::{is_systrace, read as read_systrace};
pub use write::write_ftrace_text;

use crate::builder::Builder;
use crate::cursor::{after, offset};
use crate::error::Malformed;
use crate::loss;
use events::Events;
use line::Line;
use memchr::{memchr, memrchr};

/// Lines searched for an event to recognise the format. Headers are shorter.
const LINES_TO_DETECT: usize = 64;

pub(crate) fn is_ftrace_text(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(64 << 10)];
    let is_event = |line: &[u8]| {
        Line::parse(line).is_some_and(|line| line.time.has_unit() && !line.name.is_empty())
            || babeltrace::is_event(line)
    };
    start.starts_with(b"# tracer:")
        || start.starts_with(b"cpus=")
        || memchr(0, start).is_none()
            && start.split(|&byte| byte == b'\n').take(LINES_TO_DETECT).any(is_event)
}

pub(crate) fn read(
    bytes: &[u8],
    _kallsyms: Option<&[u8]>,
    out: &mut Builder,
) -> Result<(), Malformed> {
    let mut reader = Reader::default();
    reader.lines(bytes, out);
    reader.finish(out)
}

#[derive(Default)]
struct Reader {
    events: Events,
    /// True inside the output of `ps`, which systrace puts before or after the events.
    is_in_dump: bool,
    babeltrace: babeltrace::Clock,
}

/// Recognises the first line of such output: `PROCESS DUMP`, `ATRACE_PROCESS_DUMP`, or the table's
/// head.
fn starts_dump(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    let is_title = |byte: &u8| byte.is_ascii_uppercase() || matches!(byte, b' ' | b'_');
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    text.ends_with(b"DUMP") && text.iter().all(is_title)
        || words.next() == Some(b"USER") && matches!(words.next(), Some(b"PID" | b"TID"))
}

impl Reader {
    fn lines(&mut self, bytes: &[u8], out: &mut Builder) {
        self.is_in_dump = false;
        let is_in_order = is_in_order(bytes);
        let (mut rest, cut) =
            bytes.split_at(memrchr(b'\n', bytes).map_or(0, |end| end.saturating_add(1)));
        while !rest.is_empty() && !out.is_stopped() {
            // The earliest of many lines: one damaged time must not settle the others.
            let mut earliest_ns = u64::MAX;
            let before = rest;
            for _ in 0..SETTLE_EVERY_LINES {
                let Some(end) = memchr(b'\n', rest) else { break };
                let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
                rest = after(rest, end, 1);
                if let Some(time_ns) = self.line(line, out) {
                    earliest_ns = earliest_ns.min(time_ns);
                }
            }
            out.advance(offset(before, rest) as u64);
            if is_in_order && earliest_ns != u64::MAX {
                if out.is_full() {
                    self.events.timers.set_clock(out);
                }
                out.settle(earliest_ns.saturating_sub(SETTLE_LAG_NS));
            }
        }
        self.last_line(cut, out);
    }

    /// Reads a last line without a newline: an event if it parses as one, as editors and pipes omit
    /// the newline.
    fn last_line(&mut self, text: &[u8], out: &mut Builder) {
        let before = out.pending_count();
        if Line::parse(text).is_some() || babeltrace::is_event(text) {
            self.line(text, out);
        }
        let is_empty = self.is_in_dump || text.trim_ascii().is_empty();
        if out.pending_count() == before && !is_empty {
            out.lose(&loss::TRUNCATED, 1);
        }
    }

    /// Reads a line, and returns its time if it is an event.
    #[inline]
    fn line(&mut self, text: &[u8], out: &mut Builder) -> Option<u64> {
        if text.first() == Some(&b'#') {
            self.is_in_dump = false;
            self.comment(text, out);
            return None;
        }
        let Some(line) = Line::parse(text) else {
            let Some(rewritten) = babeltrace::rewritten(text, &mut self.babeltrace) else {
                self.other(text, out);
                return None;
            };
            return self.line(&rewritten, out);
        };
        self.is_in_dump = false;
        self.events.record(&line, out);
        Some(line.time.ns)
    }

    /// Reads a comment: `# entries-in-buffer/entries-written: 140/150   #P:4` (ten events were
    /// overwritten), a header of perf about the machine, or the clock in this crate's own text.
    #[cold]
    fn comment(&mut self, text: &[u8], out: &mut Builder) {
        let text = text[1..].trim_ascii();
        if let Some(rest) = text.strip_prefix(b"entries-in-buffer/entries-written:") {
            let counts = line::number(rest.trim_ascii_start()).and_then(|(held, rest)| {
                let (written, rest) = line::number(rest.strip_prefix(b"/")?)?;
                Some((held, written, rest))
            });
            if let Some((held, written, rest)) = counts {
                out.lose(&loss::FTRACE_OVERRUN, written.saturating_sub(held));
                if let Some(cpus) = rest.trim_ascii().strip_prefix(b"#P:") {
                    cpu_count(cpus, out);
                }
            }
        } else if let Some((key, value)) =
            std::str::from_utf8(text).ok().and_then(|text| text.split_once(" : "))
        {
            match key.trim() {
                "os release" => out.meta.kernel_release = Some(value.to_owned()),
                "arch" => out.meta.arch = Some(value.to_owned()),
                "trace_clock" => out.meta.clock = value.to_owned(),
                _ => {}
            }
        }
    }

    /// Reads a line that is neither event nor comment.
    #[cold]
    fn other(&mut self, text: &[u8], out: &mut Builder) {
        if let Some(cpus) = text.strip_prefix(b"cpus=") {
            self.events.timers.is_trace_cmd = true;
            cpu_count(cpus, out);
        } else if text.starts_with(b"CPU:") {
            // `CPU:3 [LOST 12 EVENTS]` or `CPU:3 [12 EVENTS DROPPED]`, perhaps without a count.
            let count = memchr(b'[', text).and_then(|at| {
                after(text, at, 1).split(|byte| *byte == b' ').find_map(line::number)
            });
            match count {
                Some((count, _)) => out.lose(&loss::FTRACE_OVERRUN, count),
                None => out.lose(&loss::FTRACE_GAPS, 1),
            }
        } else {
            self.is_in_dump |= starts_dump(text);
            let is_known = self.is_in_dump
                || text.trim_ascii().is_empty()
                || text.starts_with(b"version = ")
                // Stack traces.
                || text.trim_ascii_start().starts_with(b"=> ");
            out.lose(&loss::TEXT_NOT_UNDERSTOOD, u64::from(!is_known));
        }
    }

    fn finish(self, out: &mut Builder) -> Result<(), Malformed> {
        if self.events.is_empty() {
            return Err(Malformed {
                offset: 0,
                found: "no line of an event".to_owned(),
                expected:
                    "lines such as `<idle>-0 [001] d..1. 4.194179: cpu_idle: state=3 cpu_id=1`"
                        .to_owned(),
                hint: "was tracing off, or is the text verbose? write `noverbose` to \
                       trace_options and copy the trace file again",
            });
        }
        self.events.finish(out);
        Ok(())
    }
}

fn cpu_count(text: &[u8], out: &mut Builder) {
    let count = line::number(text).and_then(|(count, _)| u32::try_from(count).ok());
    out.meta.cpu_count = out.meta.cpu_count.max(count.unwrap_or(0));
}

const SETTLE_EVERY_LINES: u32 = 4096;

/// Largest step back in time. The kernel merges its CPUs' buffers by time, and their clocks
/// disagree by microseconds.
const SETTLE_LAG_NS: u64 = 1_000_000_000;

/// False for concatenated texts of single CPUs, which step back in time by any amount. Checks a few
/// places.
fn is_in_order(bytes: &[u8]) -> bool {
    const PLACES: usize = 64;
    let mut latest_ns = 0;
    (0..PLACES).all(|place| {
        let from = (bytes.len() / PLACES).saturating_mul(place);
        let from = memrchr(b'\n', &bytes[..from]).map_or(0, |end| end.saturating_add(1));
        let line =
            bytes[from..].split(|byte| *byte == b'\n').take(LINES_TO_DETECT).find_map(Line::parse);
        let Some(line) = line else { return true };
        let is_later = line.time.ns.saturating_add(SETTLE_LAG_NS) > latest_ns;
        latest_ns = latest_ns.max(line.time.ns);
        is_later
    })
}
