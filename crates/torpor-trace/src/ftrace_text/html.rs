// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! systrace: a web page with ftrace text inside.
//!
//! Pages of 2015 and later have it in `<script class="trace-data">` elements, next to others with
//! JSON. Older ones have it in a script's string `linuxPerfData`, mostly with escaped newlines.
//! The viewer's own scripts name such elements in strings, so elements are walked in order, as a
//! browser does.

use super::Reader;
use crate::builder::Builder;
use crate::cursor::{after, split};
use crate::error::Malformed;
use crate::loss;
use memchr::memmem;
use std::borrow::Cow;

const SCRIPT: &[u8] = b"<script";
const TRACE_DATA: &[u8] = b"trace-data";
const SCRIPT_END: &[u8] = b"</script>";
const STRING: &[u8] = b"linuxPerfData = \"";

pub(crate) fn is_systrace(bytes: &[u8]) -> bool {
    // Not just `<`, as a text may start with the idle task, `<idle>-0`.
    let start = bytes.trim_ascii_start();
    let is = |tag: &[u8]| start.get(..tag.len()).is_some_and(|s| s.eq_ignore_ascii_case(tag));
    is(b"<!doctype") || is(b"<html") || is(b"<?xml") || is(b"<!--")
}

pub(crate) fn read(
    bytes: &[u8],
    _kallsyms: Option<&[u8]>,
    out: &mut Builder,
) -> Result<(), Malformed> {
    let mut reader = Reader::default();
    let mut is_found = false;
    let mut rest = bytes;
    while let Some(at) = memmem::find(rest, SCRIPT) {
        let script = Script::parse(after(rest, at, SCRIPT.len()));
        rest = script.after;
        if !script.is_trace_data {
            continue;
        }
        if !script.is_whole {
            out.lose(&loss::TRUNCATED, 1);
        }
        if !script.content.trim_ascii_start().starts_with(b"{") {
            is_found = true;
            reader.lines(&text(script.content), out);
        }
    }
    if !is_found {
        if let Some(at) = memmem::find(bytes, STRING) {
            is_found = true;
            let rest = after(bytes, at, STRING.len());
            let content = split(rest, SCRIPT_END).map(|(content, _)| content);
            out.lose(&loss::TRUNCATED, content.is_none().into());
            reader.lines(&unescaped(content.unwrap_or(rest)), out);
        }
    }
    if !is_found {
        return Err(Malformed {
            offset: 0,
            found: "a web page or XML without trace data".to_owned(),
            expected: "`<script class=\"trace-data\">` or `linuxPerfData`, as systrace writes"
                .to_owned(),
            hint: "use the .perfetto-trace, trace.dat or trace text that the page was made from",
        });
    }
    reader.finish(out)
}

/// A script element.
struct Script<'a> {
    is_trace_data: bool,
    content: &'a [u8],
    /// False if the page ends inside the element.
    is_whole: bool,
    after: &'a [u8],
}

impl<'a> Script<'a> {
    fn parse(bytes: &'a [u8]) -> Script<'a> {
        let (tag, rest) = split(bytes, b">").unwrap_or((bytes, &[]));
        let (content, after) = split(rest, SCRIPT_END).unwrap_or((rest, &[]));
        let is_trace_data = memmem::find(tag, TRACE_DATA).is_some();
        let is_whole = content.len() < rest.len();
        Script { is_trace_data, content, is_whole, after }
    }
}

/// Returns the text of an element, which holds it directly or as the string of a script.
fn text(content: &[u8]) -> Cow<'_, [u8]> {
    match memmem::find(&content[..content.len().min(256)], STRING) {
        Some(at) => unescaped(after(content, at, STRING.len())).into(),
        None => content.into(),
    }
}

/// Unescapes a JavaScript string up to its closing quote.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' => break,
            b'\\' => match bytes.next() {
                Some(b'n') => plain.push(b'\n'),
                Some(b't') => plain.push(b'\t'),
                // A continued line: the newline itself is escaped as `\n`.
                Some(b'\r') if bytes.as_slice().starts_with(b"\n") => drop(bytes.next()),
                Some(b'\n' | b'\r') | None => {}
                Some(&escaped) => plain.push(escaped),
            },
            // Also a plain newline, as in trappy's pages.
            _ => plain.push(byte),
        }
    }
    plain
}
