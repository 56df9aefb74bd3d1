// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The cache on disk. An entry is a folder, named by a hash of its inputs, with checksums of its
//! files. It is published atomically; processes in different PID namespaces can share the cache.
//!
//! Cached files are run as code, so the folder must belong to the user, must not be writable by
//! others, and must not be a symbolic link. Otherwise a temporary folder replaces it.

use crate::GovernorError;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use tempfile::TempDir;
use torpor_machine::units::{read_regular, shown};

/// File in each entry, with the SHA-256 and the name of the other files.
const SUMS: &str = "SHA256SUMS";
/// Folder for files that are not yet published.
const SCRATCH: &str = "scratch";
/// Prefix of Torpor's names in the system's temporary folder.
const PRIVATE_PREFIX: &str = "torpor-";
/// Attempts to publish an entry; others could damage it again each time.
const TRIES: usize = 4;

/// An entry's files by relative path.
pub type Files = BTreeMap<String, Vec<u8>>;

#[derive(Debug)]
pub struct Store {
    given: Option<PathBuf>,
    root: OnceLock<Root>,
    notes: Mutex<Vec<String>>,
}

#[derive(Debug)]
struct Root {
    path: PathBuf,
    /// Temporary folder with the cache, if the user's cannot be used.
    _private: Option<Scratch>,
}

pub struct Entry {
    pub path: PathBuf,
    pub files: Files,
}

impl Store {
    /// Creates a cache in the given folder, by default in `$XDG_CACHE_HOME/torpor` or
    /// `$HOME/.cache/torpor`. Does not access it yet.
    pub fn new(given: Option<PathBuf>) -> Store {
        Store { given, root: OnceLock::new(), notes: Mutex::new(Vec::new()) }
    }

    /// Returns an entry. If it is missing or damaged, publishes the files from `make`.
    ///
    /// `what` names it in notes.
    pub fn entry(
        &self,
        kind: &str,
        key: &str,
        what: &str,
        make: impl FnOnce() -> Result<Files, GovernorError>,
    ) -> Result<Entry, GovernorError> {
        let home = self.root()?.join(kind).join(key);
        match load(&home) {
            Ok(Some(files)) => return Ok(Entry { path: home, files }),
            Ok(None) => {}
            Err(damage) => self.note(format!(
                "the cached entry of {what} was damaged and is rebuilt: {}: {damage}",
                home.display()
            )),
        }
        let files = make()?;
        self.publish(&home, &files).map_err(|e| cache_error(&home, e))?;
        Ok(Entry { path: home, files })
    }

    /// Creates a folder for exclusive use, deleted on drop.
    pub fn scratch(&self) -> Result<Scratch, GovernorError> {
        let place = self.root()?.join(SCRATCH);
        Scratch::new(&place, "").map_err(|e| cache_error(&place, e))
    }

    /// Returns the new notes for the user.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a note for the user.
    pub fn note(&self, note: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.push(shown::line(&note).into_owned());
    }

    fn root(&self) -> Result<&Path, GovernorError> {
        if let Some(root) = self.root.get() {
            return Ok(&root.path);
        }
        let root = self.open()?;
        let scratch = root.path.join(SCRATCH);
        private_folder(&scratch).map_err(|reason| refused(&scratch, reason))?;
        sweep(&scratch, "");
        Ok(&self.root.get_or_init(|| root).path)
    }

    fn open(&self) -> Result<Root, GovernorError> {
        if let Some(path) = &self.given {
            let path = std::path::absolute(path).map_err(|e| cache_error(path, e))?;
            private_folder(&path).map_err(|reason| refused(&path, reason))?;
            return Ok(Root { path, _private: None });
        }
        if let Some(path) = default_folder() {
            match private_folder(&path) {
                Ok(()) => return Ok(Root { path, _private: None }),
                Err(reason) => self.note(format!(
                    "the cache {} is not used: {reason}; compiled governors are not kept",
                    path.display()
                )),
            }
        }
        let temporary = std::env::temp_dir();
        sweep(&temporary, PRIVATE_PREFIX);
        let private =
            Scratch::new(&temporary, PRIVATE_PREFIX).map_err(|e| cache_error(&temporary, e))?;
        Ok(Root { path: private.path().to_owned(), _private: Some(private) })
    }

    /// Publishes an entry by a rename, so that others see all of it or nothing. If another process
    /// was first, its entry stays: the content is the same.
    fn publish(&self, home: &Path, files: &Files) -> io::Result<()> {
        let parent = home.parent().expect("an entry lies in its kind's folder");
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        let scratch = Scratch::new(&self.root().map_err(io::Error::other)?.join(SCRATCH), "")?;
        let fresh = scratch.path().join("entry");
        write(&fresh, files)?;
        for attempt in 0..TRIES {
            let Err(error) = fs::rename(&fresh, home) else { return Ok(()) };
            match load(home) {
                Ok(Some(_)) => return Ok(()),
                // Another process has moved the damaged entry away.
                Ok(None) if fs::symlink_metadata(home).is_err() => {}
                _ if attempt + 1 == TRIES => return Err(error),
                _ => {
                    let aside = scratch.path().join(format!("damaged-{attempt}"));
                    match fs::rename(home, aside) {
                        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                        _ => {}
                    }
                }
            }
        }
        Err(io::Error::other("other processes keep replacing it"))
    }
}

/// Returns the cache folder of the user, which need not exist.
pub(crate) fn default_folder() -> Option<PathBuf> {
    let from =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = from("XDG_CACHE_HOME").or_else(|| Some(from("HOME")?.join(".cache")))?;
    Some(base.join("torpor"))
}

/// Creates the folder, or checks that only this user can write to it. The error is the reason why it
/// cannot be used.
fn private_folder(path: &Path) -> Result<(), String> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(|e| format!("{}: {e}", parent.display()))?;
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e.to_string()),
        _ => {}
    }
    let found = fs::symlink_metadata(path).map_err(|e| e.to_string())?;
    // SAFETY: no preconditions.
    let user = unsafe { libc::geteuid() };
    if found.is_symlink() {
        return Err("it is a symbolic link".to_owned());
    }
    if !found.is_dir() {
        return Err("it is not a folder".to_owned());
    }
    if found.uid() != user {
        return Err(format!("it belongs to user {}, not to {user}", found.uid()));
    }
    if found.mode() & 0o022 != 0 {
        let mode = found.mode() & 0o7777;
        return Err(format!("others may write to it (its mode is {mode:o}; 700 is expected)"));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Returns the files of an entry, or `None` if it does not exist. The error describes the damage.
fn load(home: &Path) -> Result<Option<Files>, String> {
    match fs::symlink_metadata(home) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e.to_string()),
        Ok(meta) if !meta.is_dir() => return Err("it is not a folder".to_owned()),
        Ok(_) => {}
    }
    let mut files = Files::new();
    read_all(home, "", &mut files)?;
    let sums = files.remove(SUMS).ok_or_else(|| format!("its {SUMS} is missing"))?;
    let whole = sums_of(&files);
    if whole.as_bytes() == sums {
        return Ok(Some(files));
    }
    let listed = String::from_utf8_lossy(&sums);
    let named = |line: &str| line.split_once("  ").map_or(line, |(_, name)| name).to_owned();
    let wrong = whole.lines().find(|line| !listed.lines().any(|l| l == *line)).map(named);
    let missing = listed.lines().find(|line| !whole.lines().any(|l| l == *line)).map(named);
    let name = wrong.or(missing).unwrap_or_else(|| SUMS.to_owned());
    Err(format!("{name} is not as it was written"))
}

fn read_all(dir: &Path, prefix: &str, files: &mut Files) -> Result<(), String> {
    for entry in fs::read_dir(dir).map_err(|e| e.to_string())? {
        let entry = entry.map_err(|e| e.to_string())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let name = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        let kind = entry.file_type().map_err(|e| e.to_string())?;
        if kind.is_dir() {
            read_all(&entry.path(), &name, files)?;
        } else if kind.is_file() {
            let bytes = read_regular(&entry.path()).map_err(|e| format!("{name}: {e}"))?;
            files.insert(name, bytes);
        } else {
            return Err(format!("{name} is not a regular file"));
        }
    }
    Ok(())
}

/// Returns the text of [`SUMS`]. Names come from Torpor or a kernel and contain no line ends.
fn sums_of(files: &Files) -> String {
    files.iter().map(|(name, bytes)| format!("{}  {name}\n", crate::sha256_hex(bytes))).collect()
}

fn write(dir: &Path, files: &Files) -> io::Result<()> {
    let folder = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
    folder(dir)?;
    let sums = sums_of(files).into_bytes();
    let files = files.iter().map(|(name, bytes)| (name.as_str(), bytes));
    for (name, bytes) in files.chain([(SUMS, &sums)]) {
        let path = dir.join(name);
        folder(path.parent().expect("a joined path has a parent"))?;
        fs::write(&path, bytes)?;
        // Some are programs.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn refused(path: &Path, reason: String) -> GovernorError {
    cache_error(path, io::Error::other(reason))
}

pub(crate) fn cache_error(path: &Path, source: io::Error) -> GovernorError {
    GovernorError::Cache { path: path.to_owned(), source }
}

/// A folder with a unique name, deleted on drop. Its owner holds a lock on it, so that the folders of
/// killed processes are recognized in any PID namespace.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
    _lock: File,
}

impl Scratch {
    fn new(place: &Path, prefix: &str) -> io::Result<Scratch> {
        // Keeps a sweep out between creating and locking it.
        let shared = lock(place, libc::LOCK_SH);
        let dir = tempfile::Builder::new().prefix(prefix).tempdir_in(place)?;
        let lock = lock(dir.path(), libc::LOCK_EX | libc::LOCK_NB)?;
        drop(shared);
        Ok(Scratch { dir, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

fn lock(dir: &Path, how: i32) -> io::Result<File> {
    let file = File::open(dir)?;
    // SAFETY: the descriptor is open.
    match unsafe { libc::flock(file.as_raw_fd(), how) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Deletes the folders of killed processes in `place`. Failing to do so costs only disk space.
fn sweep(place: &Path, prefix: &str) {
    // SAFETY: no preconditions.
    let user = unsafe { libc::geteuid() };
    let is_dead = |path: &Path| {
        let ours = fs::symlink_metadata(path).is_ok_and(|m| m.is_dir() && m.uid() == user);
        ours && lock(path, libc::LOCK_EX | libc::LOCK_NB).is_ok()
    };
    let Ok(_alone) = lock(place, libc::LOCK_EX | libc::LOCK_NB) else { return };
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let named = entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes());
        if named && is_dead(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(text: &str) -> Files {
        Files::from([("a".into(), text.into()), ("deep/er/b".into(), b"two".to_vec())])
    }

    fn entry(store: &Store, text: &str) -> Files {
        store.entry("kind", "key", "a test", || Ok(files(text))).expect("it is made").files
    }

    #[test]
    fn entry_is_made_once_and_again_if_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(Some(dir.path().join("cache")));
        assert_eq!(entry(&store, "one"), files("one"));
        assert_eq!(entry(&store, "other"), files("one"), "it was there");
        let home = dir.path().join("cache/kind/key");
        let damages: [&dyn Fn(); 6] = [
            &|| fs::write(home.join("a"), "One").unwrap(),
            &|| fs::write(home.join("extra"), "").unwrap(),
            &|| fs::remove_file(home.join(SUMS)).unwrap(),
            &|| fs::remove_dir_all(home.join("deep")).unwrap(),
            &|| fs::write(home.join(SUMS), "").unwrap(),
            &|| {
                fs::remove_dir_all(&home).unwrap();
                fs::write(&home, "").unwrap();
            },
        ];
        for damage in damages {
            damage();
            assert_eq!(entry(&store, "one"), files("one"));
            let notes = store.take_notes();
            assert!(notes.len() == 1 && notes[0].contains("damaged"), "{notes:?}");
            assert_eq!(entry(&store, "unseen"), files("one"));
            assert!(store.take_notes().is_empty());
        }
        let left = fs::read_dir(dir.path().join("cache").join(SCRATCH)).unwrap().count();
        assert_eq!(left, 0, "nothing is left of the making");
    }

    /// Without checksums, 8 of 1,500 flipped bits in a cached image killed the process, and 39 caused
    /// a fault of the governor.
    #[test]
    fn every_flipped_bit_is_seen() {
        let image = crate::builtin::files(crate::Kind::Governor)[0]
            .image(torpor_machine::units::Hz::H100)
            .unwrap()
            .bytes
            .to_vec();
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(Some(dir.path().join("cache")));
        let made = std::cell::Cell::new(0);
        let entry = || {
            let make = || {
                made.set(made.get() + 1);
                Ok(Files::from([("image.so".to_owned(), image.clone())]))
            };
            store.entry("images", "key", "a test", make).expect("it is made").files
        };
        let whole = entry();
        let home = dir.path().join("cache/images/key");
        let mut seed = 12_u64;
        for flip in 1..=1_500 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let path = home.join(if flip % 10 == 0 { SUMS } else { "image.so" });
            let mut bytes = fs::read(&path).unwrap();
            let bit = (seed >> 33) as usize % (8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, bytes).unwrap();
            assert_eq!(entry(), whole);
            assert_eq!(made.get(), 1 + flip, "bit {bit} of {}", path.display());
            assert_eq!(store.take_notes().len(), 1);
        }
    }

    #[test]
    fn cache_writable_by_others_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let error = |path: PathBuf| {
            let made = Store::new(Some(path)).entry("k", "k", "a test", || Ok(Files::new()));
            made.err().map(|e| e.to_string()).unwrap_or_default()
        };
        fs::create_dir(path("open")).unwrap();
        fs::set_permissions(path("open"), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(error(path("open")).contains("others may write to it"));
        fs::create_dir(path("real")).unwrap();
        std::os::unix::fs::symlink(path("real"), path("link")).unwrap();
        assert!(error(path("link")).contains("symbolic link"));
        fs::write(path("file"), "").unwrap();
        assert!(error(path("file")).contains("not a folder"));
        // Readable by others is no danger, and ends here.
        fs::set_permissions(path("real"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(error(path("real")), "");
        assert_eq!(fs::metadata(path("real")).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn files_of_dead_processes_are_swept() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cache");
        let first = Store::new(Some(root.clone()));
        let alive = first.scratch().unwrap();
        let dead = root.join(SCRATCH).join("left");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("x"), "").unwrap();
        let second = Store::new(Some(root));
        second.scratch().unwrap();
        assert!(alive.path().is_dir() && !dead.exists());
    }
}
