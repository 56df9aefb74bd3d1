// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Text that names the files: `grep . FILES`, `grep -r`, `head FILES`, `tail -n +1 FILES`, and
//! what a mail program makes of them.

use crate::counters::builder::{Builder, shown};
use crate::counters::path::{self, Key};

/// The kernel's `CPUIDLE_NAME_LEN` and `CPUIDLE_DESC_LEN` limit the length of a wrapped line.
const NAME_CHARS_MAX: usize = 16;
const DESC_CHARS_MAX: usize = 32;
/// A comment that the recorder of a dump may write: when it was taken.
const CLOCK_COMMENT: &str = "# CLOCK_MONOTONIC ns ";

/// Lines that hold nothing that a reader knows.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    count: usize,
    first: Option<String>,
}

impl Unread {
    /// Adds a line by its number, from 0.
    pub(crate) fn line(&mut self, number: usize, line: &str) {
        self.count = self.count.saturating_add(1);
        self.first
            .get_or_insert_with(|| format!("line {}: `{}`", number.saturating_add(1), shown(line)));
    }

    /// Returns a sentence on them, if there are any; `known` is what they are not.
    pub(crate) fn note(&self, known: &str) -> Option<String> {
        let first = self.first.as_ref()?;
        Some(match self.count {
            1 => format!("1 line is not {known}: ignored ({first})"),
            count => format!("{count} lines are not {known}: ignored ({first})"),
        })
    }
}

/// A line that this reader knows, for a note on the others.
pub(crate) const KNOWN: &str = "a value of sysfs";

/// A path, and its value so far.
struct Pair {
    path: String,
    value: String,
    /// From `==> path <==`: any line below is its value.
    is_header: bool,
}

/// Reads what can be read; whether that is anything the builder knows.
pub(crate) fn read(text: &str, builder: &mut Builder) -> Unread {
    let (mut unread, mut pairs) = (Unread::default(), Vec::new());
    let mut current: Option<Pair> = None;
    // The beginning of a path that was broken over two lines.
    let mut broken: Option<(usize, String)> = None;
    for (number, line) in text.lines().enumerate() {
        let line = unquoted(line);
        if let Some(time_ns) = line.strip_prefix(CLOCK_COMMENT) {
            let digits = time_ns.split_whitespace().next().and_then(|word| word.parse().ok());
            builder.machine().monotonic_ns = digits.filter(|time_ns| *time_ns >= 0);
            continue;
        }
        let joined = broken.take().map(|(at, head)| (at, format!("{head}{line}"), head));
        let whole = match &joined {
            Some((_, joined, _)) if split(joined).is_some() => joined.as_str(),
            Some((at, _, head)) => {
                unread.line(*at, head);
                line
            }
            None => line,
        };
        if let Some(path) = header(whole) {
            pairs.extend(current.replace(Pair { path, value: String::new(), is_header: true }));
        } else if let Some((path, value)) = split(whole) {
            let (path, value) = (path.to_owned(), value.to_owned());
            pairs.extend(current.replace(Pair { path, value, is_header: false }));
        } else if whole.is_empty() {
            // `head` writes an empty line between files; in a value there is none.
            pairs.extend(current.take_if(|pair| !pair.value.is_empty()));
        } else if current.as_mut().is_some_and(|pair| pair.goes_on(whole)) {
            continue;
        } else if is_broken_path(whole) {
            broken = Some((number, whole.to_owned()));
        } else {
            unread.line(number, whole);
        }
    }
    if let Some((number, head)) = broken {
        unread.line(number, &head);
    }
    pairs.extend(current);
    put_all(&pairs, builder);
    unread
}

fn put_all(pairs: &[Pair], builder: &mut Builder) {
    // `grep -n` puts a 1 before every value, which is its line's number. A cut may end after it.
    let values = || pairs.iter().map(|pair| pair.value.as_str()).filter(|value| !value.is_empty());
    let count = values().count();
    let is_cut = |at: usize, value: &str| at.saturating_add(1) == count && value == "1";
    let is_numbered = values().any(|value| value.starts_with("1:"))
        && values().enumerate().all(|(at, value)| value.starts_with("1:") || is_cut(at, value));
    for Pair { path, value, .. } in pairs {
        let value = match value.split_once(':') {
            Some((_, value)) if is_numbered => value,
            None if is_numbered => "",
            _ => value,
        };
        if let Some(key) = path::parse(path) {
            builder.put(key, path, value.as_bytes());
        }
    }
}

impl Pair {
    /// Adds a line to the value, if it belongs to it.
    fn goes_on(&mut self, line: &str) -> bool {
        if self.value.is_empty() && (self.is_header || is_word(line)) {
            self.value.push_str(line);
            return true;
        }
        let chars_max = match path::parse(&self.path) {
            Some(Key::State { attr: "desc", .. }) => DESC_CHARS_MAX,
            Some(Key::State { attr: "name", .. }) => NAME_CHARS_MAX,
            // A file may contain other text as well.
            None if self.is_header => return true,
            _ => return false,
        };
        let is_room = self.value.chars().chain(line.chars()).count() < chars_max.saturating_sub(1);
        if is_room {
            self.value.push(' ');
            self.value.push_str(line);
        }
        is_room
    }
}

fn is_word(line: &str) -> bool {
    !line.contains(char::is_whitespace)
}

/// Without a mail's quote marks and the blanks at both ends.
pub(crate) fn unquoted(line: &str) -> &str {
    line.trim_start_matches(|c: char| c == '>' || c == '|' || c.is_whitespace()).trim_end()
}

/// `==> path <==`
fn header(line: &str) -> Option<String> {
    // The arrow's own `>` may have gone with the quote marks, but `==` precedes it.
    let path = line.strip_prefix("==> ")?.strip_suffix(" <==")?;
    Some(path.to_owned())
}

/// `path:value`, where `path` names a file.
fn split(line: &str) -> Option<(&str, &str)> {
    let (mut path, mut value) = line.split_once(':')?;
    // The energy model's folders have a colon in their names: `ps:408000`.
    if path.ends_with("/ps") || path.ends_with("/cs") {
        let inner = value.find(':')?;
        let end = path.len().checked_add(inner)?.checked_add(1)?;
        (path, value) = (line.get(..end)?, value.get(inner..)?.strip_prefix(':')?);
    }
    let is_path = is_word(path) && path.contains('/');
    is_path.then(|| (path, value.trim()))
}

/// A path without the colon that must follow: the line was broken there.
fn is_broken_path(line: &str) -> bool {
    is_word(line)
        && !line.contains(':')
        && (line.contains("cpuidle/") || line.contains("system/cpu"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Snapshot;

    fn snapshot(text: &str) -> Snapshot {
        let mut builder = Builder::default();
        if let Some(note) = read(text, &mut builder).note(KNOWN) {
            builder.note(note);
        }
        builder.finish().unwrap()
    }

    #[test]
    fn a_mail_that_wraps_and_quotes_loses_nothing() {
        let mail = "Hi,\r\n\r\n> > /sys/devices/system/cpu/cpu0/cpuidle/state0/desc:CPUIDLE CORE\r\n\
                    > > POLL IDLE\r\n> > /sys/devices/system/cpu/cpu0/cpuidle/\r\n\
                    > > state0/usage:42\r\n> > /sys/devices/system/cpu/cpu0/cpuidle/state0/time:\r\n\
                    > > 7\r\n\r\nThanks\r\n";
        let snapshot = snapshot(mail);
        let state = &snapshot.cpus[0].states[0];
        assert_eq!(state.desc.as_deref(), Some("CPUIDLE CORE POLL IDLE"));
        assert_eq!((state.usage, state.time_us), (Some(42), Some(7)));
        assert_eq!(snapshot.notes, ["2 lines are not a value of sysfs: ignored (line 1: `Hi,`)"]);
    }

    #[test]
    fn unrelated_line_is_not_part_of_a_value() {
        let snapshot = snapshot("cpu0/cpuidle/state0/name:POLL\nand now for something else\n");
        assert_eq!(snapshot.cpus[0].states[0].name.as_deref(), Some("POLL"));
        assert_eq!(snapshot.notes.len(), 1);
    }

    #[test]
    fn grep_line_numbers_are_stripped() {
        let snapshot = snapshot("cpu0/cpuidle/state0/name:1:POLL\ncpu0/cpuidle/state0/usage:1:5\n");
        assert_eq!(snapshot.cpus[0].states[0].usage, Some(5));
    }

    #[test]
    fn values_below_headers_are_found() {
        let text = "==> /sys/devices/system/cpu/cpu3/cpuidle/state1/name <==\nC1\n\n\
                    ==> /sys/devices/system/cpu/cpu3/cpuidle/state1/usage <==\n12\n";
        let snapshot = snapshot(text);
        assert_eq!(snapshot.cpus[0].cpu.0, 3);
        assert_eq!(snapshot.cpus[0].states[0].usage, Some(12));
        assert!(snapshot.notes.is_empty());
    }
}
