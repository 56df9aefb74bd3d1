// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The header of one file's diff, in git's form and in the plain one, and its hunks.

use super::path::{self, Name};
use super::{FileDiff, Hunk, Kind, Lines, hunk};
use crate::error::{Fault, Located};

/// Header lines of one file.
#[derive(Default)]
struct Header {
    old: Option<Name>,
    new: Option<Name>,
    rename: [Option<Name>; 2],
    copy: [Option<Name>; 2],
    blobs: Option<(String, String)>,
    modes: Vec<String>,
    lines: Vec<String>,
    is_added: bool,
    is_deleted: bool,
    is_binary: bool,
}

/// Reads the file's diff that begins at the next line; None if none does.
pub(super) fn read(lines: &mut Lines<'_>) -> Result<Option<FileDiff>, Located> {
    let start = lines.at;
    let line = lines.get(0).unwrap_or_default();
    if let Some(names) = line.strip_prefix(b"diff --git ") {
        let mut header = Header::default();
        lines.at += 1;
        extended_headers(lines, &mut header)?;
        let has_names = names_follow(lines);
        if has_names {
            names_of_sides(lines, &mut header)?;
        }
        // Without anything below it, a line of prose.
        if !has_names && header.lines.is_empty() && header.blobs.is_none() && !header.is_binary {
            lines.at = start;
            return Ok(None);
        }
        return finish(lines, start, header, Some(names)).map(Some);
    }
    // The header of a hunk below tells a file from prose and rules of dashes.
    if names_follow(lines) && lines.starts(2, b"@@ -") {
        let mut header = Header::default();
        let sides =
            [lines.get(0), lines.get(1)].map(|line| path::has_epoch(line.unwrap_or_default()));
        names_of_sides(lines, &mut header)?;
        let file = finish(lines, start, header, None)?;
        return Ok(Some(with_epochs(file, sides)));
    }
    Ok(None)
}

fn names_follow(lines: &Lines<'_>) -> bool {
    lines.starts(0, b"--- ") && lines.starts(1, b"+++ ")
}

fn names_of_sides(lines: &mut Lines<'_>, header: &mut Header) -> Result<(), Located> {
    let mut side = || {
        let rest = lines.get(0).map(|line| &line[4..]).unwrap_or_default();
        let name = path::name(rest).map_err(|fault| Located::at(lines.at, fault));
        lines.at += 1;
        name
    };
    header.old = Some(side()?);
    header.new = Some(side()?);
    Ok(())
}

fn extended_headers(lines: &mut Lines<'_>, header: &mut Header) -> Result<(), Located> {
    while let Some(line) = lines.get(0) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let after = |prefix: &str| line.strip_prefix(prefix.as_bytes());
        let name = |rest| path::name(rest).map(Some).map_err(|fault| Located::at(lines.at, fault));
        if let Some(rest) = after("index ") {
            read_index(rest, header);
            lines.at += 1;
            continue;
        } else if let Some(mode) = after("old mode ").or(after("new mode ")) {
            header.modes.push(lossy(mode));
        } else if let Some(mode) = after("new file mode ") {
            header.modes.push(lossy(mode));
            header.is_added = true;
        } else if let Some(mode) = after("deleted file mode ") {
            header.modes.push(lossy(mode));
            header.is_deleted = true;
        } else if let Some(rest) = after("rename from ").or(after("rename old ")) {
            header.rename[0] = name(rest)?;
        } else if let Some(rest) = after("rename to ").or(after("rename new ")) {
            header.rename[1] = name(rest)?;
        } else if let Some(rest) = after("copy from ") {
            header.copy[0] = name(rest)?;
        } else if let Some(rest) = after("copy to ") {
            header.copy[1] = name(rest)?;
        } else if after("GIT binary patch").or(after("Binary files ")).is_some() {
            header.is_binary = true;
            lines.at += 1;
            return Ok(());
        } else if after("similarity index ").or(after("dissimilarity index ")).is_none() {
            return Ok(());
        }
        header.lines.push(lossy(line));
        lines.at += 1;
    }
    Ok(())
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).trim_end().to_owned()
}

/// `a1b2c3..d4e5f6 100644`.
fn read_index(rest: &[u8], header: &mut Header) {
    let rest = lossy(rest);
    let (blobs, mode) = rest.split_once(' ').unwrap_or((&rest, ""));
    let is_id =
        |id: &str| (4..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some((old, new)) = blobs.split_once("..").filter(|(old, new)| is_id(old) && is_id(new)) {
        header.blobs = Some((old.to_ascii_lowercase(), new.to_ascii_lowercase()));
    }
    if !mode.is_empty() {
        header.modes.push(mode.to_owned());
    }
}

fn finish(
    lines: &mut Lines<'_>,
    start: usize,
    header: Header,
    git_names: Option<&[u8]>,
) -> Result<FileDiff, Located> {
    let located = |fault| Located::at(start, fault);
    let (kind, old_path, path) = names(&header, git_names).map_err(located)?;
    for path in old_path.iter().chain([&path]) {
        path::check(path).map_err(located)?;
    }
    if let Some(mode) = header.modes.iter().find(|mode| !is_file_mode(mode)) {
        return Err(located(Fault::Mode { path, mode: mode.clone() }));
    }
    let hunks = hunks(lines)?;
    let (old_blob, new_blob) = header.blobs.unzip();
    Ok(FileDiff { path, old_path, kind, old_blob, new_blob, headers: header.lines, hunks })
}

fn hunks(lines: &mut Lines<'_>) -> Result<Vec<Hunk>, Located> {
    let mut hunks: Vec<Hunk> = Vec::new();
    while lines.starts(0, b"@@ ") {
        hunks.push(hunk::read(lines)?);
    }
    Ok(hunks)
}

/// Git writes two modes of files; early versions wrote those of the file system.
fn is_file_mode(mode: &str) -> bool {
    mode.len() == 6 && mode.starts_with("100")
}

/// Returns kind, source and path.
fn names(
    header: &Header,
    git_names: Option<&[u8]>,
) -> Result<(Kind, Option<String>, String), Fault> {
    for (kind, pair) in [(Kind::Rename, &header.rename), (Kind::Copy, &header.copy)] {
        if let [Some(Name::Path(from)), Some(Name::Path(to))] = pair {
            let kind = if header.is_binary { Kind::Binary } else { kind };
            return Ok((kind, Some(from.clone()), to.clone()));
        }
    }
    let [old, new] = match (&header.old, &header.new) {
        (Some(old), Some(new)) => {
            let path = |name: &'_ Name| match name {
                Name::Nothing => None,
                Name::Path(path) => Some(path.clone()),
            };
            let (old, new) = (path(old), path(new));
            path::without_prefixes(old.as_deref(), new.as_deref())
        }
        _ => {
            let both = git_names.and_then(both_names).ok_or(Fault::NoName)?;
            let [old, new] = path::without_prefixes(Some(&both.0), Some(&both.1));
            [old.filter(|_| !header.is_added), new.filter(|_| !header.is_deleted)]
        }
    };
    let is_added = header.is_added || old.is_none();
    let is_deleted = header.is_deleted || new.is_none();
    let kind = match (header.is_binary, is_added, is_deleted) {
        (true, ..) => Kind::Binary,
        (_, true, true) => return Err(Fault::NoName),
        (_, true, false) => Kind::Add,
        (_, false, true) => Kind::Delete,
        (_, false, false) => Kind::Modify,
    };
    let path = if is_deleted { old } else { new.or(old) };
    Ok((kind, None, path.ok_or(Fault::NoName)?))
}

/// Splits the names of `diff --git a/x b/x`, which are the same but for the prefix.
fn both_names(names: &[u8]) -> Option<(String, String)> {
    let names = names.trim_ascii_end();
    if names.starts_with(b"\"") {
        let (old, rest) = path::unquoted(names)?;
        let rest = rest.strip_prefix(b" ")?;
        let new = match rest.first() {
            Some(b'"') => path::unquoted(rest)?.0,
            _ => rest.to_vec(),
        };
        return Some((String::from_utf8(old).ok()?, String::from_utf8(new).ok()?));
    }
    let names = std::str::from_utf8(names).ok()?;
    let middle = names.len() / 2;
    let (old, new) = (names.get(..middle)?, names.get(middle..)?.strip_prefix(' ')?);
    let rest = |path: &str| path.split_once('/').map(|(_, rest)| rest.to_owned());
    (old == new || rest(old) == rest(new)).then(|| (old.to_owned(), new.to_owned()))
}

/// Takes a side with the first second of 1970 as no file, if the hunk has no line of it.
fn with_epochs(mut file: FileDiff, sides: [bool; 2]) -> FileDiff {
    if let [hunk] = file.hunks.as_slice() {
        match (file.kind, sides, hunk.old_count, hunk.new_count) {
            (Kind::Modify, [true, _], 0, _) => file.kind = Kind::Add,
            (Kind::Modify, [_, true], _, 0) => file.kind = Kind::Delete,
            _ => {}
        }
    }
    file
}
