// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Input files, and output files that appear whole or not at all.

use super::{closest, shown};
use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Opens a file or pipe for reading from its beginning to its end.
///
/// # Errors
/// Fails as `open()` does, and for a FIFO without a writer: reading it would block for ever.
pub fn open_input(path: &Path) -> io::Result<impl Read + use<>> {
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let (mut first, mut count) = ([0; 512], 0);
    if file.metadata()?.file_type().is_fifo() {
        match file.read(&mut first) {
            Ok(0) => return Err(io::Error::other("nothing comes through this pipe")),
            Ok(read) => count = read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    // There is a writer, so a blocking read returns.
    let file = File::open(path)?;
    Ok(io::Cursor::new(first).take(count as u64).chain(Interruptible(file)))
}

/// Poll interval of a pipe without data, in ms.
const LOOK_EVERY_MS: i32 = 50;

thread_local! {
    static STOP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Does `work`, in which this thread's reads of pipes end once `stop` is set.
pub fn reads_ended_by<T>(stop: Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    let before = STOP.replace(Some(stop));
    let done = work();
    STOP.set(before);
    done
}

/// Waits for data or the end of a file, for at most 50 ms. Returns whether one is there.
///
/// # Errors
/// Fails as `poll()` does, also when a signal arrives.
pub fn has_input(file: &File) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the call gets one valid `pollfd` of an open file.
    match unsafe { libc::poll(&raw mut poll, 1, LOOK_EVERY_MS) } {
        0 => Ok(false),
        1.. => Ok(true),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Fails when a signal arrives or the thread's reads are to end, so that waiting for a pipe can be
/// interrupted: the library's own functions retry after `EINTR`.
struct Interruptible(File);

impl Interruptible {
    fn read_ready(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !has_input(&self.0)? {
            if STOP.with_borrow(|stop| stop.as_ref().is_some_and(|stop| stop.load(Relaxed))) {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        self.0.read(buffer)
    }
}

impl Read for Interruptible {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_ready(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => io::Error::other("interrupted by a signal"),
            _ => error,
        })
    }
}

/// Opens a regular file of a folder of unknown content: a pipe could block, a device may have no
/// end.
///
/// # Errors
/// Fails as `open()` does, and for anything but a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

/// Reads a whole file, unless it is none: a pipe, a device, a folder.
///
/// # Errors
/// Fails as [`open_regular`] does, and if it cannot be read.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns why an input cannot be read; of one that does not exist, with what is there instead.
pub fn unreadable(path: &Path, error: &io::Error) -> String {
    if error.kind() != io::ErrorKind::NotFound || error.get_ref().is_some() {
        return error.to_string();
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let shown = |path: PathBuf| shown::line(&path.to_string_lossy()).into_owned();
    let hint = match fs::read_dir(folder) {
        Err(_) => format!("there is no folder `{}`", shown(folder.into())),
        Ok(entries) => {
            let names = entries.flatten().map(|entry| entry.file_name());
            let mut names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
            names.sort();
            let wanted = path.file_name().unwrap_or_default().to_string_lossy();
            match closest(&wanted, names.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{}`?", shown(path.with_file_name(near))),
                None => format!("nothing in `{}` has a name like it", shown(folder.into())),
            }
        }
    };
    format!("No such file or directory\nhint: {hint}")
}

/// A file that appears as a whole: it is written next to its target, and [`WholeFile::commit`]
/// renames it once it is on the disk. Without a commit the target does not change.
///
/// Pipes and devices (`/dev/stdout`, a shell's `>(…)`) are written directly.
pub struct WholeFile {
    file: BufWriter<File>,
    /// None if it is written directly.
    beside: Option<PathBuf>,
    target: PathBuf,
}

/// Names tried next to the target. One exists only if a run was killed or is writing.
const TRIES_MAX: u32 = 1000;

impl WholeFile {
    pub fn create(path: &Path) -> io::Result<WholeFile> {
        let known = fs::metadata(path).ok();
        let is_special = |known: &fs::Metadata| {
            let kind = known.file_type();
            kind.is_fifo() || kind.is_char_device() || kind.is_block_device() || kind.is_socket()
        };
        if known.as_ref().is_some_and(is_special) {
            let file = OpenOptions::new().write(true).open(path)?;
            return Ok(WholeFile {
                file: BufWriter::new(file),
                beside: None,
                target: path.to_owned(),
            });
        }
        // If the name is a link, the file that it leads to is replaced, and the link stays.
        let target = match known {
            Some(_) => fs::canonicalize(path)?,
            None => path.to_owned(),
        };
        // A folder's permission to replace the file does not make up for a missing one to write it.
        // A target that is a folder fails here.
        if known.is_some() {
            OpenOptions::new().write(true).open(&target)?;
        }
        let (file, beside) = open_beside(&target)?;
        let file = WholeFile { file: BufWriter::new(file), beside: Some(beside), target };
        if let Some(known) = known {
            let open = file.file.get_ref();
            open.set_permissions(known.permissions())?;
            // Only root can keep the owner of another user's file.
            let _ = fchown(open, Some(known.uid()), Some(known.gid()));
        }
        Ok(file)
    }

    /// Renames the file to its target.
    pub fn commit(mut self) -> io::Result<()> {
        self.file.flush()?;
        let Some(beside) = &self.beside else { return Ok(()) };
        self.file.get_ref().sync_all()?;
        fs::rename(beside, &self.target)?;
        self.beside = None;
        // The name must outlive a crash, too. An error here would have no remedy.
        let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

/// Writes a whole file at once.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes)?;
    file.commit()
}

fn open_beside(target: &Path) -> io::Result<(File, PathBuf)> {
    let process = std::process::id();
    for number in 0..TRIES_MAX {
        // The target's name with a suffix could be too long for the file system.
        let beside = target.with_file_name(format!(".torpor-{process}-{number}.part"));
        let mut options = OpenOptions::new();
        match options.write(true).create_new(true).mode(0o666).open(&beside) {
            Ok(file) => return Ok((file, beside)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for WholeFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            let _ = fs::remove_file(beside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("torpor-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn dropped_file_leaves_the_target_unchanged() {
        let folder = folder("given-up");
        let path = folder.join("report.html");
        fs::write(&path, "old").unwrap();
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(&[b'n'; 100_000]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(&folder), ["report.html"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn modes_and_links_are_preserved() {
        let folder = folder("link");
        let (path, link) = (folder.join("real"), folder.join("link"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("real", &link).unwrap();
        write_whole(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(names(&folder), ["link", "real"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn missing_input_names_its_nearest_neighbour() {
        let folder = folder("missing");
        let said = |name: &str| {
            let path = folder.join(name);
            let error = open_input(&path).err().expect("it does not exist");
            unreadable(&path, &error).replace(&folder.display().to_string(), "F")
        };
        let with = |hint: &str| format!("No such file or directory\nhint: {hint}");
        assert_eq!(said("teo.c"), with("nothing in `F` has a name like it"));
        fs::write(folder.join("my_teo.c"), "").unwrap();
        assert_eq!(said("my-teo.c"), with("did you mean `F/my_teo.c`?"));
        assert_eq!(said("sub/teo.c"), with("there is no folder `F/sub`"));
        let other = io::Error::new(io::ErrorKind::NotFound, "it has no folder");
        assert_eq!(unreadable(&folder, &other), "it has no folder");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn devices_are_written_directly() {
        write_whole(Path::new("/dev/null"), b"nothing").unwrap();
        let full = write_whole(Path::new("/dev/full"), b"nothing").unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert!(write_whole(Path::new("/"), b"").is_err());
    }

    #[test]
    fn pipe_is_waited_for_only_with_a_writer() {
        let folder = folder("pipe");
        let path = folder.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(open_input(&path).is_err());
        assert!(open_regular(&path).is_err());
        assert!(open_regular(Path::new("/dev/zero")).is_err());
        let writer = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        (&writer).write_all(b"some").unwrap();
        let mut input = open_input(&path).unwrap();
        drop(writer);
        let mut read = String::new();
        input.read_to_string(&mut read).unwrap();
        assert_eq!(read, "some");
        fs::remove_dir_all(folder).unwrap();
    }
}
