// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! The bytes of a file: mapped if possible, else read into memory.

mod guard;

use crate::error::TraceError;
use crate::stop::GoOn;
use guard::Guard;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::ops::Deref;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::LazyLock;
use std::time::SystemTime;
use torpor_machine::units::{has_input, shown};

/// Interval of progress reports, and of releasing the pages of a map that were read.
pub(crate) const STEP_BYTES: usize = 16 << 20;
/// Length of a file's head, enough to recognise its format.
pub(crate) const HEAD_BYTES: usize = 64 << 10;

/// Memory limit for a recording that is not mapped (from a pipe or unpacked): 8 GiB or half of the
/// machine's memory, whichever is less.
pub(crate) static HELD_MAX_BYTES: LazyLock<u64> = LazyLock::new(|| {
    const MOST: u64 = 8 << 30;
    let memory_kb = || {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        let rest = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        rest.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    memory_kb().map_or(MOST, |kb| kb.saturating_mul(512).min(MOST))
});

pub(crate) enum Bytes {
    Mapped { map: memmap2::Mmap, guard: Guard, file: File, changed: Option<SystemTime> },
    Read(Vec<u8>),
}

/// Checks the head of a file of this name.
pub(crate) type Check = fn(&str, &[u8]) -> Result<(), TraceError>;

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped { map, .. } => map,
            Bytes::Read(bytes) => bytes,
        }
    }
}

impl Bytes {
    /// Opens a file; `-` is standard input. `max_bytes` limits what is not mapped.
    pub(crate) fn load(
        path: &Path,
        check: Option<Check>,
        max_bytes: u64,
        go_on: GoOn<'_>,
    ) -> Result<Bytes, TraceError> {
        let name = path.display().to_string();
        let io = |source| TraceError::Io { name: name.clone(), source };
        let place = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
        // Without O_NONBLOCK, opening a FIFO blocks until it has a writer.
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(place).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if metadata.is_dir() {
            return Err(folder(path, name));
        }
        // Pipes, devices and the files of /proc have no length to map.
        if metadata.is_file() && metadata.len() > 0 {
            // SAFETY: the map is read-only and private. The guard handles a file that shrinks.
            let map = unsafe { memmap2::Mmap::map(&file) }.map_err(io)?;
            if let Some(guard) = Guard::new(&map) {
                let changed = metadata.modified().ok();
                return Ok(Bytes::Mapped { map, guard, file, changed });
            }
        }
        read(file, &name, check, max_bytes, go_on).map(Bytes::Read)
    }

    /// Returns the memory of a file that is not mapped.
    pub(crate) fn held_bytes(&self) -> u64 {
        match self {
            Bytes::Mapped { .. } => 0,
            Bytes::Read(bytes) => bytes.len() as u64,
        }
    }

    /// Returns an error if the file became shorter since it was opened: some of the bytes read were
    /// then not its own.
    pub(crate) fn check(&self, name: &str) -> Result<(), TraceError> {
        match self {
            Bytes::Mapped { map, guard, file, .. } => {
                let length = file.metadata().map(|metadata| metadata.len());
                let is_all_there = length.is_ok_and(|length| length >= map.len() as u64);
                if guard.is_hit() || !is_all_there {
                    return Err(TraceError::Shortened { name: name.to_owned() });
                }
                Ok(())
            }
            Bytes::Read(_) => Ok(()),
        }
    }

    /// Returns true unless the file was written to since it was opened, or may have been.
    pub(crate) fn are_unchanged(&self) -> bool {
        match self {
            Bytes::Mapped { guard, file, changed, .. } => {
                let latest = file.metadata().and_then(|metadata| metadata.modified()).ok();
                !guard.is_hit() && latest.is_some() && latest == *changed
            }
            Bytes::Read(_) => true,
        }
    }

    /// Releases the pages of a map; they are read again when needed.
    pub(crate) fn release(&self) {
        if let Bytes::Mapped { map, .. } = self {
            // SAFETY: a private map that was never written to has the file's content whether its
            // pages are present or not. A failure is harmless: the kernel can reclaim the pages.
            let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        }
    }
}

/// Returns the error for a folder. A CTF trace is one that holds `metadata`, itself or in a
/// subfolder for each domain.
fn folder(path: &Path, name: String) -> TraceError {
    let inside = std::fs::read_dir(path).into_iter().flatten().flatten();
    let is_ctf = path.join("metadata").is_file()
        || inside.into_iter().any(|entry| entry.path().join("metadata").is_file());
    let (found, hint) = match is_ctf {
        true => (
            "the folder of a CTF trace of LTTng or perf",
            format!(
                "name the perf.data that it was made from, or print it as text and name that: \
                 `babeltrace2 --clock-seconds {} >trace.txt`",
                shown::line(&name)
            ),
        ),
        false => ("a folder", "name a recording in it, or several: FOLDER/*.dat".to_owned()),
    };
    TraceError::Folder { name, found, hint }
}

/// Reads a pipe or device to its end, if it has one.
fn read(
    mut file: File,
    name: &str,
    mut check: Option<Check>,
    max_bytes: u64,
    go_on: GoOn<'_>,
) -> Result<Vec<u8>, TraceError> {
    let io = |source| TraceError::Io { name: name.to_owned(), source };
    let mut bytes = Vec::new();
    let mut chunk = vec![0; HEAD_BYTES];
    loop {
        if !go_on() {
            return Err(TraceError::Stopped { name: name.to_owned() });
        }
        let read = match has_input(&file) {
            Ok(false) => continue,
            Ok(true) => file.read(&mut chunk),
            Err(error) => Err(error),
        };
        match read {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes.extend_from_slice(chunk.get(..count).unwrap_or(&chunk)),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(io(error)),
        }
        if bytes.len() >= HEAD_BYTES {
            check.take().map_or(Ok(()), |check| check(name, &bytes))?;
        }
        if bytes.len() as u64 > max_bytes {
            return Err(TraceError::TooLarge { name: name.to_owned(), max_bytes });
        }
    }
}
