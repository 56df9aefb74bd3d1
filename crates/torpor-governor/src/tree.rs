// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Finds the sources of governors: single files, folders, kernel trees, tarballs, git revisions.

use crate::builtin::KAPI;
use crate::config::without_comments;
use crate::makefile::Makefile;
use crate::patched::{self, Changes};
use crate::spec::Place;
use crate::store::{Entry, Files, Store};
use crate::{GovernorError, Label, Release, TreeSpec, git};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;
use torpor_machine::units::open_regular;

const GOVERNORS: &str = "drivers/cpuidle/governors";
/// Makefile in the tree's root, with the release.
const MAKEFILE: &str = "Makefile";
const IDLE_LOOP: &str = "kernel/sched/idle.c";
/// Header in the folder of governors, since 6.6.
const SHARED_HEADER: &str = "gov.h";
const SHARED_HEADER_TEXT: &str = "include/torpor/gov.h";
/// Suffixes of packed kernel sources.
const TARBALLS: &[&str] = &[".tar.xz", ".tar.gz", ".tar.bz2", ".tar"];
/// Folder of packaged kernel sources, for trees named by a version: `menu@6.12`.
const SOURCE_DIR: &str = "/usr/src";
/// Limit of a source file, in bytes. The largest governor of any kernel has 40 KiB.
const SOURCE_MAX: u64 = 16 << 20;
pub const SOURCES_ENV: &str = "TORPOR_KERNEL_SOURCES";
/// Folder in the user's cache for `torpor kernel fetch`.
const FETCHED: &str = "sources";

/// A governor's files and those they include in quotes.
pub(crate) struct Sources {
    /// The file that registers.
    pub main: String,
    /// Compiler flags of `main`.
    pub main_flags: Vec<String>,
    /// The other files to compile, where a governor has several.
    pub parts: Vec<Part>,
    /// Contents by path relative to the folder of `main`, with at most one leading `..`.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Folder of the files, for messages.
    pub dir: PathBuf,
    /// Release whose interface they are compiled against.
    pub release: Release,
    /// Kernel options that the user has set.
    pub config: Vec<(String, String)>,
}

/// A C file that is compiled and linked with a governor's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    pub file: String,
    pub flags: Vec<String>,
}

impl Sources {
    /// Collects `main` and the files that it includes in quotes. `read` returns `None` for a missing
    /// file. Without the tree's Makefile, the release is determined from the text. The kapi provides
    /// the governors' shared header.
    fn collect(
        main: String,
        dir: PathBuf,
        makefile: Option<String>,
        mut read: impl FnMut(&str) -> Result<Option<Vec<u8>>, GovernorError>,
    ) -> Result<Option<Sources>, GovernorError> {
        let Some(text) = read(&main)? else { return Ok(None) };
        let mut files = BTreeMap::new();
        let mut wanted = quoted_includes(&main, &text);
        files.insert(main.clone(), text);
        while let Some(name) = wanted.pop() {
            if files.contains_key(&name) {
                continue;
            }
            // The compiler reports missing ones.
            if let Some(text) = read(&name)?.or_else(|| shared_header(&name)) {
                wanted.extend(quoted_includes(&name, &text));
                files.insert(name, text);
            }
        }
        let release = makefile.and_then(|text| Release::of_makefile(&text)).unwrap_or_else(|| {
            let all: Vec<_> = files.values().map(|text| String::from_utf8_lossy(text)).collect();
            Release::of_text(&all.join("\n"))
        });
        Ok(Some(Sources { release, ..Sources::new(main, files, dir) }))
    }

    pub(crate) fn new(main: String, files: BTreeMap<String, Vec<u8>>, dir: PathBuf) -> Sources {
        let (main_flags, parts, config) = (Vec::new(), Vec::new(), Vec::new());
        let release = Release::default();
        Sources { main, main_flags, parts, files, dir, release, config }
    }

    /// Returns the text of its C files, `main` first.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = self.files[&self.main].clone();
        self.parts.iter().for_each(|part| text.extend_from_slice(&self.files[&part.file]));
        text
    }
}

/// Returns `gov.h`, which may be missing next to a single file.
fn shared_header(name: &str) -> Option<Vec<u8>> {
    let is_it = Path::new(name).file_name() == Some(OsStr::new(SHARED_HEADER));
    let text = KAPI.iter().find(|(file, _)| is_it && *file == SHARED_HEADER_TEXT)?.1;
    Some(text.as_bytes().to_vec())
}

/// Returns the files that `file` includes as `#include "..."`, relative to the governor's folder.
/// Only those of this folder and its parent; others are not copied.
fn quoted_includes(file: &str, text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let name = |line: &str| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
        let (name, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        let (above, plain) = match name.strip_prefix("../") {
            Some(plain) => ("../", plain),
            None => ("", name),
        };
        let is_plain = Path::new(plain).file_name() == Some(OsStr::new(plain));
        match (is_plain, file.starts_with("../"), above) {
            (false, ..) | (true, true, "../") => None,
            (true, true, _) => Some(format!("../{plain}")),
            (true, false, _) => Some(name.to_owned()),
        }
    };
    text.lines().filter_map(name).collect()
}

/// Reads a regular file of up to [`SOURCE_MAX`] bytes; a pipe or a device could never end.
pub(crate) fn read_source(path: &Path) -> io::Result<Vec<u8>> {
    read_limited(open_regular(path)?)
}

fn read_limited(file: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(SOURCE_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > SOURCE_MAX {
        let reason = format!("it is larger than {} MiB", SOURCE_MAX >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    Ok(text)
}

pub(crate) fn read_error(label: &Label, path: &Path) -> impl Fn(io::Error) -> GovernorError {
    let (policy, path) = (label.clone(), path.to_owned());
    move |source| GovernorError::Read { policy: policy.clone(), path: path.clone(), source }
}

/// Returns a built-in governor, which includes nothing in quotes.
pub(crate) fn from_text(name: &str, text: &str) -> Sources {
    let main = format!("{name}.c");
    let files = BTreeMap::from([(main.clone(), text.as_bytes().to_vec())]);
    Sources::new(main, files, PathBuf::new())
}

/// Reads a single file. It belongs to a kernel tree if it is in the folder of that tree's governors.
pub(crate) fn from_file(label: &Label, path: &Path) -> Result<Sources, GovernorError> {
    from_file_of(label, path, tree_of(path).as_deref())
}

/// Reads a governor of several files: those that the folder's Makefile lists, or all C files.
pub(crate) fn from_folder(label: &Label, folder: &Path) -> Result<Sources, GovernorError> {
    let makefile = read_source(&folder.join(MAKEFILE)).unwrap_or_default();
    let makefile = Makefile::parse(&String::from_utf8_lossy(&makefile));
    let mut names = makefile.parts();
    if names.is_empty() || names.iter().any(|name| !folder.join(name).is_file()) {
        names = file_names(folder).map_err(read_error(label, folder))?;
        // A kernel's build generates NAME.mod.c.
        names.retain(|name| name.ends_with(".c") && !name.ends_with(".mod.c"));
    }
    let tree = tree_of(&folder.join("any.c"));
    let mut found = Vec::new();
    for name in &names {
        found.push(from_file_of(label, &folder.join(name), tree.as_deref())?);
    }
    let registers = |sources: &Sources| {
        let text = String::from_utf8_lossy(&sources.files[&sources.main]).into_owned();
        without_comments(&text).contains("cpuidle_register_governor(")
    };
    let mains: Vec<usize> = (0..found.len()).filter(|i| registers(&found[*i])).collect();
    let [main] = mains[..] else {
        let list = |all: Vec<&str>| if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        let which = list(mains.iter().map(|i| found[*i].main.as_str()).collect());
        let all = list(names.iter().map(String::as_str).collect());
        let reason = format!(
            "exactly one C file of a folder must call cpuidle_register_governor(); of its C files \
             ({all}) these do: {which}"
        );
        return Err(GovernorError::Setup { policy: label.clone(), reason });
    };
    let mut sources = found.remove(main);
    sources.main_flags = makefile.flags(&sources.main);
    for part in found {
        let flags = makefile.flags(&part.main);
        sources.parts.push(Part { file: part.main, flags });
        sources.files.extend(part.files);
        if tree.is_none() {
            sources.release = sources.release.min(part.release);
        }
    }
    Ok(sources)
}

/// Returns the root of the kernel tree if the file is in its folder of governors.
fn tree_of(path: &Path) -> Option<PathBuf> {
    let path = path.parent()?.canonicalize().ok()?.join(path.file_name()?);
    let mut folders = path.ancestors().skip(1).take(2);
    folders.find(|dir| dir.ends_with(GOVERNORS))?.ancestors().nth(3).map(Path::to_owned)
}

fn from_file_of(label: &Label, path: &Path, tree: Option<&Path>) -> Result<Sources, GovernorError> {
    let main = path.file_name().and_then(OsStr::to_str).ok_or_else(|| {
        let reason = io::Error::new(io::ErrorKind::InvalidInput, "its name is not UTF-8");
        read_error(label, path)(reason)
    })?;
    let dir = path.parent().unwrap_or(Path::new("")).to_owned();
    let read = |name: &str| {
        let path = dir.join(name);
        match read_source(&path) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(read_error(label, &path)(e)),
        }
    };
    let makefile = tree.and_then(|tree| read_source(&tree.join(MAKEFILE)).ok());
    let makefile = makefile.map(|text| String::from_utf8_lossy(&text).into_owned());
    Sources::collect(main.to_owned(), dir.clone(), makefile, read)?
        .ok_or_else(|| read_error(label, path)(io::ErrorKind::NotFound.into()))
}

/// Reads a governor of a kernel tree: a working copy, a tarball, a git revision, or one of these
/// with patches.
pub(crate) fn from_tree(
    label: &Label,
    name: &str,
    spec: &TreeSpec,
    store: &Store,
) -> Result<Sources, GovernorError> {
    if spec.rev.is_some() || spec.series.is_some() {
        return Reader::new(label, spec, store)?.governor(name);
    }
    let tree = &spec.tree;
    let found = locate(tree).ok_or_else(|| no_tree(label, tree))?;
    let (root, governors) = match found.is_dir() {
        true => (found.clone(), found.join(GOVERNORS)),
        false => {
            let home = unpacked(label, &found, MAKEFILE, store, extract_governors)?.path;
            (home.clone(), home)
        }
    };
    let path = governors.join(format!("{name}.c"));
    if !path.is_file() && governors.join(name).is_dir() {
        return from_folder(label, &governors.join(name));
    }
    if !path.is_file() {
        return Err(not_in_tree(label, tree, &format!("{GOVERNORS}/{name}.c"), || {
            let names = file_names(&governors).unwrap_or_default();
            let known: Vec<&str> =
                names.iter().filter_map(|name| name.strip_suffix(".c")).collect();
            if known.is_empty() { String::new() } else { format!("it has {}", known.join(", ")) }
        }));
    }
    from_file_of(label, &path, Some(&root))
}

/// Returns whether the kernel calls `select` for a driver with one state. Since 7.0, and in stable
/// releases of older kernels, the idle loop does not. If its source is not available, the release
/// decides.
pub(crate) fn asks_about_one_state(
    label: &Label,
    place: &Place,
    release: Release,
    store: &Store,
) -> Result<bool, GovernorError> {
    let text = match place {
        Place::Builtin { .. } => None,
        Place::File { path } | Place::Folder { path } => {
            tree_of(path).and_then(|t| read_source(&t.join(IDLE_LOOP)).ok())
        }
        Place::Tree { tree, .. } => Reader::new(label, tree, store)?.read(IDLE_LOOP)?,
    };
    Ok(match text {
        Some(text) => !String::from_utf8_lossy(&text).contains("state_count > 1"),
        None => release < Release { major: 7, minor: 0 },
    })
}

/// Reads one file of a tarball; returns `None` if it does not contain the file.
fn from_tarball(
    label: &Label,
    tarball: &Path,
    wanted: &str,
    store: &Store,
) -> Result<Option<Vec<u8>>, GovernorError> {
    let name = wanted.rsplit('/').next().unwrap_or(wanted);
    let extract = |archive: &mut Archive| -> io::Result<Files> {
        for entry in archive.entries()? {
            let entry = entry?;
            let path = entry.path()?.into_owned();
            let inside: PathBuf = path.components().skip(1).collect();
            if path == Path::new(wanted) || inside == Path::new(wanted) {
                return Ok(Files::from([(name.to_owned(), read_limited(entry)?)]));
            }
        }
        Ok(Files::new())
    };
    let entry = unpacked(label, tarball, wanted, store, extract)?;
    Ok(read_source(&entry.path.join(name)).ok())
}

/// Returns the cache entry with the files that `extract` takes from a tarball.
fn unpacked(
    label: &Label,
    tarball: &Path,
    what: &str,
    store: &Store,
    extract: impl FnOnce(&mut Archive) -> io::Result<Files>,
) -> Result<Entry, GovernorError> {
    let read_error = read_error(label, tarball);
    let key = tarball_key(what, tarball).map_err(&read_error)?;
    let files = || open_tarball(tarball).and_then(|mut archive| extract(&mut archive));
    let shown = tarball.display().to_string();
    store.entry("trees", &key, &shown, || files().map_err(&read_error))
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

fn no_tree(label: &Label, tree: &Path) -> GovernorError {
    not_in_tree(label, tree, "folder or tarball of a kernel's source", || {
        format!(
            "a version such as 6.12 is looked up as linux-source-6.12 in ${SOURCES_ENV}, \
             {SOURCE_DIR} and what `torpor kernel fetch` has fetched"
        )
    })
}

fn file_names(dir: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(dir)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// Returns the path of a tree, or of the packaged sources of a version such as `6.12`.
pub fn locate(tree: &Path) -> Option<PathBuf> {
    if tree.exists() {
        return Some(packed_inside(tree).unwrap_or_else(|| tree.to_owned()));
    }
    let version = tree.to_str()?;
    if !version.starts_with(|c: char| c.is_ascii_digit()) || version.contains('/') {
        return None;
    }
    let given = std::env::var_os(SOURCES_ENV).map(PathBuf::from);
    let fetched = torpor_machine::cache::default_folder().map(|cache| cache.join(FETCHED));
    given.into_iter().chain([SOURCE_DIR.into()]).chain(fetched).find_map(|dir| {
        // Ubuntu's packages have a third number: linux-source-6.8.0.
        let names = [version.to_owned(), format!("{version}.0")];
        let mut places = names.iter().flat_map(|name| {
            let dir = &dir;
            let suffixes = [""].iter().chain(TARBALLS);
            suffixes.map(move |suffix| dir.join(format!("linux-source-{name}{suffix}")))
        });
        let found = places.find(|path| path.exists())?;
        Some(packed_inside(&found).unwrap_or(found))
    })
}

/// Returns the tarball in a folder such as `linux-source-6.8.0/linux-source-6.8.0.tar.bz2`, which
/// Ubuntu's packages have instead of a tree.
fn packed_inside(folder: &Path) -> Option<PathBuf> {
    let name = folder.file_name()?.to_str()?;
    if folder.join(MAKEFILE).exists() || folder.join(GOVERNORS).exists() {
        return None;
    }
    let mut tarballs = TARBALLS.iter().map(|suffix| folder.join(format!("{name}{suffix}")));
    tarballs.find(|path| path.is_file())
}

/// Returns a file of a revision, or `None` if the revision does not have it.
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

/// Reads the files of a tree, with its patches, by their paths in it.
struct Reader<'a> {
    label: &'a Label,
    spec: &'a TreeSpec,
    store: &'a Store,
    changes: Changes,
}

impl<'a> Reader<'a> {
    fn new(label: &'a Label, spec: &'a TreeSpec, store: &'a Store) -> Result<Self, GovernorError> {
        let mut reader = Reader { label, spec, store, changes: Changes::new() };
        if let Some(series) = &spec.series {
            let needed = |path: &str| {
                Path::new(path).starts_with(GOVERNORS) || [MAKEFILE, IDLE_LOOP].contains(&path)
            };
            let failed = |message| GovernorError::Patch { policy: label.clone(), message };
            reader.changes = patched::apply(series, &reader, &needed).map_err(failed)?;
        }
        Ok(reader)
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, GovernorError> {
        if let Some(changed) = self.changes.get(path) {
            return Ok(changed.clone());
        }
        let TreeSpec { tree, rev, .. } = self.spec;
        if let Some(rev) = rev {
            return git_show(self.label, tree, rev, path);
        }
        let found = locate(tree).ok_or_else(|| no_tree(self.label, tree))?;
        if !found.is_dir() {
            let name = path.rsplit('/').next().unwrap_or(path);
            if path != IDLE_LOOP {
                let entry = unpacked(self.label, &found, MAKEFILE, self.store, extract_governors)?;
                return Ok(read_source(&entry.path.join(name)).ok());
            }
            return from_tarball(self.label, &found, path, self.store);
        }
        let path = found.join(path);
        match read_source(&path) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(read_error(self.label, &path)(e)),
        }
    }

    /// Returns a governor of one C file.
    fn governor(&self, name: &str) -> Result<Sources, GovernorError> {
        let main = format!("{name}.c");
        let dir = PathBuf::from(format!("{}:{GOVERNORS}", self.spec));
        let makefile = self.read(MAKEFILE)?.map(|text| String::from_utf8_lossy(&text).into_owned());
        let governor = |file: &str| self.read(&format!("{GOVERNORS}/{file}"));
        Sources::collect(main.clone(), dir, makefile, governor)?.ok_or_else(|| {
            let place = match &self.spec.rev {
                Some(rev) => format!("{GOVERNORS}/{main} at {rev}"),
                None => format!("{GOVERNORS}/{main}"),
            };
            not_in_tree(self.label, &self.spec.tree, &place, String::new)
        })
    }
}

impl torpor_patch::Base for Reader<'_> {
    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        Reader::read(self, path).map_err(io::Error::other)
    }
}

/// Returns a cache key for files of a tarball, from its path, size and modification time.
pub fn tarball_key(what: &str, tarball: &Path) -> io::Result<String> {
    let path = tarball.canonicalize()?;
    let meta = fs::metadata(&path)?;
    let changed = meta.modified()?.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let key = format!("{what}\0{}\0{}\0{changed}", path.display(), meta.len());
    Ok(crate::sha256_hex(key.as_bytes())[..16].to_owned())
}

/// A tarball, to be read once from start to end.
pub type Archive = tar::Archive<Box<dyn Read>>;

pub fn open_tarball(tarball: &Path) -> io::Result<Archive> {
    let file = BufReader::with_capacity(1 << 20, open_regular(tarball)?);
    let name = tarball.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let reader: Box<dyn Read> = if name.ends_with(".xz") {
        Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(file))
    } else if name.ends_with(".gz") || name.ends_with(".tgz") {
        Box::new(flate2::bufread::MultiGzDecoder::new(file))
    } else if name.ends_with(".bz2") {
        Box::new(bzip2::bufread::MultiBzDecoder::new(file))
    } else if name.ends_with(".tar") {
        Box::new(file)
    } else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is neither a folder nor a .tar, .tar.gz, .tar.bz2 or .tar.xz",
        ));
    };
    Ok(tar::Archive::new(reader))
}

/// Extracts the folder of governors, and the Makefile of the root.
fn extract_governors(archive: &mut Archive) -> io::Result<Files> {
    let mut files = Files::new();
    let mut inside = false;
    for entry in archive.entries()? {
        let entry = entry?;
        let path = entry.path()?.into_owned();
        let is_file = entry.header().entry_type().is_file();
        if is_file && is_root_makefile(&path) {
            files.insert(MAKEFILE.to_owned(), read_limited(entry)?);
            continue;
        }
        if !is_in_governors(&path) {
            // Kernel tarballs are sorted, so the folder has been read.
            if inside {
                break;
            }
            continue;
        }
        inside = true;
        let name = path.file_name().and_then(OsStr::to_str);
        let name = name.filter(|name| *name != MAKEFILE && !name.contains(char::is_control));
        if let (true, Some(name)) = (is_file, name) {
            files.insert(name.to_owned(), read_limited(entry)?);
        }
    }
    if inside {
        return Ok(files);
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("it has no folder {GOVERNORS}")))
}

/// Matches `ANY/drivers/cpuidle/governors/FILE` and the folder itself; `ANY/` can be missing.
fn is_in_governors(path: &Path) -> bool {
    let parts: Vec<&OsStr> = path
        .components()
        .filter_map(|c| if let Component::Normal(part) = c { Some(part) } else { None })
        .collect();
    let folder: Vec<&OsStr> = GOVERNORS.split('/').map(OsStr::new).collect();
    (0..=1).any(|skip| parts.get(skip..).is_some_and(|rest| rest.starts_with(&folder)))
}

/// Matches `ANY/Makefile` and `Makefile`.
fn is_root_makefile(path: &Path) -> bool {
    let parts = path.components().filter(|c| matches!(c, Component::Normal(_))).count();
    (1..=2).contains(&parts) && path.file_name() == Some(OsStr::new(MAKEFILE))
}
