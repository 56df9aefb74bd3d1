// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Finds governors' sources: single files, kernel trees, tarballs, git revisions.

use crate::spec::Place;
use crate::store::{Files, Store};
use crate::{GovernorError, Label, Release, git};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

const GOVERNORS: &str = "drivers/cpuidle/governors";
/// Of the tree's root; it names the release.
const MAKEFILE: &str = "Makefile";
const IDLE_LOOP: &str = "kernel/sched/idle.c";
/// Where packages of kernel sources are, for trees named by a version: `menu@6.12`.
const SOURCE_DIR: &str = "/usr/src";
/// The largest governor of any kernel has 40 KiB.
const SOURCE_MAX: u64 = 16 << 20;
pub const SOURCES_ENV: &str = "TORPOR_KERNEL_SOURCES";

/// A governor's file and the quoted includes next to it.
pub(crate) struct Sources {
    pub main: String,
    pub files: BTreeMap<String, Vec<u8>>,
    /// Where they were, for messages.
    pub dir: PathBuf,
    /// Whose interface they are compiled against.
    pub release: Release,
    /// What the user has chosen of the kernel's configuration.
    pub config: Vec<(String, String)>,
}

impl Sources {
    /// Collects `main` and what it includes in quotes, through `read`, which gives `None` for a
    /// file that is not there. Without the tree's Makefile the text itself says whose it is.
    fn collect(
        main: String,
        dir: PathBuf,
        makefile: Option<String>,
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
        let release = makefile.and_then(|text| Release::of_makefile(&text)).unwrap_or_else(|| {
            let all: Vec<_> = files.values().map(|text| String::from_utf8_lossy(text)).collect();
            Release::of_text(&all.join("\n"))
        });
        Ok(Some(Sources { main, files, dir, release, config: Vec::new() }))
    }

    pub(crate) fn main_bytes(&self) -> &[u8] {
        &self.files[&self.main]
    }

    pub(crate) fn main_text(&self) -> String {
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

/// A plain file of a reasonable size: a pipe or a device may never end.
fn read_source(path: &Path) -> io::Result<Vec<u8>> {
    let meta = fs::metadata(path)?;
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut text = Vec::new();
    File::open(path)?.take(SOURCE_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > SOURCE_MAX { Err(too_large()) } else { Ok(text) }
}

fn too_large() -> io::Error {
    let most = SOURCE_MAX >> 20;
    io::Error::new(io::ErrorKind::InvalidData, format!("it is larger than {most} MiB"))
}

/// A built-in governor: it includes nothing in quotes.
pub(crate) fn from_text(name: &str, text: &str) -> Sources {
    let main = format!("{name}.c");
    let files = BTreeMap::from([(main.clone(), text.as_bytes().to_vec())]);
    let release = Release::default();
    Sources { main, files, dir: PathBuf::new(), release, config: Vec::new() }
}

/// A file that lies where kernels have their governors is of that tree.
pub(crate) fn from_file(label: &Label, path: &Path) -> Result<Sources, GovernorError> {
    from_file_of(label, path, tree_of(path).as_deref())
}

/// The root of the kernel tree in which a governor's file has the place of the kernel's own.
fn tree_of(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let folder = path.parent().filter(|dir| dir.ends_with(GOVERNORS))?;
    folder.ancestors().nth(3).map(Path::to_owned)
}

fn from_file_of(label: &Label, path: &Path, tree: Option<&Path>) -> Result<Sources, GovernorError> {
    let read_error = |path: &Path, source| GovernorError::Read {
        policy: label.clone(),
        path: path.to_owned(),
        source,
    };
    let main = path.file_name().and_then(OsStr::to_str).ok_or_else(|| {
        read_error(path, io::Error::new(io::ErrorKind::InvalidInput, "its name is not UTF-8"))
    })?;
    let dir = path.parent().unwrap_or(Path::new("")).to_owned();
    let read = |name: &str| {
        let path = dir.join(name);
        match read_source(&path) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(read_error(&path, e)),
        }
    };
    let makefile = tree.and_then(|tree| read_source(&tree.join(MAKEFILE)).ok());
    let makefile = makefile.map(|text| String::from_utf8_lossy(&text).into_owned());
    Sources::collect(main.to_owned(), dir.clone(), makefile, read)?
        .ok_or_else(|| read_error(path, io::ErrorKind::NotFound.into()))
}

/// Looks in a working copy, a tarball, or a git revision.
pub(crate) fn from_tree(
    label: &Label,
    name: &str,
    tree: &Path,
    rev: Option<&str>,
    store: &Store,
) -> Result<Sources, GovernorError> {
    let found = match rev {
        Some(rev) => return from_git(label, name, tree, rev),
        None => locate(tree),
    };
    let (root, governors) = match &found {
        Some(place) if place.is_dir() => (place.clone(), place.join(GOVERNORS)),
        Some(tarball) => {
            let home = unpack_tarball(label, tarball, store)?;
            (home.clone(), home)
        }
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
    from_file_of(label, &path, Some(&root))
}

/// Whether the kernel asks a governor about a table of one state. Since 7.0, and in stable releases
/// of older ones, the idle loop takes that state without asking; without a tree, or without the
/// loop in it, the release decides.
pub(crate) fn asks_about_one_state(
    label: &Label,
    place: &Place,
    release: Release,
    store: &Store,
) -> Result<bool, GovernorError> {
    let text = match place {
        Place::Builtin { .. } => None,
        Place::File { path } => tree_of(path).and_then(|t| read_source(&t.join(IDLE_LOOP)).ok()),
        Place::Tree { tree, rev: Some(rev), .. } => git_show(label, tree, rev, IDLE_LOOP)?,
        Place::Tree { tree, rev: None, .. } => match locate(tree) {
            Some(folder) if folder.is_dir() => read_source(&folder.join(IDLE_LOOP)).ok(),
            Some(tarball) => from_tarball(label, &tarball, IDLE_LOOP, store)?,
            None => None,
        },
    };
    Ok(match text {
        Some(text) => !String::from_utf8_lossy(&text).contains("state_count > 1"),
        None => release < Release { major: 7, minor: 0 },
    })
}

/// One file of a tarball; `None` if it has none of that name.
fn from_tarball(
    label: &Label,
    tarball: &Path,
    wanted: &str,
    store: &Store,
) -> Result<Option<Vec<u8>>, GovernorError> {
    let read_error =
        |source| GovernorError::Read { policy: label.clone(), path: tarball.to_owned(), source };
    let name = wanted.rsplit('/').next().unwrap_or(wanted);
    let extract = || -> io::Result<Files> {
        for entry in open_tarball(tarball)?.entries()? {
            let mut entry = entry?;
            let path = entry.path()?.into_owned();
            let inside: PathBuf = path.components().skip(1).collect();
            if path == Path::new(wanted) || inside == Path::new(wanted) {
                let mut text = Vec::new();
                entry.by_ref().take(SOURCE_MAX).read_to_end(&mut text)?;
                return Ok(Files::from([(name.to_owned(), text)]));
            }
        }
        Ok(Files::new())
    };
    let key = tarball_key(wanted, tarball).map_err(read_error)?;
    let made = || extract().map_err(read_error);
    let entry = store.entry("trees", &key, &tarball.display().to_string(), made)?;
    Ok(read_source(&entry.path.join(name)).ok())
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
pub fn locate(tree: &Path) -> Option<PathBuf> {
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

/// A file of a revision; `None` if the revision does not have it.
fn git_show(
    label: &Label,
    tree: &Path,
    rev: &str,
    path: &str,
) -> Result<Option<Vec<u8>>, GovernorError> {
    let git_error = |message: String| GovernorError::Git {
        policy: label.clone(),
        tree: tree.to_owned(),
        message,
    };
    git::show(tree, rev, path).map_err(git_error)
}

fn from_git(label: &Label, name: &str, tree: &Path, rev: &str) -> Result<Sources, GovernorError> {
    let show = |path: &str| git_show(label, tree, rev, path);
    let main = format!("{name}.c");
    let dir = PathBuf::from(format!("{}:{rev}:{GOVERNORS}", tree.display()));
    let makefile = show(MAKEFILE)?.map(|text| String::from_utf8_lossy(&text).into_owned());
    let governor = |file: &str| show(&format!("{GOVERNORS}/{file}"));
    Sources::collect(main.clone(), dir, makefile, governor)?.ok_or_else(|| {
        not_in_tree(label, tree, &format!("{GOVERNORS}/{main} at {rev}"), String::new)
    })
}

/// Unpacks the governors' folder, once per tarball.
fn unpack_tarball(label: &Label, tarball: &Path, store: &Store) -> Result<PathBuf, GovernorError> {
    let read_error =
        |source| GovernorError::Read { policy: label.clone(), path: tarball.to_owned(), source };
    let key = tarball_key(MAKEFILE, tarball).map_err(read_error)?;
    let made = || extract_governors(tarball).map_err(read_error);
    let entry = store.entry("trees", &key, &tarball.display().to_string(), made)?;
    Ok(entry.path)
}

/// One for what is taken out of a tarball, as size and time of change tell tarballs apart.
pub fn tarball_key(what: &str, tarball: &Path) -> io::Result<String> {
    let path = tarball.canonicalize()?;
    let meta = fs::metadata(&path)?;
    let changed = meta.modified()?.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let key = format!("{what}\0{}\0{}\0{changed}", path.display(), meta.len());
    Ok(crate::sha256_hex(key.as_bytes())[..16].to_owned())
}

/// Read once, from its beginning to its end.
pub type Archive = tar::Archive<Box<dyn Read>>;

pub fn open_tarball(tarball: &Path) -> io::Result<Archive> {
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
            "it is neither a folder nor a .tar, .tar.gz or .tar.xz",
        ));
    };
    Ok(tar::Archive::new(reader))
}

fn extract_governors(tarball: &Path) -> io::Result<Files> {
    let mut archive = open_tarball(tarball)?;
    let mut files = Files::new();
    let mut inside = false;
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let is_file = entry.header().entry_type().is_file();
        let mut text = || {
            let mut text = Vec::new();
            entry.by_ref().take(SOURCE_MAX + 1).read_to_end(&mut text)?;
            if text.len() as u64 > SOURCE_MAX { Err(too_large()) } else { Ok(text) }
        };
        if is_file && is_root_makefile(&path) {
            files.insert(MAKEFILE.to_owned(), text()?);
            continue;
        }
        if !is_in_governors(&path) {
            // Tarballs of kernels are sorted: what comes after the folder is not wanted.
            if inside {
                break;
            }
            continue;
        }
        inside = true;
        let name = path.file_name().and_then(OsStr::to_str);
        let name = name.filter(|name| *name != MAKEFILE && !name.contains(char::is_control));
        if let (true, Some(name)) = (is_file, name) {
            files.insert(name.to_owned(), text()?);
        }
    }
    if inside {
        return Ok(files);
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

/// `ANY/Makefile`, or without the first part.
fn is_root_makefile(path: &Path) -> bool {
    let parts = path.components().filter(|c| matches!(c, Component::Normal(_))).count();
    (1..=2).contains(&parts) && path.file_name() == Some(OsStr::new(MAKEFILE))
}
