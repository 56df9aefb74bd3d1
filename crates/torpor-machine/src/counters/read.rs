// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Detects the form of a dump from its content, and reads it.

use crate::counters::archive::{self, Content};
use crate::counters::builder::Builder;
use crate::counters::error::{CountersError, Failure};
use crate::counters::{Snapshot, bare, cpupower, folder, saved, text, turbostat};
use crate::units::open_input;
use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

/// Size of a tar file of a machine with 8192 CPUs.
const FILE_BYTES_MAX: u64 = 2 << 30;
/// Pipes carry texts. The bound also ends reading a device, which looks the same.
const PIPE_BYTES_MAX: u64 = 256 << 20;

/// Counters as a file has them.
#[derive(Clone, Debug, PartialEq)]
pub enum Dump {
    /// Counted since boot.
    Snapshot(Box<Snapshot>),
    /// Counted in intervals.
    Turbostat(turbostat::Log),
}

type Finish = fn(Builder) -> Result<Snapshot, Failure>;

/// Reads a folder or a file in any form.
///
/// # Errors
/// If nothing in it can be used, or it mixes two dumps.
pub fn read_dump(path: &Path) -> Result<Dump, CountersError> {
    let name = path.display().to_string();
    match path.is_dir() {
        true => folder::read(path).map(|read| Dump::Snapshot(Box::new(read))),
        false => read_any(&load(path)?, Builder::finish),
    }
    .map_err(|failure| failure.named(&name))
}

/// As [`read_dump`], of counters since boot.
///
/// # Errors
/// As [`read_dump`], and if it is a log of intervals.
pub fn read(path: &Path) -> Result<Snapshot, CountersError> {
    read_dump(path)
        .and_then(|dump| snapshot_of(dump).map_err(|e| e.named(&path.display().to_string())))
}

fn snapshot_of(dump: Dump) -> Result<Snapshot, Failure> {
    match dump {
        Dump::Snapshot(snapshot) => Ok(*snapshot),
        Dump::Turbostat(_) => Err(Failure::new(
            "it is a log of turbostat, which counts in intervals, not since boot",
            "`torpor diff LOG` shows its idle states",
        )),
    }
}

/// Returns a file's bytes, for [`read_bytes`].
pub(crate) fn load(path: &Path) -> Result<Vec<u8>, CountersError> {
    let name = path.display().to_string();
    let hint = "give a saved snapshot, a dump as text, a tar file, or a directory";
    let unreadable = |reason: String| Failure::new(reason, hint).named(&name);
    let io = |error: std::io::Error| unreadable(error.to_string());
    let file = open_input(path).map_err(io)?;
    let max = if path.is_file() { FILE_BYTES_MAX } else { PIPE_BYTES_MAX };
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > max {
        return Err(unreadable(format!("more than {max} bytes, which no dump has")));
    }
    Ok(bytes)
}

/// Reads a file's bytes, of counters since boot. `name` is for errors.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(name: &str, bytes: &[u8]) -> Result<Snapshot, CountersError> {
    read_any(bytes, Builder::finish).and_then(snapshot_of).map_err(|failure| failure.named(name))
}

/// Reads a file's bytes in any form. `name` is for errors.
///
/// # Errors
/// As [`read_dump`].
pub fn read_dump_bytes(name: &str, bytes: &[u8]) -> Result<Dump, CountersError> {
    read_any(bytes, Builder::finish).map_err(|failure| failure.named(name))
}

/// Reads the kernel's energy model (`/sys/kernel/debug/energy_model`) from a folder or a file,
/// in any form, and ignores the rest.
///
/// # Errors
/// If there is none.
pub fn read_energy_model(path: &Path) -> Result<Snapshot, CountersError> {
    let name = path.display().to_string();
    let snapshot = match path.is_dir() {
        true => folder::read_energy_model(path),
        false => read_any(&load(path)?, Builder::finish_any).and_then(snapshot_of),
    };
    let none = |snapshot: Snapshot| match snapshot.energy_model.is_empty() {
        false => Ok(snapshot),
        true => Err(Failure::new(
            "there is no energy model in it (energy_model/*/cpus)",
            "as root: grep -r . /sys/kernel/debug/energy_model",
        )),
    };
    snapshot.and_then(none).map_err(|failure| failure.named(&name))
}

/// `finish` checks the minimum that must be present.
fn read_any(bytes: &[u8], finish: Finish) -> Result<Dump, Failure> {
    let text = match archive::open(bytes)? {
        Content::Text(text) => text,
        Content::Tar(archive) => {
            let mut builder = Builder::default();
            archive::read(archive, &mut builder);
            return finish(builder).map(|read| Dump::Snapshot(Box::new(read)));
        }
    };
    if saved::is_saved(&text) {
        return saved::from_json(&text).map(|read| Dump::Snapshot(Box::new(read)));
    }
    let text = String::from_utf8_lossy(&text);
    // A line that ends in `=` goes on in the next where a mail was saved as it was sent
    // (quoted-printable, which writes `=` itself otherwise); only the headers of `head` end so.
    let text = match text.contains("<==") {
        true => text,
        false => Cow::Owned(text.replace("=\r\n", "").replace("=\n", "")),
    };
    match turbostat::is_log(&text) {
        true => turbostat::read(&text).map(Dump::Turbostat),
        false => read_text(&text, finish).map(|read| Dump::Snapshot(Box::new(read))),
    }
}

fn read_text(text: &str, finish: Finish) -> Result<Snapshot, Failure> {
    let mut builder = Builder::default();
    let (unread, known) = match cpupower::is_idle_info(text) {
        true => (cpupower::read(text, &mut builder), "a value of `cpupower idle-info`"),
        false => (text::read(text, &mut builder), text::KNOWN),
    };
    if builder.has_states() || builder.has_energy_model() {
        if let Some(note) = unread.note(known) {
            builder.note(note);
        }
        return finish(builder);
    }
    // With a driver's name and no states there is nothing to guess from.
    if builder.machine().driver.is_none() {
        bare::read(text, &mut builder)?;
    }
    finish(builder)
}
