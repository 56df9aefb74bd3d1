// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The user's cache on disk. What is in it is published by a rename, from a folder for what is not
//! yet whole.
//!
//! Cached files are run as code, so the folder must belong to the user, must not be writable by
//! others, and must not be a symbolic link.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Folder for files that are not yet published.
const SCRATCH: &str = "scratch";
/// Prefix of Torpor's names in the system's temporary folder.
const PRIVATE_PREFIX: &str = "torpor-";

/// Returns the cache folder of the user, which need not exist: `$XDG_CACHE_HOME/torpor` or
/// `$HOME/.cache/torpor`.
pub fn default_folder() -> Option<PathBuf> {
    let from =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = from("XDG_CACHE_HOME").or_else(|| Some(from("HOME")?.join(".cache")))?;
    Some(base.join("torpor"))
}

/// A cache folder that only this user can write to.
#[derive(Debug)]
pub struct CacheFolder(PathBuf);

impl CacheFolder {
    /// Creates or checks the folder, and deletes what killed processes left in it. The error is the
    /// reason why it cannot be used.
    pub fn open(path: PathBuf) -> Result<CacheFolder, String> {
        private_folder(&path)?;
        let scratch = path.join(SCRATCH);
        private_folder(&scratch).map_err(|reason| format!("{}: {reason}", scratch.display()))?;
        sweep(&scratch, "");
        Ok(CacheFolder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Creates a folder for exclusive use, from which files can be renamed into the cache.
    pub fn scratch(&self) -> io::Result<Scratch> {
        Scratch::new(&self.0.join(SCRATCH), "")
    }
}

/// A folder with a unique name, deleted on drop. Its owner holds a lock on it, so that the folders of
/// killed processes are recognized in any PID namespace.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
    _lock: File,
}

impl Scratch {
    /// Creates one in the system's temporary folder, where it deletes those of killed processes.
    pub fn temporary() -> io::Result<Scratch> {
        let place = std::env::temp_dir();
        sweep(&place, PRIVATE_PREFIX);
        Scratch::new(&place, PRIVATE_PREFIX)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_writable_by_others_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let reason = |path: PathBuf| CacheFolder::open(path).err().unwrap_or_default();
        fs::create_dir(path("open")).unwrap();
        fs::set_permissions(path("open"), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(reason(path("open")).contains("others may write to it"));
        fs::create_dir(path("real")).unwrap();
        std::os::unix::fs::symlink(path("real"), path("link")).unwrap();
        assert!(reason(path("link")).contains("symbolic link"));
        fs::write(path("file"), "").unwrap();
        assert!(reason(path("file")).contains("not a folder"));
        // Readable by others is no danger, and ends here.
        fs::set_permissions(path("real"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(reason(path("real")), "");
        assert_eq!(fs::metadata(path("real")).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn files_of_dead_processes_are_swept() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cache");
        let first = CacheFolder::open(root.clone()).unwrap();
        let alive = first.scratch().unwrap();
        let dead = root.join(SCRATCH).join("left");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("x"), "").unwrap();
        CacheFolder::open(root).unwrap();
        assert!(alive.path().is_dir() && !dead.exists());
    }
}
