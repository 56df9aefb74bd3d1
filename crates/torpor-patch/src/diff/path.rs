// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Paths of diffs: quoting, prefixes, and which of them stay in the tree.

use crate::error::Fault;

/// A path as a header line has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Name {
    /// `/dev/null`.
    Nothing,
    Path(String),
}

/// Takes the path from the rest of a `---`, `+++` or `rename from` line.
pub(super) fn name(rest: &[u8]) -> Result<Name, Fault> {
    let path = match rest.first() {
        Some(b'"') => unquoted(rest).ok_or(Fault::NoName)?.0,
        _ => without_time(rest).trim_ascii_end().to_vec(),
    };
    match path.as_slice() {
        b"/dev/null" => Ok(Name::Nothing),
        b"" => Err(Fault::NoName),
        _ => text(path).map(Name::Path),
    }
}

fn text(path: Vec<u8>) -> Result<String, Fault> {
    String::from_utf8(path).map_err(|error| Fault::Path {
        path: String::from_utf8_lossy(error.as_bytes()).into_owned(),
        why: "is not UTF-8",
    })
}

/// Cuts a time stamp, which follows a tab; blanks where a mail program replaced it.
fn without_time(rest: &[u8]) -> &[u8] {
    if let Some(tab) = rest.iter().position(|&byte| byte == b'\t') {
        return &rest[..tab];
    }
    let is_time = |window: &[u8]| {
        window[0] == b' '
            && window[1..5].iter().all(u8::is_ascii_digit)
            && window[5] == b'-'
            && window[6..8].iter().all(u8::is_ascii_digit)
    };
    match rest.windows(8).position(is_time) {
        Some(blank) => &rest[..blank],
        None => rest,
    }
}

/// Whether the rest of a `---` or `+++` line has the time by which old programs mark no file.
pub(super) fn has_epoch(rest: &[u8]) -> bool {
    let rest = String::from_utf8_lossy(rest);
    ["1970-01-01", "1969-12-31", "Jan  1 00:00:00 1970"].iter().any(|time| rest.contains(time))
}

/// Returns a quoted name without C's quoting, and what follows it.
pub(super) fn unquoted(quoted: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = quoted.strip_prefix(b"\"")?;
    let mut path = Vec::new();
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((path, rest)),
            b'\\' => {
                let (&escape, after) = rest.split_first()?;
                rest = after;
                path.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'"' | b'\\' => escape,
                    b'0'..=b'3' => {
                        let digits = rest.get(..2)?;
                        let is_octal = |digit: &u8| (b'0'..=b'7').contains(digit);
                        if !digits.iter().all(is_octal) {
                            return None;
                        }
                        rest = &rest[2..];
                        (escape - b'0') * 64 + (digits[0] - b'0') * 8 + (digits[1] - b'0')
                    }
                    _ => return None,
                });
            }
            _ => path.push(byte),
        }
    }
}

/// Removes the first folder of both paths where it is none of the tree's.
pub(super) fn without_prefixes(old: Option<&str>, new: Option<&str>) -> [Option<String>; 2] {
    let cut =
        |path: &str| path.split_once('/').map(|(first, rest)| (first.to_owned(), rest.to_owned()));
    let (old_cut, new_cut) = (old.and_then(cut), new.and_then(cut));
    let is_prefixed = match (&old_cut, &new_cut) {
        (Some((first, rest)), Some((other, other_rest))) => match first == other {
            true => is_prefix(first),
            // Two trees, or git's prefixes; a rename has equal ones only without a prefix.
            false => rest == other_rest || is_prefix(first) && is_prefix(other),
        },
        (Some((first, _)), None) if new.is_none() => is_prefix(first),
        (None, Some((first, _))) if old.is_none() => is_prefix(first),
        _ => false,
    };
    let pick = |whole: Option<&str>, cut: Option<(String, String)>| match is_prefixed {
        true => cut.map(|(_, rest)| rest),
        false => whole.map(str::to_owned),
    };
    [pick(old, old_cut), pick(new, new_cut)]
}

/// `a` and `b`, git's other prefixes, and names of kernel trees.
fn is_prefix(folder: &str) -> bool {
    ["a", "b", "c", "i", "o", "w"].contains(&folder)
        || folder.starts_with("linux")
        || [".orig", ".old", ".new"].iter().any(|end| folder.ends_with(end))
}

/// Refuses a path that is not below the tree's root.
pub(crate) fn check(path: &str) -> Result<(), Fault> {
    let why = if path.starts_with('/') {
        "is absolute: expected one below the tree's root"
    } else if path.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        "has a control character"
    } else if path.split('/').any(|part| part == "..") {
        "leaves the tree"
    } else if path.split('/').any(|part| part.is_empty() || part == ".") {
        "has an empty part"
    } else if path.split('/').any(|part| part.eq_ignore_ascii_case(".git")) {
        "is git's own"
    } else if path.len() > 4096 {
        "is longer than 4096 bytes"
    } else {
        return Ok(());
    };
    Err(Fault::Path { path: path.chars().take(200).collect(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_and_letters_are_prefixes() {
        let both =
            |old: &str, new: &str| without_prefixes(Some(old), Some(new)).map(Option::unwrap);
        assert_eq!(both("a/k/x.c", "b/k/x.c"), ["k/x.c", "k/x.c"]);
        assert_eq!(both("linux-pm.orig/k/x.c", "linux-pm/k/x.c"), ["k/x.c", "k/x.c"]);
        assert_eq!(both("mine/k/x.c", "theirs/k/x.c"), ["k/x.c", "k/x.c"]);
        assert_eq!(both("k/x.c", "k/x.c"), ["k/x.c", "k/x.c"]);
        assert_eq!(both("a/k/x.c", "b/k/y.c"), ["k/x.c", "k/y.c"]);
        assert_eq!(both("k/x.c", "lib/y.c"), ["k/x.c", "lib/y.c"]);
        assert_eq!(without_prefixes(None, Some("b/k/x.c"))[1].as_deref(), Some("k/x.c"));
        assert_eq!(without_prefixes(None, Some("k/x.c"))[1].as_deref(), Some("k/x.c"));
    }

    #[test]
    fn names_lose_times_and_quotes() {
        let path = |rest: &[u8]| match name(rest).unwrap() {
            Name::Path(path) => path,
            Name::Nothing => String::new(),
        };
        assert_eq!(path(b"a/x.c\t2026-01-02 10:00:00.0 +0100"), "a/x.c");
        assert_eq!(path(b"a/x.c 2026-01-02 10:00:00.0 +0100"), "a/x.c");
        assert_eq!(path(b"a/two words.c"), "a/two words.c");
        assert_eq!(path(b"\"a/\\303\\244\\t.c\""), "a/\u{e4}\t.c");
        assert_eq!(path(b"/dev/null\t1970-01-01"), "");
        assert!(name(b"\"a/\\9\"").is_err());
    }

    #[test]
    fn paths_out_of_the_tree_are_refused() {
        for path in ["/etc/passwd", "../x", "a/../../x", "a//b", "./x", ".git/config", "a\0b", ""] {
            assert!(check(path).is_err(), "{path:?}");
        }
        assert!(check("drivers/cpuidle/..x/menu.c").is_ok());
    }
}
