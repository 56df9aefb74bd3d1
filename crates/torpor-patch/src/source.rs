// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Files and folders that hold patches.

use crate::error::{Fault, Located, PatchError};
use crate::letter::Letter;
use crate::limits;
use crate::order;
use crate::series::{Series, add_mails};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use torpor_machine::units::{Packing, open_input, open_regular, unreadable};

pub(crate) fn read(path: &Path) -> Result<Series, PatchError> {
    let name = path.to_string_lossy();
    if path.is_dir() {
        return read_folder(path, &name);
    }
    let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    let file = open_input(path)
        .map_err(|error| Fault::Unreadable(unreadable(path, &error)))
        .and_then(|file| contents(file, limits::FILE_BYTES))
        .map_err(|fault| Located::from(fault).within(&name, None))?;
    Series::from_bytes(&name, &file)
}

/// Reads a whole file, unpacked, of at most `max` bytes.
fn contents(file: impl Read, max: usize) -> Result<Vec<u8>, Fault> {
    let too_large = Fault::TooMany { unit: "bytes", max: limits::FILE_BYTES };
    let mut bytes = Vec::new();
    file.take(max as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Fault::Unreadable(error.to_string()))?;
    if bytes.len() > max {
        return Err(too_large);
    }
    let Some(packing) = Packing::of(&bytes) else { return Ok(bytes) };
    let inflated = packing.unpack(&bytes, max as u64, &|| true);
    match (inflated.is_whole, inflated.is_too_large) {
        (true, _) => Ok(inflated.bytes),
        (_, true) => Err(too_large),
        _ => Err(Fault::Encoding("packing")),
    }
}

/// A maildir, quilt's folder with a `series`, or one of files such as `git format-patch` writes.
fn read_folder(folder: &Path, name: &str) -> Result<Series, PatchError> {
    let unnamed = |fault: Fault| Located::from(fault).within(name, None);
    let series = folder.join("series");
    if series.is_file() {
        let files = listed(folder, &series).map_err(unnamed)?;
        return Series::from_chosen(name, order::take_all(letters(name, &files)?));
    }
    let is_maildir = ["cur", "new"].iter().any(|part| folder.join(part).is_dir());
    let files = if is_maildir {
        let parts = ["cur", "new"].map(|part| folder.join(part));
        let parts = parts.iter().filter(|part| part.is_dir());
        parts.map(|part| entries(part, &[])).collect::<Result<Vec<_>, _>>().map(|all| all.concat())
    } else {
        entries(folder, &[".patch", ".diff", ".eml", ".mbox", ".mbx"])
    };
    let files = files.map_err(unnamed)?;
    Series::from_chosen(name, order::choose(letters(name, &files)?))
}

/// Returns the regular files of a folder, by name; hidden ones are no patches.
fn entries(folder: &Path, ends: &[&str]) -> Result<Vec<PathBuf>, Fault> {
    let unreadable = |error| Fault::Unreadable(unreadable(folder, &error));
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_wanted = ends.is_empty() || ends.iter().any(|end| name.ends_with(end));
        if is_wanted && !name.starts_with('.') && entry.path().is_file() {
            paths.push(entry.path());
        }
        if paths.len() > limits::MAILS {
            return Err(Fault::TooMany { unit: "mails", max: limits::MAILS });
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns the files that quilt's `series` lists.
fn listed(folder: &Path, series: &Path) -> Result<Vec<PathBuf>, Fault> {
    let file = open_regular(series).map_err(|error| Fault::Unreadable(error.to_string()))?;
    let text = contents(file, limits::FILE_BYTES)?;
    let text = String::from_utf8_lossy(&text);
    let mut files = Vec::new();
    for line in text.lines() {
        let line = line.split_once('#').map_or(line, |(line, _)| line);
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        if words.any(|option| option != "-p1") {
            return Err(Fault::SeriesOption(name.to_owned()));
        }
        crate::diff::check_path(name)?;
        let path = folder.join(name);
        if !path.is_file() {
            return Err(Fault::NotInFolder(name.to_owned()));
        }
        files.push(path);
        if files.len() > limits::PATCHES {
            return Err(Fault::TooMany { unit: "patches", max: limits::PATCHES });
        }
    }
    Ok(files)
}

fn letters(name: &str, files: &[PathBuf]) -> Result<Vec<Letter>, PatchError> {
    let (mut letters, mut left) = (Vec::new(), limits::FILE_BYTES);
    for path in files {
        let label = path.file_name().unwrap_or_default().to_string_lossy();
        let bytes = open_regular(path)
            .map_err(|error| Fault::Unreadable(error.to_string()))
            .and_then(|file| contents(file, left))
            .map_err(|fault| Located::from(fault).within(name, Some(label.to_string())))?;
        left -= bytes.len();
        add_mails(name, &label, &bytes, &mut letters)?;
    }
    Ok(letters)
}
