// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Finds governors' sources: single files, kernel trees, tarballs, git revisions.

use crate::builtin::KAPI;
use crate::config::without_comments;
use crate::makefile::Makefile;
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
/// Makefile in the tree's root; it names the release.
const MAKEFILE: &str = "Makefile";
const IDLE_LOOP: &str = "kernel/sched/idle.c";
/// The header of that folder, since 6.6.
const SHARED_HEADER: &str = "gov.h";
const SHARED_HEADER_TEXT: &str = "include/torpor/gov.h";
/// Suffixes of packed kernel sources.
const TARBALLS: &[&str] = &[".tar.xz", ".tar.gz", ".tar.bz2", ".tar"];
/// Folder of packaged kernel sources, for trees named by a version: `menu@6.12`.
const SOURCE_DIR: &str = "/usr/src";
/// The largest governor of any kernel has 40 KiB.
const SOURCE_MAX: u64 = 16 << 20;
pub const SOURCES_ENV: &str = "TORPOR_KERNEL_SOURCES";
/// In the user's cache: what `torpor kernel fetch` has fetched.
const FETCHED: &str = "sources";

/// A governor's files, and what they include in quotes.
pub(crate) struct Sources {
    /// The file that registers.
    pub main: String,
    /// Compiler flags of it.
    pub main_flags: Vec<String>,
    /// The other files to compile, where a governor has several.
    pub parts: Vec<Part>,
    /// By path from the folder of `main`. At most one `..` begins it.
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
    /// Collects `main` and what it includes in quotes, through `read`, which gives `None` for a
    /// file that is not there. Without the tree's Makefile the text itself says whose it is.
    /// The kapi has the header that governors share.
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
            // The compiler names a missing one, with the line that wants it.
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

    fn new(main: String, files: BTreeMap<String, Vec<u8>>, dir: PathBuf) -> Sources {
        let (main_flags, parts, config) = (Vec::new(), Vec::new(), Vec::new());
        let release = Release::default();
        Sources { main, main_flags, parts, files, dir, release, config }
    }

    /// The text of its C files, the one that registers first.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = self.files[&self.main].clone();
        self.parts.iter().for_each(|part| text.extend_from_slice(&self.files[&part.file]));
        text
    }
}

/// `gov.h`, which a governor's file includes and may be given without.
fn shared_header(name: &str) -> Option<Vec<u8>> {
    let is_it = Path::new(name).file_name() == Some(OsStr::new(SHARED_HEADER));
    let text = KAPI.iter().find(|(file, _)| is_it && *file == SHARED_HEADER_TEXT)?.1;
    Some(text.as_bytes().to_vec())
}

/// Files that `file` includes as `#include "..."`, from the governor's folder. Only those of this
/// folder and of the one around it: others are not copied.
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
    Sources::new(main, files, PathBuf::new())
}

/// A file that lies where kernels have their governors is of that tree.
pub(crate) fn from_file(label: &Label, path: &Path) -> Result<Sources, GovernorError> {
    from_file_of(label, path, tree_of(path).as_deref())
}

/// The files of a folder that are one governor: the parts that its Makefile lists, or all C files.
pub(crate) fn from_folder(label: &Label, folder: &Path) -> Result<Sources, GovernorError> {
    let read_error =
        |source| GovernorError::Read { policy: label.clone(), path: folder.to_owned(), source };
    let setup = |reason: String| GovernorError::Setup { policy: label.clone(), reason };
    let makefile = read_source(&folder.join(MAKEFILE)).unwrap_or_default();
    let makefile = Makefile::parse(&String::from_utf8_lossy(&makefile));
    let mut names = makefile.parts();
    if names.is_empty() || names.iter().any(|name| !folder.join(name).is_file()) {
        let entries = fs::read_dir(folder).map_err(read_error)?;
        names = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            // A module's own product lies next to its source.
            .filter(|name| name.ends_with(".c") && !name.ends_with(".mod.c"))
            .collect();
        names.sort();
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
        return Err(setup(format!(
            "one file of a governor's folder calls cpuidle_register_governor(); of its C files              ({all}) these do: {which}"
        )));
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

/// The root of the kernel tree in which a governor's file has the place of the kernel's own.
fn tree_of(path: &Path) -> Option<PathBuf> {
    let path = path.parent()?.canonicalize().ok()?.join(path.file_name()?);
    let mut folders = path.ancestors().skip(1).take(2);
    folders.find(|dir| dir.ends_with(GOVERNORS))?.ancestors().nth(3).map(Path::to_owned)
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
                    "a version such as 6.12 is looked up as linux-source-6.12 in ${SOURCES_ENV}, \
                     {SOURCE_DIR} and what `torpor kernel fetch` has fetched"
                )
            }));
        }
    };
    let path = governors.join(format!("{name}.c"));
    if !path.is_file() && governors.join(name).is_dir() {
        return from_folder(label, &governors.join(name));
    }
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
        Place::File { path } | Place::Folder { path } => {
            tree_of(path).and_then(|t| read_source(&t.join(IDLE_LOOP)).ok())
        }
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
        return Some(packed_inside(tree).unwrap_or_else(|| tree.to_owned()));
    }
    let version = tree.to_str()?;
    if !version.starts_with(|c: char| c.is_ascii_digit()) || version.contains('/') {
        return None;
    }
    let given = std::env::var_os(SOURCES_ENV).map(PathBuf::from);
    let fetched = crate::store::default_folder().map(|cache| cache.join(FETCHED));
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

/// The tarball of a folder that has no tree but `linux-source-6.8.0/linux-source-6.8.0.tar.bz2`, as
/// Ubuntu's packages.
fn packed_inside(folder: &Path) -> Option<PathBuf> {
    let name = folder.file_name()?.to_str()?;
    if folder.join(MAKEFILE).exists() || folder.join(GOVERNORS).exists() {
        return None;
    }
    let mut tarballs = TARBALLS.iter().map(|suffix| folder.join(format!("{name}{suffix}")));
    tarballs.find(|path| path.is_file())
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
