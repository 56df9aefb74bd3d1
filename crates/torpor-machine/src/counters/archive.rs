// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Unpacks files, and reads tar files of the tree.

use crate::counters::builder::{Builder, VALUE_BYTES_MAX};
use crate::counters::error::Failure;
use crate::counters::path::{self, Key};
use crate::units::Packing;
use std::borrow::Cow;
use std::io::Read;

/// Limits of an unpacked text, and of an archive.
const TEXT_BYTES_MAX: u64 = 256 << 20;
const ARCHIVE_BYTES_MAX: u64 = 2 << 30;
/// Position of `ustar` in a tar file's first block, and the block's length.
const MAGIC_AT: usize = 257;
const BLOCK: usize = 512;

fn is_tar(bytes: &[u8]) -> bool {
    bytes.len() >= BLOCK && bytes[MAGIC_AT..].starts_with(b"ustar")
}

/// A file's content, unpacked.
pub(crate) enum Content<'a> {
    Text(Cow<'a, [u8]>),
    /// Not unpacked yet: an archive is read while it is unpacked.
    Tar(Box<dyn Read + 'a>),
}

/// Opens a dump of any form, packed or not. All readers of dumps get their bytes here.
pub(crate) fn open(bytes: &[u8]) -> Result<Content<'_>, Failure> {
    let broken = |error: std::io::Error| {
        Failure::new(
            format!("it cannot be unpacked: {error}"),
            "the file is damaged, or its copy was cut short",
        )
    };
    let Some(packing) = Packing::of(bytes) else {
        return Ok(match is_tar(bytes) {
            true => Content::Tar(Box::new(bytes)),
            false => Content::Text(Cow::Borrowed(bytes)),
        });
    };
    let mut decoder = packing.decoder(bytes).map_err(broken)?;
    let mut start = Vec::new();
    decoder.by_ref().take(BLOCK as u64).read_to_end(&mut start).map_err(broken)?;
    if is_tar(&start) {
        return Ok(Content::Tar(Box::new(std::io::Cursor::new(start).chain(decoder))));
    }
    decoder.take(TEXT_BYTES_MAX).read_to_end(&mut start).map_err(broken)?;
    if start.len() as u64 >= TEXT_BYTES_MAX {
        return Err(Failure::new(
            format!("it unpacks to more than {TEXT_BYTES_MAX} bytes"),
            "a dump of the largest machine is smaller; is this the right file?",
        ));
    }
    Ok(Content::Text(Cow::Owned(start)))
}

/// Reads the values of an archive up to its end, or to a damaged place, which is reported.
pub(crate) fn read(archive: impl Read, builder: &mut Builder) {
    let mut archive = tar::Archive::new(archive.take(ARCHIVE_BYTES_MAX));
    let read = read_entries(&mut archive, builder);
    if let Err(error) = read {
        builder.note(format!("the archive is truncated, the rest is missing: {error}"));
    }
}

fn read_entries(
    archive: &mut tar::Archive<impl Read>,
    builder: &mut Builder,
) -> Result<(), std::io::Error> {
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            see_folder(&path, builder);
        }
        if let Some(key) = path::parse(&path).filter(|_| kind.is_file()) {
            let mut value = Vec::new();
            entry.by_ref().take(VALUE_BYTES_MAX as u64).read_to_end(&mut value)?;
            builder.put(key, &path, &value);
        }
    }
    Ok(())
}

/// A CPU without idle states shows in its folder alone.
fn see_folder(path: &str, builder: &mut Builder) {
    let online = format!("{}/online", path.trim_end_matches('/'));
    if let Some(Key::Cpu { cpu, .. }) = path::parse(&online) {
        builder.see_cpu(cpu);
    }
}
