// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The formats. A file is recognised by its content, never by its name.

use crate::archive::is_zip;
use crate::builder::Builder;
use crate::bytes::HEAD_BYTES;
use crate::error::{Malformed, TraceError};
use crate::inflate::Packing;
use crate::{ftrace_text, perf_data, perfetto, trace_dat};
use std::borrow::Cow;

/// A recording format, for error texts, `--help` and the documentation.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Name, as in [`Meta::format`](crate::Meta::format).
    pub name: &'static str,
    /// Usual file names.
    pub files: &'static str,
    /// Mark by which the content is recognised.
    pub recognised_by: &'static str,
    /// A recording may have its machine's name.
    pub(crate) names_machine: bool,
    is_it: fn(&[u8]) -> bool,
    pub(crate) read: Read,
}

/// Reads the content, with a copy of the machine's `/proc/kallsyms` if there is one.
type Read = fn(&[u8], Option<&[u8]>, &mut Builder) -> Result<(), Malformed>;

/// All formats. A new one needs a folder next to `perfetto` and the two functions named here.
static FORMATS: &[Format] = &[
    Format {
        name: "perf.data",
        files: "perf.data, *.data",
        recognised_by: "the eight bytes `PERFILE2`",
        names_machine: true,
        is_it: perf_data::is_perf_data,
        read: perf_data::read,
    },
    Format {
        name: "perfetto",
        files: "*.perfetto-trace, *.pftrace",
        recognised_by: "a protobuf TracePacket: 0x0a, its length, a known field",
        names_machine: true,
        is_it: perfetto::is_perfetto,
        read: perfetto::read,
    },
    Format {
        name: "trace.dat",
        files: "trace.dat, *.dat",
        recognised_by: "0x17 0x08 0x44 and `tracing`",
        names_machine: false,
        is_it: trace_dat::is_trace_dat,
        read: trace_dat::read,
    },
    Format {
        name: "systrace",
        files: "*.html",
        recognised_by: "a web page",
        names_machine: false,
        is_it: ftrace_text::is_systrace,
        read: ftrace_text::read_systrace,
    },
    Format {
        name: "ftrace-text",
        files: "trace.txt, *.txt",
        recognised_by: "lines of the kernel's `trace` file, `trace-cmd report`, `perf script` or \
                        babeltrace (LTTng's events, or perf's in CTF)",
        names_machine: false,
        is_it: ftrace_text::is_ftrace_text,
        read: ftrace_text::read,
    },
];

/// Returns every format that [`read`](crate::read) understands; each may be packed or in an archive.
pub fn formats() -> &'static [Format] {
    FORMATS
}

pub(crate) fn detect(bytes: &[u8]) -> Option<&'static Format> {
    FORMATS.iter().find(|format| (format.is_it)(bytes))
}

/// Checks that a recording may start with these bytes before more are read or unpacked: that costs
/// memory, and some files have no end.
///
/// # Errors
/// If the format is unknown.
pub(crate) fn check_head(name: &str, bytes: &[u8]) -> Result<(), TraceError> {
    of_head(name, bytes).map(drop)
}

/// Returns the format of a recording that starts with these bytes; `None` for an archive.
///
/// # Errors
/// If the format is unknown.
pub(crate) fn of_head(name: &str, bytes: &[u8]) -> Result<Option<&'static Format>, TraceError> {
    let head = bytes.get(..HEAD_BYTES).unwrap_or(bytes);
    // An archive's directory is at its end.
    if is_zip(head) {
        return Ok(None);
    }
    let content = match Packing::of(head) {
        Some(packing) => Cow::Owned(packing.unpack(bytes, HEAD_BYTES as u64, &|| true).bytes),
        None => Cow::Borrowed(head),
    };
    detect(&content).map(Some).ok_or_else(|| unknown(name, &content))
}

pub(crate) fn unknown(name: &str, bytes: &[u8]) -> TraceError {
    let (found, hint) = match bytes {
        [] => ("a packed file that does not unpack".to_owned(), "copy it again".to_owned()),
        _ => describe(bytes),
    };
    refused(name, found, hint)
}

pub(crate) fn refused(name: &str, found: String, hint: String) -> TraceError {
    TraceError::UnknownFormat { name: name.to_owned(), found, expected: allowed(), hint }
}

/// Lists the formats in one line.
fn allowed() -> String {
    let texts: Vec<String> = FORMATS
        .iter()
        .map(|format| format!("{} ({}; {})", format.name, format.recognised_by, format.files))
        .collect();
    let packed = "gzip, zstd, xz or bzip2, or in a ZIP archive";
    format!("{}; each also packed with {packed}", texts.join(", "))
}

/// Other files that people are likely to try: (start of the file, name, hint).
const OTHERS: &[(&[u8], &str, &str)] = &[
    (
        b"{",
        "JSON, perhaps a Chrome trace",
        "JSON contains no kernel events; use the .perfetto-trace that it was made from",
    ),
    (b"\xc1\x1f\xfc\xc1", "a stream of a CTF trace of LTTng or perf", BABELTRACE),
    (b"\xc1\xfc\x1f\xc1", "a stream of a CTF trace of LTTng or perf", BABELTRACE),
    (b"/* CTF 1", "the metadata of a CTF trace of LTTng or perf", BABELTRACE),
    (b"\x57\x1d\xd1\x75", "the metadata of a CTF trace of LTTng or perf", BABELTRACE),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it with `7z x` and name the recording inside"),
    (b"\x7fELF", "an executable", "name the recording, not a program"),
];

const BABELTRACE: &str = "name the perf.data that it was made from, or print the trace's folder as \
                          text and name that: `babeltrace2 --clock-seconds FOLDER >trace.txt`";
const PERF_SCRIPT: &str = "a sum holds no sleeps; name the perf.data it was made from, or the text \
                           of plain `perf script`";
/// Length of the start of a text that is searched for a report's words.
const TEXT_BYTES: usize = 4096;

/// Reports made from recordings or counters: (words near their start, name, hint).
const REPORTS: &[(&[&[u8]], &str, &str)] = &[
    (
        &[b"Busy%", b"Bzy_MHz"],
        "a log of turbostat",
        "it sums up intervals and holds no sleeps to replay: `torpor diff LOG` shows its idle states",
    ),
    (
        &[b"Number of idle states:", b"Duration:"],
        "the output of `cpupower idle-info`",
        "it holds counters and no sleeps to replay: `torpor diff BEFORE AFTER` compares two",
    ),
    (
        &[b"PowerTOP"],
        "a report of PowerTOP",
        "it holds shares of time and no sleeps: `torpor diff` compares counters, from \
         `torpor snapshot` before and after; `torpor trace stats` counts wake-ups of a recording",
    ),
    (&[b"wait time", b"sch delay", b"run time"], "a report of `perf sched timehist`", PERF_SCRIPT),
    (&[b"# Samples:", b"# Overhead"], "a report of `perf report`", PERF_SCRIPT),
    (&[b"Performance counter stats for"], "a report of `perf stat`", PERF_SCRIPT),
    (&[b"Runtime ms", b"Switches"], "a report of `perf sched latency`", PERF_SCRIPT),
];

/// Returns what a file is by its beginning, and what to do with it.
pub fn what(bytes: &[u8]) -> (String, String) {
    let content = match Packing::of(bytes) {
        Some(packing) => Cow::Owned(packing.unpack(bytes, HEAD_BYTES as u64, &|| true).bytes),
        None => Cow::Borrowed(bytes),
    };
    match detect(&content) {
        Some(format) => (
            format!("a recording ({})", format.name),
            "`torpor replay` runs governors on it, `torpor trace info` shows what it holds".into(),
        ),
        None => describe(&content),
    }
}

/// Describes an unknown file, with a hint.
fn describe(bytes: &[u8]) -> (String, String) {
    for (start, what, hint) in OTHERS {
        if bytes.starts_with(start) {
            return ((*what).to_owned(), (*hint).to_owned());
        }
    }
    let text = &bytes[..bytes.len().min(TEXT_BYTES)];
    let has = |word: &[u8]| memchr::memmem::find(text, word).is_some();
    for (words, what, hint) in REPORTS {
        if words.iter().all(|word| has(word)) {
            return ((*what).to_owned(), (*hint).to_owned());
        }
    }
    let start = &bytes[..bytes.len().min(8)];
    let hex: Vec<String> = start.iter().map(|byte| format!("{byte:02x}")).collect();
    let text: String = start
        .iter()
        .map(|&byte| if byte.is_ascii_graphic() || byte == b' ' { byte as char } else { '.' })
        .collect();
    (
        format!("the bytes {} (`{text}`)", hex.join(" ")),
        "record with `perf record -a -k CLOCK_MONOTONIC -e power:cpu_idle ...` or Perfetto"
            .to_owned(),
    )
}
