// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Detects the form of a dump from its content, and reads it.

use crate::counters::archive::{self, Unpacked};
use crate::counters::builder::Builder;
use crate::counters::error::{CountersError, Failure};
use crate::counters::{Snapshot, bare, folder, saved, text};
use crate::units::open_input;
use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

/// Size of a tar file of a machine with 8192 CPUs.
const FILE_BYTES_MAX: u64 = 2 << 30;
/// Pipes carry texts. The bound also ends reading a device, which looks the same.
const PIPE_BYTES_MAX: u64 = 256 << 20;

type Finish = fn(Builder) -> Result<Snapshot, Failure>;

/// Reads a folder or a file in any form.
///
/// # Errors
/// If nothing in it can be used, or it mixes two dumps.
pub fn read(path: &Path) -> Result<Snapshot, CountersError> {
    let name = path.display().to_string();
    if path.is_dir() {
        return folder::read(path).map_err(|failure| failure.named(&name));
    }
    let bytes = load(path)?;
    read_bytes(&name, &bytes)
}

fn load(path: &Path) -> Result<Vec<u8>, CountersError> {
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

/// Reads a file's bytes. `name` is for errors.
///
/// # Errors
/// If nothing in it can be used, or it mixes two dumps.
pub fn read_bytes(name: &str, bytes: &[u8]) -> Result<Snapshot, CountersError> {
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
        false => read_any(&load(path)?, Builder::finish_any),
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
fn read_any(bytes: &[u8], finish: Finish) -> Result<Snapshot, Failure> {
    let mut builder = Builder::default();
    if archive::is_gzip(bytes) {
        match archive::unpack(bytes)? {
            Unpacked::Text(bytes) => return read_text(&bytes, builder, finish),
            Unpacked::Tar(archive) => archive::read(archive, &mut builder),
        }
        return finish(builder);
    }
    if archive::is_tar(bytes) {
        archive::read(bytes, &mut builder);
        return finish(builder);
    }
    read_text(bytes, builder, finish)
}

fn read_text(bytes: &[u8], mut builder: Builder, finish: Finish) -> Result<Snapshot, Failure> {
    if saved::is_saved(bytes) {
        return saved::from_json(bytes);
    }
    let text = String::from_utf8_lossy(bytes);
    // A line that ends in `=` goes on in the next where a mail was saved as it was sent
    // (quoted-printable, which writes `=` itself otherwise); only the headers of `head` end so.
    let text = match text.contains("<==") {
        true => text,
        false => Cow::Owned(text.replace("=\r\n", "").replace("=\n", "")),
    };
    let unread = text::read(&text, &mut builder);
    if builder.has_states() || builder.has_energy_model() {
        unread.tell(&mut builder);
        return finish(builder);
    }
    // With a driver's name and no states there is nothing to guess from.
    if builder.machine().driver.is_none() {
        bare::read(&text, &mut builder)?;
    }
    finish(builder)
}
