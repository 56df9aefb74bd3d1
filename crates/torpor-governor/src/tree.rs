// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Finds governors' sources: single files, kernel trees, tarballs, git revisions.

use crate::compile::{Scratch, cache_error};
use crate::{GovernorError, Label};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

const GOVERNORS: &str = "drivers/cpuidle/governors";
/// Where packages of kernel sources are, for trees named by a version: `menu@6.12`.
const SOURCE_DIR: &str = "/usr/src";
const SOURCES_ENV: &str = "TORPOR_KERNEL_SOURCES";

/// A governor's file and the quoted includes beside it.
pub(crate) struct Sources {
    pub main: String,
    pub files: BTreeMap<String, Vec<u8>>,
    /// Where they were, for messages.
    pub dir: PathBuf,
}

impl Sources {
    /// Collects `main` and what it includes in quotes, through `read`, which gives `None` for a
    /// file that is not there.
    fn collect(
        main: String,
        dir: PathBuf,
        mut read: impl FnMut(&str) -> Result<Option<Vec<u8>>, GovernorError>,
    ) -> Result<Option<Sources>, GovernorError> {
        let Some(text) = read(&main)? else { return Ok(None) };
        let mut files = BTreeMap::new();
        let mut wanted = quoted_includes(&text);
        files.insert(main.clone(), text);
        while let Some(name) = wanted.pop() {
            if files.contains_key(&name) {
                continue;
            }
            // The compiler names a missing one, with the line that wants it.
            if let Some(text) = read(&name)? {
                wanted.extend(quoted_includes(&text));
                files.insert(name, text);
            }
        }
        Ok(Some(Sources { main, files, dir }))
    }

    pub fn main_bytes(&self) -> &[u8] {
        &self.files[&self.main]
    }

    pub fn main_text(&self) -> String {
        String::from_utf8_lossy(self.main_bytes()).into_owned()
    }
}

/// Names in `#include "..."`. Only files of the same folder: others are not copied.
fn quoted_includes(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let name = |line: &str| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
        let (name, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        let plain = Path::new(name).file_name() == Some(OsStr::new(name));
        plain.then(|| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// A built-in governor: it includes nothing in quotes.
pub(crate) fn from_text(name: &str, text: &str) -> Sources {
    let main = format!("{name}.c");
    let files = BTreeMap::from([(main.clone(), text.as_bytes().to_vec())]);
    Sources { main, files, dir: PathBuf::new() }
}

pub(crate) fn from_file(label: &Label, path: &Path) -> Result<Sources, GovernorError> {
    let read_error = |path: &Path, source| GovernorError::Read {
        policy: label.clone(),
        path: path.to_owned(),
        source,
    };
    let main = path.file_name().and_then(OsStr::to_str).ok_or_else(|| {
        read_error(path, io::Error::new(io::ErrorKind::InvalidInput, "its name is no UTF-8"))
    })?;
    let dir = path.parent().unwrap_or(Path::new("")).to_owned();
    let read = |name: &str| {
        let path = dir.join(name);
        match fs::read(&path) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(read_error(&path, e)),
        }
    };
    Sources::collect(main.to_owned(), dir.clone(), read)?
        .ok_or_else(|| read_error(path, io::ErrorKind::NotFound.into()))
}

/// Looks in a working copy, a tarball, or a git revision.
pub(crate) fn from_tree(
    label: &Label,
    name: &str,
    tree: &Path,
    rev: Option<&str>,
    cache: &Path,
) -> Result<Sources, GovernorError> {
    let found = match rev {
        Some(rev) => return from_git(label, name, tree, rev),
        None => locate(tree),
    };
    let governors = match &found {
        Some(place) if place.is_dir() => place.join(GOVERNORS),
        Some(tarball) => unpack_tarball(label, tarball, cache)?,
        None => {
            return Err(not_in_tree(label, tree, "folder or tarball of a kernel's source", || {
                format!(
                    "a version such as 6.12 is looked up as linux-source-6.12 in ${SOURCES_ENV} \
                     and in {SOURCE_DIR}"
                )
            }));
        }
    };
    let path = governors.join(format!("{name}.c"));
    if !path.is_file() {
        return Err(not_in_tree(label, tree, &format!("{GOVERNORS}/{name}.c"), || {
            let known = governors_in(&governors);
            if known.is_empty() { String::new() } else { format!("it has {}", known.join(", ")) }
        }));
    }
    from_file(label, &path)
}

fn not_in_tree(
    label: &Label,
    tree: &Path,
    wanted: &str,
    hint: impl FnOnce() -> String,
) -> GovernorError {
    GovernorError::NotInTree {
        policy: label.clone(),
        tree: tree.to_owned(),
        wanted: wanted.to_owned(),
        hint: hint(),
    }
}

fn governors_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".c").map(str::to_owned))
        .collect();
    names.sort();
    names
}

/// The path itself, or what a bare version stands for.
fn locate(tree: &Path) -> Option<PathBuf> {
    if tree.exists() {
        return Some(tree.to_owned());
    }
    let version = tree.to_str()?;
    if !version.starts_with(|c: char| c.is_ascii_digit()) || version.contains('/') {
        return None;
    }
    let given = std::env::var_os(SOURCES_ENV).map(PathBuf::from);
    given.into_iter().chain([SOURCE_DIR.into()]).find_map(|dir| {
        ["", ".tar.xz", ".tar.gz", ".tar"]
            .iter()
            .map(|suffix| dir.join(format!("linux-source-{version}{suffix}")))
            .find(|path| path.exists())
    })
}

fn from_git(label: &Label, name: &str, tree: &Path, rev: &str) -> Result<Sources, GovernorError> {
    let git_error = |message: String| GovernorError::Git {
        policy: label.clone(),
        tree: tree.to_owned(),
        message,
    };
    let show = |file: &str| {
        let output = Command::new("git")
            .arg("-C")
            .arg(tree)
            .arg("show")
            .arg(format!("{rev}:{GOVERNORS}/{file}"))
            .env("LC_ALL", "C")
            .output()
            .map_err(|e| git_error(format!("git could not be started: {e}")))?;
        if output.status.success() {
            return Ok(Some(output.stdout));
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        // The revision is there, the file is not.
        if message.contains("does not exist in") || message.contains("exists on disk, but not in") {
            return Ok(None);
        }
        Err(git_error(message))
    };
    let main = format!("{name}.c");
    let dir = PathBuf::from(format!("{}:{rev}:{GOVERNORS}", tree.display()));
    Sources::collect(main.clone(), dir, show)?.ok_or_else(|| {
        not_in_tree(label, tree, &format!("{GOVERNORS}/{main} at {rev}"), String::new)
    })
}

/// Unpacks the governors' folder, once per tarball as size and time of change tell them apart.
fn unpack_tarball(label: &Label, tarball: &Path, cache: &Path) -> Result<PathBuf, GovernorError> {
    let read_error =
        |source| GovernorError::Read { policy: label.clone(), path: tarball.to_owned(), source };
    let path = tarball.canonicalize().map_err(read_error)?;
    let meta = fs::metadata(&path).map_err(read_error)?;
    let changed = meta.modified().map_err(read_error)?;
    let changed = changed.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let key = format!("{}\0{}\0{changed}", path.display(), meta.len());
    let home = cache.join("trees").join(&crate::sha256_hex(key.as_bytes())[..16]);
    if home.is_dir() {
        return Ok(home);
    }
    let scratch = Scratch::new(cache).map_err(|e| cache_error(cache, e))?;
    extract_governors(&path, &scratch.0).map_err(read_error)?;
    scratch.keep_as(&home).map_err(|e| cache_error(&home, e))?;
    Ok(home)
}

fn extract_governors(tarball: &Path, to: &Path) -> io::Result<()> {
    let file = BufReader::with_capacity(1 << 20, File::open(tarball)?);
    let name = tarball.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let reader: Box<dyn Read> = if name.ends_with(".xz") {
        Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(file))
    } else if name.ends_with(".gz") || name.ends_with(".tgz") {
        Box::new(flate2::bufread::MultiGzDecoder::new(file))
    } else if name.ends_with(".tar") {
        Box::new(file)
    } else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no folder and no .tar, .tar.gz or .tar.xz",
        ));
    };
    let mut archive = tar::Archive::new(reader);
    let mut inside = false;
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        if !is_in_governors(&path) {
            // Tarballs of kernels are sorted: what comes after the folder is not wanted.
            if inside {
                break;
            }
            continue;
        }
        inside = true;
        if let (true, Some(name)) = (entry.header().entry_type().is_file(), path.file_name()) {
            let mut text = Vec::new();
            entry.read_to_end(&mut text)?;
            fs::write(to.join(name), text)?;
        }
    }
    if inside {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("it has no folder {GOVERNORS}")))
}

/// `ANY/drivers/cpuidle/governors/FILE`, or the folder itself; the first part may be missing.
fn is_in_governors(path: &Path) -> bool {
    let parts: Vec<&OsStr> = path
        .components()
        .filter_map(|c| if let Component::Normal(part) = c { Some(part) } else { None })
        .collect();
    let folder: Vec<&OsStr> = GOVERNORS.split('/').map(OsStr::new).collect();
    (0..=1).any(|skip| parts.get(skip..).is_some_and(|rest| rest.starts_with(&folder)))
}
