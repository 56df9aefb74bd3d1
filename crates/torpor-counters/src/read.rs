// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Tells by its content what a dump is, and reads it.

use crate::archive::{self, Unpacked};
use crate::builder::Builder;
use crate::error::{CountersError, Failure};
use crate::{Snapshot, bare, folder, saved, text};
use std::borrow::Cow;
use std::fs;
use std::path::Path;

/// Reads a folder or a file, whatever its form.
///
/// # Errors
/// Where nothing in it can be used, or two dumps are mixed in it.
pub fn read(path: &Path) -> Result<Snapshot, CountersError> {
    let name = path.display().to_string();
    if path.is_dir() {
        return folder::read(path).map_err(|failure| failure.named(&name));
    }
    let bytes = fs::read(path).map_err(|error| {
        let hint = "give a saved snapshot, a dump as text, a tar file, or a directory";
        Failure::new(error.to_string(), hint).named(&name)
    })?;
    read_bytes(&name, &bytes)
}

/// Reads a file's bytes. `name` is what errors call it.
///
/// # Errors
/// Where nothing in it can be used, or two dumps are mixed in it.
pub fn read_bytes(name: &str, bytes: &[u8]) -> Result<Snapshot, CountersError> {
    read_any(bytes).map_err(|failure| failure.named(name))
}

fn read_any(bytes: &[u8]) -> Result<Snapshot, Failure> {
    let mut builder = Builder::default();
    if archive::is_gzip(bytes) {
        match archive::unpack(bytes)? {
            Unpacked::Text(bytes) => return read_text(&bytes, builder),
            Unpacked::Tar(archive) => archive::read(archive, &mut builder),
        }
        return builder.finish();
    }
    if archive::is_tar(bytes) {
        archive::read(bytes, &mut builder);
        return builder.finish();
    }
    read_text(bytes, builder)
}

fn read_text(bytes: &[u8], mut builder: Builder) -> Result<Snapshot, Failure> {
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
    if builder.has_states() {
        unread.tell(&mut builder);
        return builder.finish();
    }
    // With a driver's name and no states there is nothing to guess from.
    if builder.machine().driver.is_none() {
        bare::read(&text, &mut builder)?;
    }
    builder.finish()
}
