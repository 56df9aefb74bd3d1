// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! One hunk, whose counts must be exact.

use super::{Hunk, Line, Lines, Op};
use crate::error::{Fault, Located};

/// The ranges of a header line: `-old_start,old_count +new_start,new_count`.
struct Ranges {
    old: (u32, u32),
    new: (u32, u32),
    heading: Vec<u8>,
}

/// Returns whether a line is the complete header of a hunk.
pub(super) fn is_header(line: &[u8]) -> bool {
    line.starts_with(b"@@ -") && ranges(line).is_some()
}

fn ranges(line: &[u8]) -> Option<Ranges> {
    let rest = line.strip_prefix(b"@@ -")?;
    let (old, rest) = range(rest)?;
    let (new, rest) = range(rest.strip_prefix(b" +")?)?;
    let heading = rest.strip_prefix(b" @@")?;
    let heading = heading.trim_ascii().to_vec();
    Some(Ranges { old, new, heading })
}

fn range(text: &[u8]) -> Option<((u32, u32), &[u8])> {
    let (start, rest) = number(text)?;
    match rest.strip_prefix(b",") {
        Some(rest) => number(rest).map(|(count, rest)| ((start, count), rest)),
        None => Some(((start, 1), rest)),
    }
}

/// Numbers of lines have at most nine digits, so that sums of them fit.
fn number(text: &[u8]) -> Option<(u32, &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = std::str::from_utf8(&text[..length]).ok().filter(|_| length <= 9)?;
    Some((digits.parse().ok()?, &text[length..]))
}

/// Lines of each side that the header promises and that have not come yet.
struct Left {
    old: u32,
    new: u32,
}

impl Left {
    fn take(&mut self, op: Op) -> bool {
        let (old, new) = match op {
            Op::Context => (1, 1),
            Op::Remove => (1, 0),
            Op::Add => (0, 1),
        };
        let fits = self.old >= old && self.new >= new;
        if fits {
            (self.old, self.new) = (self.old - old, self.new - new);
        }
        fits
    }
}

/// Reads the hunk whose header is the next line.
pub(super) fn read(lines: &mut Lines<'_>) -> Result<Hunk, Located> {
    let header = lines.get(0).unwrap_or_default();
    let Some(Ranges { old, new, heading }) = ranges(header) else {
        let shown = String::from_utf8_lossy(header).into_owned();
        return lines.fault(Fault::HunkHeader(shown));
    };
    let mut hunk = Hunk {
        old_start: old.0,
        old_count: old.1,
        new_start: new.0,
        new_count: new.1,
        heading,
        lines: Vec::new(),
        at_line: lines.at + 1,
    };
    lines.at += 1;
    let mut left = Left { old: old.1, new: new.1 };
    while left.old > 0 || left.new > 0 {
        let short = Fault::ShortHunk {
            old: old.1 - left.old,
            old_count: old.1,
            new: new.1 - left.new,
            new_count: new.1,
        };
        // The text behind the last line end is no line.
        let is_last = lines.at + 1 >= lines.lines.len();
        let Some(line) = lines.get(0).filter(|line| !(is_last && line.is_empty())) else {
            return lines.fault(short);
        };
        if line.starts_with(b"\\ ") {
            end_without_newline(&mut hunk);
        } else {
            let (op, text) = match classify(line) {
                Ok(classified) => classified,
                Err(_) if is_structure(line) => return lines.fault(short),
                Err(fault) => return lines.fault(fault),
            };
            if !left.take(op) {
                return lines.fault(disagreement(line, short, &hunk));
            }
            hunk.lines.push(Line { op, text: [text, b"\n"].concat() });
        }
        lines.at += 1;
    }
    finish(lines, &mut hunk)?;
    Ok(hunk)
}

fn end_without_newline(hunk: &mut Hunk) {
    if let Some(last) = hunk.lines.last_mut() {
        if last.text.ends_with(b"\n") {
            last.text.pop();
        }
    }
}

/// Reads what follows the last line of a hunk, and refuses lines that its header does not count.
fn finish(lines: &mut Lines<'_>, hunk: &mut Hunk) -> Result<(), Located> {
    if lines.starts(0, b"\\ ") {
        end_without_newline(hunk);
        lines.at += 1;
    }
    let Some(line) = lines.get(0) else { return Ok(()) };
    let is_end = match line.first() {
        Some(b'+') => false,
        Some(b'-') => is_signature(line) || is_file(lines),
        Some(b' ') => line.trim_ascii().is_empty(),
        _ => true,
    };
    let long = Fault::LongHunk { old_count: hunk.old_count, new_count: hunk.new_count };
    if is_end { Ok(()) } else { lines.fault(long) }
}

/// `-- ` or a rule of dashes.
fn is_signature(line: &[u8]) -> bool {
    let dashes = line.trim_ascii_end();
    dashes.len() >= 2 && dashes.iter().all(|&byte| byte == b'-')
}

fn is_file(lines: &Lines<'_>) -> bool {
    lines.starts(0, b"--- ") && lines.starts(1, b"+++ ")
}

/// Returns whether a line begins another part of the diff.
fn is_structure(line: &[u8]) -> bool {
    [b"@@ -".as_slice(), b"diff -", b"Index: ", b"====="]
        .iter()
        .any(|start| line.starts_with(start))
}

fn classify(line: &[u8]) -> Result<(Op, &[u8]), Fault> {
    match line.first() {
        // Some programs write an empty context line without its blank.
        None => Ok((Op::Context, line)),
        Some(b' ') => Ok((Op::Context, &line[1..])),
        Some(b'+') => Ok((Op::Add, &line[1..])),
        Some(b'-') => Ok((Op::Remove, &line[1..])),
        Some(b'\t') => Err(Fault::LostSpace("a context line has no leading blank")),
        Some(0xc2) if line.starts_with(b"\xc2\xa0") => {
            Err(Fault::LostSpace("a blank became a no-break space"))
        }
        Some(_) => {
            Err(Fault::LostSpace("a line was wrapped, or a context line has no leading blank"))
        }
    }
}

/// Names the cause where a line is of a side that has no lines left.
fn disagreement(line: &[u8], short: Fault, hunk: &Hunk) -> Fault {
    if line.is_empty() || is_signature(line) {
        short
    } else {
        Fault::LongHunk { old_count: hunk.old_count, new_count: hunk.new_count }
    }
}
