// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Files that appear whole or not at all: every output of Torpor is written through here.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// Opens what is to be read from its beginning to its end.
///
/// # Errors
/// As any opening; and of a FIFO that nobody writes to, where reading would wait for ever.
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
    // The writer exists: from here on it can be waited for.
    let file = File::open(path)?;
    Ok(io::Cursor::new(first).take(count as u64).chain(Heeding(file)))
}

/// Ends where a signal has come while it waited: who waits for a pipe is to heed Ctrl-C, and the
/// library's own functions would go on reading.
struct Heeding(File);

impl Read for Heeding {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => io::Error::other("interrupted by a signal"),
            _ => error,
        })
    }
}

/// Opens a file of a folder that somebody filled: a pipe there would keep us waiting for who writes
/// to it, and a device may have no end.
///
/// # Errors
/// As any opening; and of what is no file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

/// A file on its way: what is written goes next to its name, and [`WholeFile::commit`] puts it
/// there once it has reached the disk. Dropped before, it leaves what stood there as it was.
///
/// Pipes and devices (`/dev/stdout`, a shell's `>(…)`) are written as they are.
pub struct WholeFile {
    file: BufWriter<File>,
    /// None where it is written directly.
    beside: Option<PathBuf>,
    target: PathBuf,
}

/// Names next to the target that are tried; one is taken only by a killed run of this program, or
/// by another that writes just now.
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
        // One who may not write the file may still write its folder; that is no leave to replace it.
        // And a folder is no file.
        if known.is_some() {
            OpenOptions::new().write(true).open(&target)?;
        }
        let (file, beside) = open_beside(&target)?;
        let file = WholeFile { file: BufWriter::new(file), beside: Some(beside), target };
        if let Some(known) = known {
            let open = file.file.get_ref();
            open.set_permissions(known.permissions())?;
            // Root may keep another's file another's; others replace their own.
            let _ = fchown(open, Some(known.uid()), Some(known.gid()));
        }
        Ok(file)
    }

    /// The file takes its name.
    pub fn commit(mut self) -> io::Result<()> {
        self.file.flush()?;
        let Some(beside) = &self.beside else { return Ok(()) };
        self.file.get_ref().sync_all()?;
        fs::rename(beside, &self.target)?;
        self.beside = None;
        // The name, too, is to outlive a crash; a file system that cannot promise it has no error
        // that anybody could act on.
        let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let _ = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

/// Writes a whole file in one go.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes)?;
    file.commit()
}

fn open_beside(target: &Path) -> io::Result<(File, PathBuf)> {
    let process = std::process::id();
    for number in 0..TRIES_MAX {
        // Not the target's name with more to it: that might be too long for the file system.
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
    fn a_file_that_is_given_up_leaves_what_stood_there() {
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
    fn a_file_keeps_its_mode_and_a_link_stays_one() {
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
    fn what_is_no_file_is_written_as_it_is() {
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
