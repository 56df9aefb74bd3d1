// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The cache on disk. An entry is a folder, named by a hash of its inputs, with checksums of its
//! files. It is published atomically; processes in different PID namespaces can share the cache.
//!
//! A temporary folder replaces the user's if that cannot be used; see
//! [`cache`](torpor_machine::cache).

use crate::GovernorError;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
pub use torpor_machine::cache::Scratch;
use torpor_machine::cache::{CacheFolder, default_folder};
use torpor_machine::units::{read_regular, shown};

/// File in each entry, with the SHA-256 and the name of the other files.
const SUMS: &str = "SHA256SUMS";
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
    folder: CacheFolder,
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
        let home = self.root()?.path().join(kind).join(key);
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
        let folder = self.root()?;
        folder.scratch().map_err(|e| cache_error(folder.path(), e))
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

    fn root(&self) -> Result<&CacheFolder, GovernorError> {
        if let Some(root) = self.root.get() {
            return Ok(&root.folder);
        }
        let root = self.open()?;
        Ok(&self.root.get_or_init(|| root).folder)
    }

    fn open(&self) -> Result<Root, GovernorError> {
        let opened = |path: PathBuf| {
            CacheFolder::open(path.clone()).map_err(|reason| refused(&path, reason))
        };
        if let Some(path) = &self.given {
            let path = std::path::absolute(path).map_err(|e| cache_error(path, e))?;
            return Ok(Root { folder: opened(path)?, _private: None });
        }
        if let Some(path) = default_folder() {
            match CacheFolder::open(path.clone()) {
                Ok(folder) => return Ok(Root { folder, _private: None }),
                Err(reason) => self.note(format!(
                    "the cache {} is not used: {reason}; compiled governors are not kept",
                    path.display()
                )),
            }
        }
        let private = Scratch::temporary().map_err(|e| cache_error(&std::env::temp_dir(), e))?;
        Ok(Root { folder: opened(private.path().to_owned())?, _private: Some(private) })
    }

    /// Publishes an entry by a rename, so that others see all of it or nothing. If another process
    /// was first, its entry stays: the content is the same.
    fn publish(&self, home: &Path, files: &Files) -> io::Result<()> {
        let parent = home.parent().expect("an entry lies in its kind's folder");
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        let scratch = self.root().map_err(io::Error::other)?.scratch()?;
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
        let left = fs::read_dir(dir.path().join("cache/scratch")).unwrap().count();
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
}
